"""Data and a mode in, one committed version out: what all writing of the front goes through.

check arguments ─▶ write data files ─▶ one commit
                        │                 │
                        └── fails ────────┴── fails for certain: the files are deleted again
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pilum.container.options import FileOptions
from pilum.dataset.inputs import to_reader
from pilum.errors import (
    CommitError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    UnsupportedFormatError,
)
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import Store
from pilum.table.align import align, new_schema
from pilum.table.commit import commit
from pilum.table.names import data_path
from pilum.table.operations.append import Append
from pilum.table.operations.overwrite import Overwrite
from pilum.table.snapshot import Snapshot
from pilum.table.transaction import Transaction
from pilum.table.write import WriteOptions, write_fragments

__all__ = ["WriteRequest", "properties_of", "publish", "write_transaction"]

_MODES = ("create", "append", "overwrite")
_COMMIT_MESSAGE = "__lance_commit_message"
_COMMIT_ATTEMPTS = 20


@dataclass(frozen=True)
class WriteRequest:
    """How to write.

    Attributes:
        mode: "create", "append" or "overwrite".
        max_rows_per_file: A file never has more rows.
        max_bytes_per_file: A file that has grown to this size gets no further batch.
        data_storage_version: File version as users write it; None for that of the table, or the
            default of this library for a new one.
        properties: Of the transaction.
        layout: Sizes and encodings within the files.
    """

    mode: str
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: FileOptions = field(default_factory=FileOptions)


def properties_of(
    commit_message: str | None, transaction_properties: Mapping[str, str] | None
) -> dict[str, str]:
    """The properties of a transaction, the message among them.

    Raises:
        InvalidInputError: If they are not texts.
    """
    found = dict(transaction_properties or {})
    if commit_message is not None:
        found[_COMMIT_MESSAGE] = commit_message
    if not all(isinstance(text, str) for pair in found.items() for text in pair):
        raise InvalidInputError(f"transaction properties and message must be texts, found {found}")
    return found


def write_transaction(
    store: Store, data: Any, schema: pa.Schema | None, request: WriteRequest
) -> Transaction:
    """Writes the data files and says what is to be committed. The table does not change.

    Args:
        store: Where the table is, or will be.
        data: See `pilum.dataset.inputs.to_reader`.
        schema: What the data is brought to.
        request: How.

    Raises:
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        SchemaMismatchError: If the data does not fit the table that it is appended to.
        InvalidInputError: For any other argument that makes no sense.
        UnsupportedFormatError: If the table has a file version that is not written.
    """
    snapshot = _existing(store, request.mode)
    version = _file_version(snapshot, request)
    options = WriteOptions(
        max_rows_per_file=request.max_rows_per_file,
        max_bytes_per_file=request.max_bytes_per_file,
        version=version,
        layout=request.layout,
    )
    reader = to_reader(data, schema)
    appends = request.mode == "append" and snapshot is not None
    table_schema = snapshot.schema if snapshot and appends else new_schema(reader.schema)
    alignment = align(reader.schema, table_schema)
    batches = (alignment.batch(batch) for batch in reader)
    fragments = write_fragments(store, alignment.schema, batches, options)
    operation = (
        Append(fragments)
        if appends
        else Overwrite(table_schema, fragments, empty_format=str(version))
    )
    read_version = snapshot.manifest.version if snapshot else 0
    return Transaction(read_version, operation, properties=request.properties)


def publish(store: Store, transaction: Transaction, attempts: int = _COMMIT_ATTEMPTS) -> Snapshot:
    """Commits, and deletes the new data files if that failed for certain.

    Raises:
        CommitConflictError: If another commit contradicts this one.
        CommitContentionError: If every attempt lost against another commit.
    """
    try:
        return Snapshot(store, commit(store, transaction, attempts=attempts))
    except (CommitError, InvalidInputError, UnsupportedFormatError):
        _discard(store, transaction)
        raise


def _existing(store: Store, mode: str) -> Snapshot | None:
    if mode not in _MODES:
        raise InvalidInputError(f"mode: expected one of {', '.join(_MODES)}, found {mode!r}")
    try:
        snapshot = Snapshot.latest(store)
    except DatasetNotFoundError:
        return None
    if mode == "create":
        raise DatasetAlreadyExistsError(
            f"there is a table at {store.uri} already; use mode='append' or mode='overwrite'"
        )
    return snapshot


def _file_version(snapshot: Snapshot | None, request: WriteRequest) -> FileVersion:
    asked = request.data_storage_version
    wanted = None if asked is None else FileVersion.parse(asked)
    if snapshot is None or (wanted and request.mode != "append"):
        return wanted or DEFAULT_VERSION
    version = snapshot.manifest.data_version
    if wanted not in {None, version}:
        raise InvalidInputError(
            f"data_storage_version: the table has {version}, so {asked!r} cannot be appended"
        )
    return version


def _discard(store: Store, transaction: Transaction) -> None:
    fragments = getattr(transaction.operation, "fragments", ())
    for file in (file for fragment in fragments for file in fragment.files):
        with suppress(OSError):
            store.delete(data_path(file.path))
