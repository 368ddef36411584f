"""Transactions: the records of what a commit changes, which other writers read.

    _transactions/{read_version}-{uuid}.txn     the bare message
    the manifest of the version                 the same bytes, inline

The uuid identifies a commit when the answer to its write was lost. Operations that only other
writers commit are reduced to what may conflict with own commits. They are read from the
transactions of versions that came in between, never applied or written. Source:
docs/format/table.md, "Transactions".
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pilum.errors import CorruptFileError, NotFoundError, UnsupportedFeatureError
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.clone import Clone
from pilum.table.commit.operations.create_index import CreateIndex
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
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import decode_message, load_manifest_and_transaction
from pilum.table.model.names import transaction_file_name, transaction_path
from pilum.table.versions.commit_handler import list_manifests

__all__ = [
    "FOREIGN_OPERATIONS",
    "OPERATIONS",
    "Committed",
    "ForeignOperation",
    "Transaction",
    "find_commit",
    "load_transaction",
    "uuid_at",
]

OPERATIONS: Mapping[str, type[Operation]] = {
    operation.arm: operation
    for operation in (
        Append,
        CreateIndex,
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
    "data_overlay": Footprint.of(changes=(Kind.ROWS, Kind.WRITTEN_VALUES)),
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
        message = decode_message(transaction_pb2.Transaction, store.read(path), path)
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
