"""The history of a table: what each commit changed, and how two versions differ.

Rows are counted from manifests alone, where each commit has new fragments, lost fragments and
deleted rows. An update writes the new values of rows and deletes the old ones: as many rows as it
did both with are counted as changed. A compaction changes no row. Between two versions of a table
with stable row ids, rows are counted exactly, by their ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from pilum.dataset.base import LANCE_COMMIT_MESSAGE_KEY
from pilum.dataset.delta import count_changes
from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError, NotFoundError, PilumError
from pilum.format.schema import Schema
from pilum.pictures.history import Change, History, Step
from pilum.storage.base import Store
from pilum.table.commit.operations.data_overlay import DataOverlay
from pilum.table.commit.operations.data_replacement import DataReplacement
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update
from pilum.table.commit.transaction import Committed, load_transaction
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.index_segments import index_segments
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import ManifestName
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.history import no_table

__all__ = ["Difference", "VersionChange", "changes_of", "differences", "picture_of"]

_PICTURED = {
    "append": Change.ADDED,
    "overwrite": Change.REPLACED,
    "restore": Change.REPLACED,
    "clone": Change.REPLACED,
    "delete": Change.REMOVED,
    "update": Change.CHANGED,
    "data_replacement": Change.CHANGED,
    "merge": Change.COLUMNS,
    "project": Change.COLUMNS,
    "rewrite": Change.MAINTAINED,
    "reserve_fragments": Change.MAINTAINED,
    "create_index": Change.INDEXED,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences of a version from an earlier one.

    Attributes:
        rows_added: Number of rows that are new.
        rows_removed: Number of rows that are gone.
        rows_changed: Number of rows with other values.
        is_exact: Whether rows were identified by their ids.
        columns_added: Names and types of new columns.
        columns_removed: Names and types of columns that are gone.
        columns_changed: Name, earlier and later form of columns whose name, type or nullability
            changed.
        indices_added: Names of new indices.
        indices_removed: Names of indices that are gone.
        config_changed: Names of settings of the table that changed.
        fragments_added: Number of new fragments.
        fragments_removed: Number of fragments that are gone.
        bytes_added: Size of new data files, as far as it was recorded.
    """

    rows_added: int
    rows_removed: int
    rows_changed: int
    is_exact: bool
    columns_added: tuple[str, ...]
    columns_removed: tuple[str, ...]
    columns_changed: tuple[str, ...]
    indices_added: tuple[str, ...]
    indices_removed: tuple[str, ...]
    config_changed: tuple[str, ...]
    fragments_added: int
    fragments_removed: int
    bytes_added: int


@dataclass(frozen=True, slots=True)
class VersionChange:
    """One version, and what its commit changed.

    Attributes:
        version: Number of the version.
        committed: When it was committed, UTC; None if the manifest is damaged.
        operation: Name of the operation; empty if the transaction was not kept or is unknown.
        message: The message of the commit, if there is one.
        rows: Number of rows that are not deleted; None if the manifest is damaged.
        tags: Tags of the version.
        difference: What changed since the version before; None if that one cannot be read.
        fault: What is wrong with the manifest; empty if it is whole.
    """

    version: int
    committed: datetime | None = None
    operation: str = ""
    message: str = ""
    rows: int | None = None
    tags: tuple[str, ...] = ()
    difference: Difference | None = None
    fault: str = ""


def changes_of(
    dataset: LanceDataset, since: int = 0, most: int | None = None
) -> list[VersionChange]:
    """Return the versions after one, oldest first; the newest ones if there are more than `most`.

    Reads a manifest and a transaction for each version.
    """
    store = dataset.snapshot.store
    names = list_manifests(store)
    if not names:
        raise no_table(store)
    tags: dict[int, list[str]] = {}
    with suppress(PilumError, OSError):
        for tag, found in dataset.tags.list().items():
            if found["branch"] == dataset.snapshot.line.branch:
                tags.setdefault(found["version"], []).append(tag)
    wanted = [name for name in names if name.version > since]
    wanted = wanted if most is None else wanted[-most:] if most else []
    return [
        replace(one, tags=tuple(tags.get(one.version, ())))
        for one in _changes(store, names, wanted)
    ]


def _changes(
    store: Store, names: list[ManifestName], wanted: list[ManifestName]
) -> Iterator[VersionChange]:
    if not wanted:
        return
    first = names.index(wanted[0])
    before = _loaded(store, names[first - 1]) if first else None
    for name in wanted:
        found = _loaded(store, name)
        if isinstance(found, PilumError):
            yield VersionChange(name.version, fault=str(found).splitlines()[0])
        else:
            earlier = before if isinstance(before, Manifest) else None
            yield _change(store, name, earlier, found)
        before = found


def _loaded(store: Store, name: ManifestName) -> Manifest | PilumError:
    try:
        return load_named(store, name).sound()
    except PilumError as error:
        return error


def _change(
    store: Store, name: ManifestName, before: Manifest | None, now: Manifest
) -> VersionChange:
    committed: Committed | None = None
    with suppress(PilumError):
        committed = load_transaction(store, now.version, name.path)
    is_known = now.version == 1 or (before is not None and before.version == now.version - 1)
    return VersionChange(
        now.version,
        now.timestamp,
        "" if committed is None else committed.operation.arm,
        "" if committed is None else committed.properties.get(LANCE_COMMIT_MESSAGE_KEY, ""),
        now.num_rows,
        (),
        _difference(before, now, committed) if is_known else None,
    )


def _difference(before: Manifest | None, now: Manifest, committed: Committed | None) -> Difference:
    old = {} if before is None else {one.id: one for one in before.fragments}
    new = {one.id: one for one in now.fragments}
    added, removed, changed = _rows(old, new, committed)
    schema = None if before is None else before.schema
    columns_added, columns_removed, columns_changed = _columns(schema, now.schema)
    indices = _index_names(before), _index_names(now)
    config = {} if before is None else before.config
    return Difference(
        added,
        removed,
        changed,
        False,
        columns_added,
        columns_removed,
        columns_changed,
        tuple(sorted(indices[1] - indices[0])),
        tuple(sorted(indices[0] - indices[1])),
        _changed_keys(config, now.config),
        len(new.keys() - old.keys()),
        len(old.keys() - new.keys()),
        _new_bytes(old.values(), new.values()),
    )


def _rows(
    old: Mapping[FragmentId, Fragment],
    new: Mapping[FragmentId, Fragment],
    committed: Committed | None,
) -> tuple[int, int, int]:
    """Return the numbers of rows that were added, removed and changed."""
    operation = None if committed is None else committed.operation
    if isinstance(operation, Rewrite):
        return 0, 0, 0
    shared = old.keys() & new.keys()
    less = [old[one].num_rows - new[one].num_rows for one in shared]
    added = sum(one.num_rows for key, one in new.items() if key not in old)
    added -= sum(change for change in less if change < 0)
    removed = sum(one.num_rows for key, one in old.items() if key not in new)
    removed += sum(change for change in less if change > 0)
    changed = 0
    if isinstance(operation, Update):
        changed = min(added, removed)
        found = (operation.changed_rows(new[key]) for key in shared)
        in_place = sum(len(rows) for rows in found if rows is not None)
        return added - changed, removed - changed, changed + in_place
    if isinstance(operation, DataOverlay):
        changed = sum(len(operation.changed_rows(new[key])) for key in shared)
    if isinstance(operation, DataReplacement):
        replaced = {one.fragment_id for one in operation.replacements}
        changed = sum(new[key].num_rows for key in replaced & shared)
    return added, removed, changed


def _columns(
    before: Schema | None, now: Schema
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    old, new = _fields(before), _fields(now)
    changed = (
        f"{old[key][0]}: {old[key][1]} → {new[key][0]}: {new[key][1]}"
        for key in old.keys() & new.keys()
        if old[key] != new[key]
    )
    added = (f"{name}: {kind}" for key, (name, kind) in new.items() if key not in old)
    removed = (f"{name}: {kind}" for key, (name, kind) in old.items() if key not in new)
    return tuple(added), tuple(removed), tuple(sorted(changed))


def _fields(schema: Schema | None) -> dict[int, tuple[str, str]]:
    """Return path and form of each field by its id; nested fields are part of their column."""
    fields = () if schema is None else schema.fields
    return {
        int(one.id): (one.name, f"{one.arrow_type}{'' if one.nullable else ' not null'}")
        for one in fields
    }


def _index_names(manifest: Manifest | None) -> set[str]:
    if manifest is None:
        return set()
    return {one.name for one in index_segments(manifest.index_section)}


def _changed_keys(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(sorted(key for key in {*old, *new} if old.get(key) != new.get(key)))


def _new_bytes(old: Iterable[Fragment], new: Iterable[Fragment]) -> int:
    known = {file.path for one in old for file in one.files}
    files = (file for one in new for file in one.files)
    return sum(file.size_bytes or 0 for file in files if file.path not in known)


def differences(older: LanceDataset, newer: LanceDataset) -> Difference:
    """Compare two versions of one table.

    With stable row ids, rows are counted by their ids, for which the ids and versions of all rows
    are read. Without, the counts of all commits in between are added up: a row that two of them
    changed counts twice.

    Raises:
        InvalidInputError: If the first version is not older than the second, or they are on
            different branches.
        NotFoundError: If rows have no stable ids, and a version in between no longer exists.
    """
    begin, end = older.version, newer.version
    if begin >= end:
        raise InvalidInputError(f"expected an older and a newer version, found {begin} and {end}")
    if older.snapshot.line.branch != newer.snapshot.line.branch:
        raise InvalidInputError("the versions are on different branches")
    found = _difference(older.snapshot.manifest, newer.snapshot.manifest, None)
    if older.has_stable_row_ids and newer.has_stable_row_ids:
        counts = count_changes(older.snapshot, newer.snapshot)
        return replace(
            found,
            rows_added=counts.inserted,
            rows_removed=counts.deleted,
            rows_changed=counts.updated,
            is_exact=True,
        )
    steps = [one for one in changes_of(newer, since=begin) if one.version <= end]
    if len(steps) != end - begin or any(one.difference is None for one in steps):
        raise NotFoundError(
            f"{newer.uri}: rows have no stable ids, so that changes are counted commit by commit; "
            f"but some versions between {begin} and {end} no longer exist or are damaged"
        )
    parts = [one.difference for one in steps if one.difference is not None]
    return replace(
        found,
        rows_added=sum(one.rows_added for one in parts),
        rows_removed=sum(one.rows_removed for one in parts),
        rows_changed=sum(one.rows_changed for one in parts),
    )


def picture_of(title: str, changes: Iterable[VersionChange]) -> History:
    """Return the history as a picture; damaged versions are left out."""
    return History(
        title,
        [
            Step(
                one.version,
                one.rows,
                _pictured(one),
                one.operation or "unknown",
                one.committed,
                ", ".join(one.tags),
                one.message,
            )
            for one in changes
            if one.rows is not None and one.committed is not None
        ],
    )


def _pictured(change: VersionChange) -> Change:
    if change.version == 1:
        return Change.ADDED
    return _PICTURED.get(change.operation, Change.OTHER)
