"""The write path: turns data and a mode into one committed version.

check arguments ─▶ write data files ─▶ one commit
                        │                 │
                        └── fails ────────┴── certainly fails: the files are deleted
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pilum.container.open import default_version, require_storable
from pilum.container.options import FileOptions
from pilum.dataset.base_paths import BaseRequest
from pilum.dataset.inputs import to_reader
from pilum.errors import (
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
)
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.changes.add_columns import require_not_legacy
from pilum.table.changes.schema_changes import with_missing_columns
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.merge import Merge, appended_to
from pilum.table.commit.operations.overwrite import IfCreated, Overwrite
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align, new_schema
from pilum.table.write.blob_inputs import ingested_batches, with_blobs_v2
from pilum.table.write.write import WriteOptions, write_fragments

__all__ = [
    "BlobRequest",
    "WriteRequest",
    "require_version",
    "write_transaction",
]

_MODES = ("create", "append", "overwrite")
_DEFAULTS = WriteOptions()


@dataclass(frozen=True)
class BlobRequest:
    """How blobs are written.

    Attributes:
        external: "reference" keeps URIs, "ingest" reads and stores their content.
        allow_uris: Whether references may point outside the table.
        pack_bytes: Size at which a packed blob file is closed; None for the default.
    """

    external: str = "reference"
    allow_uris: bool = False
    pack_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.external not in {"reference", "ingest"}:
            raise InvalidInputError(
                f"external_blob_mode: expected reference or ingest, found {self.external!r}"
            )
        if self.external == "ingest" and self.allow_uris:
            raise InvalidInputError(
                "allow_external_blob_outside_bases: there are no references with "
                "external_blob_mode='ingest'"
            )

    @property
    def ingests(self) -> bool:
        """Return whether blobs given by URI are read and stored."""
        return self.external == "ingest"


@dataclass(frozen=True)
class WriteRequest:
    """The request for one write.

    Attributes:
        mode: "create", "append" or "overwrite".
        max_rows_per_file: Maximum number of rows in a file.
        max_bytes_per_file: A file that has reached this size receives no further batches.
        data_storage_version: File version as a string; None for that of the table, or the default
            of this library for a new one.
        properties: Properties of the transaction.
        layout: Sizes and encodings within files.
        blobs: How to write blobs.
        stable_row_ids: Whether rows of a new table keep their ids when they move.
        config: Config of a new table.
        bases: Base paths to write to.
        schema_mode: What to do with columns that the table lacks: None rejects them, "merge" adds
            them.
    """

    mode: str
    max_rows_per_file: int
    max_bytes_per_file: int
    data_storage_version: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    layout: FileOptions = field(default_factory=FileOptions)
    blobs: BlobRequest = BlobRequest()
    stable_row_ids: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    bases: BaseRequest = field(default_factory=BaseRequest)
    schema_mode: str | None = None

    def __post_init__(self) -> None:
        if self.schema_mode not in {None, "merge"}:
            raise InvalidInputError(f"schema_mode: expected merge, found {self.schema_mode!r}")
        if self.schema_mode and self.mode != "append":
            raise InvalidInputError("schema_mode: only with mode='append'")


def write_transaction(
    store: Store,
    data: Any,
    schema: pa.Schema | None,
    request: WriteRequest,
    pinned: Snapshot | None = None,
) -> Transaction:
    """Write the data files and return the transaction to commit.

    The table does not change.

    Args:
        store: Store of the table, which may not exist yet.
        data: The rows; see `pilum.dataset.inputs.to_reader`.
        schema: Schema that the data is cast to.
        request: How to write.
        pinned: The version that the write continues; None for the newest.

    Raises:
        DatasetAlreadyExistsError: If `mode` is "create" and a table exists.
        SchemaMismatchError: If the data does not fit the table that it is appended to.
        InvalidInputError: If any other argument is invalid.
        UnsupportedFormatError: If writing the file version of the table is not supported.
    """
    snapshot = _existing(store, request.mode, pinned)
    bases = request.bases.known(snapshot)
    reader = to_reader(data, schema)
    version = _file_version(snapshot, request, reader.schema)
    options = WriteOptions(
        max_rows_per_file=request.max_rows_per_file,
        max_bytes_per_file=request.max_bytes_per_file,
        version=version,
        layout=request.layout,
        pack_bytes=request.blobs.pack_bytes or _DEFAULTS.pack_bytes,
        allow_uris=request.blobs.allow_uris,
        targets=request.bases.chosen(store, bases),
    )
    if version.has_blobs_v2:
        reader = with_blobs_v2(reader)
    appends = request.mode == "append" and snapshot is not None
    table_schema = (
        _schema_to_append_to(snapshot, reader.schema, request)
        if snapshot and appends
        else new_schema(reader.schema, _first_field_id(snapshot) if snapshot else 0)
    )
    require_storable(table_schema, version, has_sidecars=True)
    alignment = align(reader.schema, table_schema)
    batches: Iterator[pa.RecordBatch] = map(alignment.batch, reader)
    if request.blobs.ingests:
        batches = ingested_batches(alignment.schema, batches)
    fragments = write_fragments(store, alignment.schema, batches, options)
    operation = (
        _append(snapshot, table_schema, fragments)
        if snapshot and appends
        else Overwrite(
            table_schema,
            fragments,
            request.config if snapshot is None else {},
            empty_format=str(version),
            stable_row_ids=request.stable_row_ids,
            bases=bases if snapshot is None else (),
            if_created=IfCreated.REPLACE if snapshot else IfCreated(request.mode),
        )
    )
    read = snapshot.manifest if snapshot else None
    read_version = read.version if read else 0
    return Transaction(read_version, operation, properties=request.properties, read=read)


def _schema_to_append_to(snapshot: Snapshot, incoming: pa.Schema, request: WriteRequest) -> Schema:
    """Return the schema of the table after the append."""
    if request.schema_mode is None:
        return snapshot.schema
    schema = with_missing_columns(snapshot.manifest, incoming)
    if schema != snapshot.schema:
        require_not_legacy(snapshot)
    return schema


def _append(snapshot: Snapshot, schema: Schema, fragments: tuple[Fragment, ...]) -> Operation:
    """Return an operation that appends rows, and new columns if there are any."""
    if schema == snapshot.schema:
        return Append(fragments, schema)
    return Merge(
        schema,
        appended_to(snapshot.manifest, fragments),
        preserves_nullability=True,
        written=tuple(
            file.path for fragment in fragments for file in fragment.files if file.base_id is None
        ),
        appended=fragments,
        read_schema=snapshot.schema,
    )


def _existing(store: Store, mode: str, pinned: Snapshot | None) -> Snapshot | None:
    if mode not in _MODES:
        raise InvalidInputError(f"mode: expected one of {', '.join(_MODES)}, found {mode!r}")
    try:
        snapshot = pinned or Snapshot.latest(store)
    except DatasetNotFoundError:
        return None
    if mode == "create":
        raise DatasetAlreadyExistsError(
            f"there is a table at {store.uri} already; use mode='append' or mode='overwrite'"
        )
    # The commit would also refuse it, but only after all data is written.
    manifest = snapshot.manifest
    manifest.require_continuable(f"{store.uri}, version {manifest.version}")
    return snapshot


def _first_field_id(snapshot: Snapshot) -> int:
    """Return the first field id of an overwrite; concurrent commits may have allocated more ids."""
    if snapshot.manifest.max_allocated_field_id is None:
        return 0
    return Snapshot.latest(snapshot.store).manifest.first_new_field_id


def _file_version(
    snapshot: Snapshot | None, request: WriteRequest, schema: pa.Schema
) -> FileVersion:
    asked = request.data_storage_version
    wanted = None if asked is None else FileVersion.parse(asked)
    if snapshot is None or (wanted and request.mode != "append"):
        return wanted or default_version(new_schema(schema), has_sidecars=True)
    return require_version(snapshot, asked)


def require_version(snapshot: Snapshot, asked: str | None) -> FileVersion:
    """Return the file version for data added to a table, which is that of the table.

    Raises:
        InvalidInputError: If another file version is requested.
    """
    version = snapshot.manifest.data_version
    if asked is not None and FileVersion.parse(asked) is not version:
        raise InvalidInputError(
            f"data_storage_version: the table has {version}, so {asked!r} cannot be added"
        )
    return version
