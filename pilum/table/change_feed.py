"""The change feed: the rows that one version changed, as pieces of fragments in a fixed order.

    append             its new fragments                                  ADDED
    update, merge…     new and changed fragments, in this version         ADDED or CHANGED
                       fragments of the version before that lost rows     LOST
    rewrite, index…    nothing: the rows are what they were

The transaction says which case applies. There are two ways to follow a table. The first reads new
fragments alone: it works for every table, but continues only while rows are added. The second reads
changes of rows, and needs stable row ids. Both are pure functions of versions, so they can be
called repeatedly.

A row leaves a fragment when it is deleted, or when the whole fragment is removed. Its id is looked
up in the newer version: a row that is still there has only moved.

Two tables can be at one place, one after the other. Every piece has the mark of its version:

    {"version": 6, "timestamp_ns": 1763…, "transaction": "5-3b0c….txn"}

A table that was dropped and created again has versions of the same numbers, but no version of the
same transaction. Source: docs/spark.md, "Following a table".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.errors import (
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from pilum.format.rows import Addresses, addresses_in
from pilum.storage.base import Store
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.clone import Clone
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.operations.data_overlay import DataOverlay
from pilum.table.commit.operations.data_replacement import DataReplacement
from pilum.table.commit.operations.delete import Delete
from pilum.table.commit.operations.merge import Merge
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.operations.project import Project
from pilum.table.commit.operations.reserve import ReserveFragments
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update, UpdateMode
from pilum.table.commit.operations.update_bases import UpdateBases
from pilum.table.commit.operations.update_config import UpdateConfig
from pilum.table.commit.transaction import Committed, load_transaction
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_named
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.history import load_version, manifest_place

__all__ = [
    "Mark",
    "Piece",
    "Rows",
    "Step",
    "added_step",
    "changed_step",
    "deleted_row_ids",
    "deleted_rows",
    "rows_of_delete",
    "whole_step",
]

_ADVICE = (
    "Begin with a new checkpoint, which reads the rows of the new table; if they are to replace "
    "those of the old one, empty the target first"
)
_BATCH_IDS = 1 << 16
_NO_IDS = np.empty(0, dtype=np.uint64)
_NOTHING = DeletionVector(np.empty(0, dtype=np.uint32))
_NO_ROWS = (CreateIndex, Project, ReserveFragments, Rewrite, UpdateBases, UpdateConfig)
_ONLY_ADDS = (Append, Clone, Merge, *_NO_ROWS)
_IN_PLACE = (DataOverlay, DataReplacement)
"""Operations that give fragments new values and move no rows."""
_RECORDING = (*_IN_PLACE, Delete, Overwrite, Update)
"""Operations that change rows and record in which fragments."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The mark of a version, which differs from the mark of the same version of another table.

    Attributes:
        version: Number of the version.
        timestamp_ns: When it was committed, nanoseconds since 1970 (UTC).
        transaction: Name of the file of its transaction; empty if the writer kept none.
    """

    version: int
    timestamp_ns: int
    transaction: str

    @classmethod
    def of(cls, manifest: Manifest) -> Mark:
        """Return the mark of a version."""
        return cls(manifest.version, manifest.timestamp_ns, manifest.transaction_file)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Mark:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: If it is something else.
        """
        version, timestamp = int(values["version"]), int(values["timestamp_ns"])
        return cls(version, timestamp, str(values["transaction"]))

    def to_json(self) -> dict[str, Any]:
        """Return the mark as values of JSON."""
        return asdict(self)

    def require(self, manifest: Manifest, uri: str) -> None:
        """Raise InvalidInputError if a version of the same number belongs to another table."""
        if Mark.of(manifest) != self:
            raise _other_table(uri, self.version)

    def require_in(self, store: Store, latest: Manifest) -> None:
        """Raise InvalidInputError if this is another table, given its newest version.

        If the version was cleaned up, the older versions that are left must have earlier
        timestamps. If there are none, the check passes.
        """
        if self.version > latest.version:
            raise InvalidInputError(
                f"{store.uri} has versions up to {latest.version}, and the stream has come to "
                f"version {self.version}: the table was dropped and made again. {_ADVICE}"
            )
        if self.version == latest.version:
            self.require(latest, store.uri)
            return
        try:
            self.require(load_version(store, self.version), store.uri)
        except VersionNotFoundError as error:
            older = [name for name in list_manifests(store) if name.version < self.version]
            if older and load_named(store, older[-1]).timestamp_ns > self.timestamp_ns:
                raise _other_table(store.uri, self.version) from error


def _other_table(uri: str, version: int) -> InvalidInputError:
    return InvalidInputError(
        f"{uri}: version {version} is not the one that the stream has read: the table was dropped "
        f"and made again. {_ADVICE}"
    )


class Rows(Enum):
    """The kind of rows of a fragment that a piece contains."""

    ADDED = "added"
    """All rows of the fragment, which the version before did not have."""
    CHANGED = "changed"
    """The rows that the version added or changed."""
    LOST = "lost"
    """The rows that the next version no longer has."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of one fragment, as it is in the version of the mark."""

    rows: Rows
    mark: Mark
    fragment: Fragment

    @property
    def version(self) -> int:
        """Return the number of the version in which to read the fragment."""
        return self.mark.version

    @property
    def size_bytes(self) -> int:
        """Return the size of the fragment's files, as far as it was recorded."""
        return sum(file.size_bytes or 0 for file in self.fragment.files)


@dataclass(frozen=True, slots=True)
class Step:
    """The rows that one version added, changed or deleted, in pieces of a fixed order.

    `changed_by` is the name of the operation, if it also changed older rows; None if new fragments
    are the whole change.
    """

    version: int
    pieces: tuple[Piece, ...]
    changed_by: str | None = None


def whole_step(snapshot: Snapshot) -> Step:
    """Return all rows of a version, as the first step."""
    return _step(snapshot, _added(snapshot, snapshot.manifest.fragments))


def added_step(snapshot: Snapshot) -> Step:
    """Return the fragments that a version added.

    If the version also changed values, the step contains the changed fragments too. They are whole
    fragments, so that their unchanged rows are reported a second time. If the operation does not
    record what it changed, the step contains all fragments.

    Raises:
        VersionNotFoundError: If the version before is needed and no longer exists.
    """
    committed = _committed(snapshot)
    operation = committed and committed.operation
    new = _added(snapshot, _new_fragments(snapshot, committed))
    if isinstance(operation, _ONLY_ADDS) or _is_first(committed):
        return _step(snapshot, new)
    if isinstance(operation, Update) and not (operation.updated or operation.removed):
        return _step(snapshot, new)  # a merge that matched no row
    if isinstance(operation, _RECORDING):
        new += _added(snapshot, _changed(snapshot, committed))
        return _step(snapshot, new, changed_by=_arm(committed))
    return replace(whole_step(snapshot), changed_by=_arm(committed))


def changed_step(snapshot: Snapshot) -> Step:
    """Return the rows that a version added, changed and deleted, identified by stable row ids.

    Raises:
        UnsupportedFeatureError: If the operation does not record which rows it changed.
        VersionNotFoundError: If the version before is needed and no longer exists.
    """
    committed = _committed(snapshot)
    operation = committed and committed.operation
    if isinstance(operation, _ONLY_ADDS) or _is_first(committed):
        return added_step(snapshot)
    if not isinstance(operation, _RECORDING) or _hides_rows(operation):
        raise UnsupportedFeatureError(
            f"{snapshot.store.uri}, version {snapshot.manifest.version}: {_arm(committed)} does "
            "not record which rows it changed; begin again after it, with a new checkpoint"
        )
    lost = () if isinstance(operation, _IN_PLACE) else _lost(snapshot)
    rows = Rows.ADDED if isinstance(operation, Overwrite) else Rows.CHANGED
    new = (*_new_fragments(snapshot, committed), *_changed(snapshot, committed))
    return _step(snapshot, (*lost, *_pieces(snapshot, rows, new)))


def _step(snapshot: Snapshot, pieces: Iterable[Piece], changed_by: str | None = None) -> Step:
    return Step(snapshot.manifest.version, tuple(pieces), changed_by)


def _committed(snapshot: Snapshot) -> Committed | None:
    """Return the transaction that made a version, None if it was not kept."""
    version = snapshot.manifest.version
    path, _ = manifest_place(snapshot.store, version)
    try:
        return load_transaction(snapshot.store, version, path)
    except NotFoundError:
        return None


def _is_first(committed: Committed | None) -> bool:
    creates = committed is not None and isinstance(committed.operation, Overwrite)
    return creates and committed is not None and committed.read_version == 0


def _arm(committed: Committed | None) -> str:
    return "an unknown operation" if committed is None else f"{committed.operation.arm!r}"


def _hides_rows(operation: Operation) -> bool:
    """Return whether columns were rewritten without a record of the changed rows."""
    if not isinstance(operation, Update) or operation.mode is not UpdateMode.COLUMNS:
        return False
    return any(fragment.id not in operation.offsets for fragment in operation.updated)


def _added(snapshot: Snapshot, fragments: Iterable[Fragment]) -> tuple[Piece, ...]:
    return _pieces(snapshot, Rows.ADDED, fragments)


def _pieces(snapshot: Snapshot, rows: Rows, fragments: Iterable[Fragment]) -> tuple[Piece, ...]:
    mark = Mark.of(snapshot.manifest)
    return tuple(Piece(rows, mark, one) for one in fragments)


def _new_fragments(snapshot: Snapshot, committed: Committed | None) -> list[Fragment]:
    """Return the fragments that are in no earlier version.

    They are matched to the transaction by their files.
    """
    operation = committed and committed.operation
    fragments = list(snapshot.manifest.fragments)
    if isinstance(operation, (Overwrite, Clone)):
        return fragments
    if isinstance(operation, Merge):
        before = {fragment.id for fragment in _before(snapshot).manifest.fragments}
        return [fragment for fragment in fragments if fragment.id not in before]
    new = operation.fragments if isinstance(operation, Append) else ()
    new = operation.new if isinstance(operation, Update) else new
    paths = {file.path for fragment in new for file in fragment.files}
    return [one for one in fragments if any(file.path in paths for file in one.files)]


def _changed(snapshot: Snapshot, committed: Committed | None) -> list[Fragment]:
    """Return the fragments that existed before and in which the version changed values."""
    operation, ids = committed and committed.operation, set[int]()
    if isinstance(operation, DataReplacement):
        ids = {one.fragment_id for one in operation.replacements}
    elif isinstance(operation, DataOverlay):
        ids = {one.fragment_id for one in operation.groups}
    elif isinstance(operation, Update) and operation.mode is UpdateMode.COLUMNS:
        ids = {fragment.id for fragment in operation.updated}
    return [fragment for fragment in snapshot.manifest.fragments if fragment.id in ids]


def _lost(snapshot: Snapshot) -> tuple[Piece, ...]:
    """Return the fragments of the version before that lost rows.

    Other fragments may have these rows now.
    """
    now = {fragment.id: fragment for fragment in snapshot.manifest.fragments}
    before = _before(snapshot)
    return _pieces(
        before,
        Rows.LOST,
        (
            fragment
            for fragment in before.manifest.fragments
            if fragment.id not in now or now[fragment.id].deletion_file != fragment.deletion_file
        ),
    )


def _before(snapshot: Snapshot) -> Snapshot:
    return Snapshot.at(snapshot.store, snapshot.manifest.version - 1, snapshot.session)


def rows_of_delete(snapshot: Snapshot) -> Iterator[tuple[Snapshot, Addresses]]:
    """Yield the version before and addresses there of the rows that a version deleted.

    Nothing is yielded if it was not made by a delete, which moves no rows, or if the version before
    no longer exists.
    """
    committed = _committed(snapshot)
    if committed is None or not isinstance(committed.operation, Delete):
        return
    now = {fragment.id: fragment for fragment in snapshot.manifest.fragments}
    with suppress(VersionNotFoundError):
        before = _before(snapshot)
        for piece in _lost(snapshot):
            old, new = piece.fragment, now.get(piece.fragment.id)
            gone = snapshot.deletions(new) if new else None
            rows = np.arange(old.physical_rows) if gone is None else gone.offsets
            known = before.deletions(old) or _NOTHING
            yield before, addresses_in(old.id, rows[~known.contains(rows.astype(np.int64))])


def deleted_row_ids(older: Snapshot, newer: Snapshot) -> Iterator[NDArray[np.uint64]]:
    """Yield the stable ids of the rows that a version has and a later one does not have.

    They are uint64, never empty, in parts of at most 65,536 ids.
    """
    now = {fragment.id: fragment for fragment in newer.manifest.fragments}
    for fragment in older.manifest.fragments:
        yield from _deleted(older, fragment, newer, now.get(fragment.id))


def deleted_rows(older: Snapshot, fragment: Fragment, newer: Snapshot) -> NDArray[np.int64]:
    """Return the rows of one fragment that a later version does not have in any fragment.

    They are physical rows of the fragment, int64, ascending.
    """
    now = {fragment.id: fragment for fragment in newer.manifest.fragments}
    ids = list(_deleted(older, fragment, newer, now.get(fragment.id)))
    found = older.reader(fragment).row_ids.find(np.concatenate([_NO_IDS, *ids]))
    return np.sort(found)


def _deleted(
    older: Snapshot, fragment: Fragment, newer: Snapshot, now: Fragment | None
) -> Iterator[NDArray[np.uint64]]:
    gone = _gone(older, fragment, newer, now)
    for start in range(0, len(gone), _BATCH_IDS):
        ids = gone.slice(start, start + _BATCH_IDS).ids()
        _, is_there = row_id_index(newer).find(ids)
        if not is_there.all():
            yield ids[~is_there]


def _gone(
    older: Snapshot, before: Fragment, newer: Snapshot, now: Fragment | None
) -> RowIdSequence:
    """Return the ids of the rows that a fragment no longer has; other fragments may have them."""
    reader = older.reader(before)
    if now is None or now.row_ids != before.row_ids:
        return reader.row_ids.without(reader.deletions)
    if now.deletion_file == before.deletion_file:
        return RowIdSequence()
    deleted = newer.deletions(now) or _NOTHING
    new = deleted.without(reader.deletions or _NOTHING)
    return RowIdSequence.of(reader.row_ids.at(new.offsets.astype(np.int64)))
