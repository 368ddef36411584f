"""Transactions: the records of what a commit changes, and the versions that they make.

    _transactions/{read_version}-{uuid}.txn     the bare message
    the manifest of the version                 the same bytes, inline

The uuid identifies a commit when the answer to its write was lost. Operations that only other
writers commit are reduced to what may conflict with own commits. They are read from the
transactions of versions that came in between, never applied or written.

`next_version` applies the operation to the newest version. Row ids and versions are assigned to new
rows there, when both are known:

    new fragment          at the commit, next row id 40, version 7
    5 rows, no ids        ids 40 to 45, created at 7, changed at 7
    5 rows, ids 9 3       ids 9 3 40 41 42; moved rows keep their creation version

A commit that lost against another one repeats this. Source: docs/format/table.md, "Transactions"
and "Row ids".
"""

from __future__ import annotations

import time
import uuid as uuids
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.jobs import Job
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
from pilum.table.commit.operations.restore import Restore
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update
from pilum.table.commit.operations.update_bases import UpdateBases
from pilum.table.commit.operations.update_config import UpdateConfig
from pilum.table.model.base_paths import with_bases
from pilum.table.model.dictionaries import with_dictionaries_of_files
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import THIS_WRITER, Manifest
from pilum.table.model.manifest_file import load_manifest_and_transaction
from pilum.table.model.names import transaction_file_name, transaction_path
from pilum.table.model.next_fragments import ChangedFragments, GrownFragments
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import StoredSequence
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.session import DEFAULT_SESSION
from pilum.table.read.snapshot import Snapshot, with_counted_rows
from pilum.table.versions.commit_handler import list_manifests

__all__ = [
    "FOREIGN_OPERATIONS",
    "OPERATIONS",
    "Committed",
    "ForeignOperation",
    "Transaction",
    "continuable",
    "find_commit",
    "load_transaction",
    "next_version",
    "uuid_at",
    "with_assigned_rows",
]

OPERATIONS: Mapping[str, type[Operation]] = {
    operation.arm: operation
    for operation in (
        Append,
        CreateIndex,
        DataOverlay,
        DataReplacement,
        Clone,
        Delete,
        Merge,
        Overwrite,
        Project,
        ReserveFragments,
        Restore,
        Rewrite,
        Update,
        UpdateBases,
        UpdateConfig,
    )
}
"""The operations of this library, by field name in the `Transaction` message."""


@dataclass(frozen=True, slots=True)
class ForeignOperation:
    """An operation of another writer, reduced to its footprint."""

    arm: str
    changes: Footprint

    def footprint(self) -> Footprint:
        """Return what the operation changes; its writer checks what it relies on."""
        return self.changes


FOREIGN_OPERATIONS: Mapping[str, Footprint] = {
    "update_mem_wal_state": Footprint.of(changes=(Kind.MEMTABLES,)),
}
"""The operations of other writers, by field name in the `Transaction` message: what they change."""


def _new_uuid() -> str:
    return str(uuids.uuid4())


@dataclass(frozen=True, slots=True)
class Transaction:
    """One change to be committed.

    Attributes:
        read_version: The version that the change was made for; 0 if there was no table.
        operation: The change.
        uuid: A universally unique id.
        properties: Key-value notes for readers of the history.
        read: The version that the change was made for, if available. It is compared with the newest
            version if versions in between were cleaned up. Not part of the message.
        follows_directly: Whether no version may come between; not part of the message.
    """

    read_version: int
    operation: Operation
    uuid: str = field(default_factory=_new_uuid)
    properties: Mapping[str, str] = field(default_factory=dict)
    read: Manifest | None = field(default=None, compare=False, repr=False)
    follows_directly: bool = field(default=False, compare=False)

    @property
    def file_name(self) -> str:
        """Return the file name below `_transactions/`."""
        return transaction_file_name(self.read_version, self.uuid)

    def to_bytes(self) -> bytes:
        """Return the message as stored in the file and in the manifest."""
        message = transaction_pb2.Transaction(
            read_version=self.read_version,
            uuid=self.uuid,
            transaction_properties=self.properties,
        )
        arm = getattr(message, self.operation.arm)
        arm.SetInParent()
        arm.CopyFrom(self.operation.to_proto())
        data: bytes = message.SerializeToString(deterministic=True)
        return data


@dataclass(frozen=True, slots=True)
class Committed:
    """A transaction that became a version."""

    version: int
    read_version: int
    uuid: str
    operation: Operation | ForeignOperation
    properties: Mapping[str, str]

    @classmethod
    def from_proto(cls, version: int, message: transaction_pb2.Transaction) -> Committed:
        """Parse a message; raise UnsupportedFeatureError if the operation is unknown."""
        arm = message.WhichOneof("operation")
        if arm is None:
            raise UnsupportedFeatureError(
                f"version {version} was made by an operation that this library does not support"
            )
        return cls(
            version,
            message.read_version,
            message.uuid,
            _operation(arm, getattr(message, arm)),
            dict(message.transaction_properties),
        )


def _operation(arm: str, body: Any) -> Operation | ForeignOperation:
    if known := OPERATIONS.get(arm):
        return known.from_proto(body)
    return ForeignOperation(arm, FOREIGN_OPERATIONS[arm])


def load_transaction(store: Store, version: int, manifest_path: str) -> Committed:
    """Read the transaction of a version: from its manifest, or from the file that it names.

    NotFoundError is raised if the manifest is gone, or it is in neither place.
    """
    manifest, message = load_manifest_and_transaction(store, manifest_path)
    if message is None:
        if not manifest.transaction_file:
            raise NotFoundError(
                f"version {version} of {store.uri} has no record of its transaction"
            )
        path = transaction_path(manifest.transaction_file)
        message = parse_message(transaction_pb2.Transaction, store.read(path), path)
    try:
        return Committed.from_proto(version, message)
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"metadata is not UTF-8: {error}", manifest_path) from error


def find_commit(store: Store, uuid: str, after_version: int) -> int | None:
    """Return the version after `after_version` that a transaction became, None if there is none."""
    for name in list_manifests(store, after_version + 1):
        if name.version > after_version and uuid_at(store, name.path) == uuid:
            return name.version
    return None


def uuid_at(store: Store, path: str) -> str:
    """Return the uuid of the transaction that the manifest at a path belongs to."""
    manifest, transaction = load_manifest_and_transaction(store, path)
    if transaction is not None:
        return transaction.uuid
    _, _, uuid = manifest.transaction_file.removesuffix(".txn").partition("-")
    return uuid


_MAX_ROW_ID = 2**64 - 1


def continuable(store: Store, base: Manifest) -> Manifest:
    """Return a version as the base of the next one, with row counts that old writers left out.

    UnsupportedFeatureError is raised if it uses a feature that would be lost.
    """
    base.require_continuable(f"{store.uri}, version {base.version}")
    counted = with_counted_rows(store, base, DEFAULT_SESSION)
    # With a new writer name on them, the bitmaps of old writers would no longer be repaired.
    writer = counted.writer_version if counted.has_doubtful_coverage else THIS_WRITER
    return replace(counted, writer_version=writer)


def next_version(
    store: Store, base: Manifest, transaction: Transaction, job: Job | None
) -> Manifest:
    """Return the manifest of the version after `base`, which is the result of `continuable`.

    The operation is prepared for `base`; the config records the job, if there is one.
    """
    content = transaction.operation.apply(base)
    if content.is_legacy:
        known = {fragment.files for fragment in base.fragments}
        new = [fragment for fragment in content.fragments if fragment.files not in known]
        based = with_bases(store, content.base_paths)
        content = with_dictionaries_of_files(based, content, new)
    if transaction.operation.writes_rows:
        content = with_assigned_rows(Snapshot(store, base), content)
    if job:
        content = replace(content, config=job.recorded(content.config, base.version + 1))
    highest = content.highest_fragment_id
    return replace(
        content.with_current_coverage(),
        version=base.version + 1,
        timestamp_ns=time.time_ns(),
        max_fragment_id=None if highest < 0 else highest,
        transaction_file=transaction.file_name,
    ).with_flags()


def with_assigned_rows(before: Snapshot, content: Manifest) -> Manifest:
    """Return the content of a version with row ids and versions for all rows.

    In a table without stable row ids, those that new fragments came with are removed.
    InvalidInputError is raised if the sequences of a new fragment do not fit its rows.
    """
    base, fragments = before.manifest.fragments, content.fragments
    kept, new = fragments, Fragments()
    if isinstance(fragments, GrownFragments):
        kept, new = fragments.base, fragments.new
    if kept is base or (isinstance(kept, ChangedFragments) and kept.base is base):
        # Changed fragments keep their sequences, as only rows of them were deleted.
        made, next_row_id = _assigned(before, content, new, {})
        return replace(content, fragments=GrownFragments(kept, made), next_row_id=next_row_id)
    known = {fragment.id: _sequences(fragment) for fragment in base}
    changed, next_row_id = _assigned(before, content, fragments, known)
    return replace(content, fragments=Fragments(changed), next_row_id=next_row_id)


def _assigned(
    before: Snapshot,
    content: Manifest,
    fragments: Iterable[Fragment],
    known: Mapping[FragmentId, tuple[StoredSequence | None, ...]],
) -> tuple[list[Fragment], int]:
    """Return fragments, of which new and changed ones get ids and versions; and the next free id.

    `known` has the sequences of the fragments that are neither.
    """
    next_row_id = content.next_row_id
    if not content.reader_flags & Feature.STABLE_ROW_IDS:
        return [one if one.id in known else _plain(one) for one in fragments], next_row_id
    next_row_id = max(next_row_id, before.manifest.next_row_id)
    assigned = []
    for fragment in fragments:
        if known.get(fragment.id) != _sequences(fragment):
            fragment, next_row_id = _completed(before, fragment, next_row_id)
        assigned.append(fragment)
    return assigned, next_row_id


def _sequences(fragment: Fragment) -> tuple[StoredSequence | None, ...]:
    return fragment.row_ids, fragment.created_at, fragment.updated_at


def _plain(fragment: Fragment) -> Fragment:
    if _sequences(fragment) == (None, None, None):
        return fragment
    return replace(fragment, row_ids=None, created_at=None, updated_at=None)


def _completed(before: Snapshot, fragment: Fragment, next_row_id: int) -> tuple[Fragment, int]:
    """Return a fragment with an id and versions for every row, and the next free id."""
    num_rows, version = fragment.physical_rows, before.manifest.version + 1
    try:
        row_ids, next_row_id = _with_ids(fragment.row_ids, num_rows, next_row_id)
        created_at = fragment.created_at or _created_at(before, fragment)
        return replace(
            fragment,
            row_ids=row_ids,
            created_at=_with_version(created_at, num_rows, version),
            updated_at=_with_version(fragment.updated_at, num_rows, version),
        ), next_row_id
    except CorruptFileError as error:
        raise InvalidInputError(f"fragment {fragment.id}: {error}") from error


def _created_at(before: Snapshot, fragment: Fragment) -> bytes:
    """Return the creation versions of the rows that a new fragment has ids for.

    They are read from the fragments that contained the rows before.
    """
    if not isinstance(fragment.row_ids, bytes):
        return b""
    ids = RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows).ids()
    versions = np.zeros(len(ids), dtype=np.uint64)
    for old in before.manifest.fragments if len(ids) else ():
        reader = before.reader(old)
        offsets = reader.row_ids.find(ids)
        here = offsets >= 0
        versions[here] = reader.created_at.at(offsets[here])
    if not versions.all():
        missing = int(ids[versions.argmin()])
        raise InvalidInputError(f"a moved row with the id {missing}, which no fragment has")
    return VersionSequence.of(versions).to_bytes()


def _with_ids(
    stored: StoredSequence | None, num_rows: int, next_row_id: int
) -> tuple[StoredSequence | None, int]:
    if stored is not None and not isinstance(stored, bytes):
        return stored, next_row_id  # sequences outside of the manifest are complete
    given = RowIdSequence.from_bytes(stored or b"", num_rows)
    if given.highest >= next_row_id:
        raise InvalidInputError(
            f"a moved row with the id {given.highest}, but the next new one is {next_row_id}"
        )
    stop = next_row_id + num_rows - len(given)
    if stop > _MAX_ROW_ID:
        raise InvalidInputError("there are no row ids left")
    if len(given) == num_rows:
        return stored, next_row_id
    new = RowIdSequence.of(range(next_row_id, stop))
    return RowIdSequence.concatenate([given, new]).to_bytes(), stop


def _with_version(
    stored: StoredSequence | None, num_rows: int, version: int
) -> StoredSequence | None:
    if stored is not None and not isinstance(stored, bytes):
        return stored
    given = VersionSequence.from_bytes(stored or b"", num_rows)
    if len(given) == num_rows:
        return stored
    new = VersionSequence.uniform(num_rows - len(given), version)
    return VersionSequence.concatenate([given, new]).to_bytes()
