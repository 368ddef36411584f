"""Write rows as one version: the checked arguments of a write, and its steps.

keywords of write_dataset, insert, write_fragments ──▶ Write.of ──▶ Write

check arguments ─▶ write data files ─▶ one commit
                        │                  │
                     failed         certainly failed
                        └────────┬─────────┘
                     delete the new files
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, Self, TypedDict

import pyarrow as pa

from pilum.arguments import require_choice, require_names
from pilum.container.writer import FileOptions
from pilum.dataset.base import properties_of, publish, snapshot_of_job
from pilum.dataset.inputs import mentions_blobs, to_reader
from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.settings import DatasetBasePath, bases_to_commit
from pilum.encodings.options import EncodingOptions
from pilum.errors import DatasetAlreadyExistsError, DatasetNotFoundError, InvalidInputError
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.progress import FragmentWriteProgress
from pilum.progress_display import counted, progress
from pilum.storage.base import Store
from pilum.storage.local import durable_at_commit
from pilum.table.changes.add_columns import require_not_legacy
from pilum.table.changes.schema_changes import with_missing_columns
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.merge import Merge, appended_to
from pilum.table.commit.operations.overwrite import IfCreated, Overwrite
from pilum.table.commit.transaction import Transaction
from pilum.table.model.base_paths import BasePath, with_new_bases
from pilum.table.model.fragment import Fragment
from pilum.table.model.names import NamingScheme
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.align import align, new_schema
from pilum.table.write.blob_inputs import (
    ingested_batches,
    schema_without_descriptors,
    with_blobs_v2,
)
from pilum.table.write.write import (
    MAX_BYTES_PER_FILE,
    MAX_ROWS_PER_FILE,
    Target,
    WriteOptions,
    all_targets,
    chosen_targets,
    write_fragments,
)

__all__ = [
    "WRITE_DEFAULTS",
    "FragmentKeywords",
    "InsertKeywords",
    "Write",
    "require_version",
    "write",
    "write_transaction",
]

_MODES = ("create", "append", "overwrite")
_OPTIONS = WriteOptions()


class FileKeywords(TypedDict, total=False):
    """The keywords of all functions that write data files; see `pilum.write_dataset`."""

    max_rows_per_file: int
    max_rows_per_group: int
    max_bytes_per_file: int
    data_cache_bytes: int | None
    max_page_bytes: int | None
    buffer_alignment: int
    encoding_options: EncodingOptions
    target_bases: Iterable[str] | None
    target_all_bases: bool | None
    progress: FragmentWriteProgress | None


class InsertKeywords(FileKeywords, total=False):
    """The keywords of `LanceDataset.insert`; see `pilum.write_dataset`."""

    schema_mode: Literal["merge"] | None
    commit_message: str | None
    transaction_properties: Mapping[str, str] | None
    idempotency_key: JobKey | None


class FragmentKeywords(FileKeywords, total=False):
    """The keywords of `pilum.fragment.write_fragments`; see `pilum.write_dataset`."""

    data_storage_version: str | None
    storage_options: Mapping[str, str] | None
    base_store_params: Mapping[str, Mapping[str, str]] | None
    enable_stable_row_ids: bool
    use_legacy_format: bool | None
    session: Session | None
    storage_options_provider: None
    initial_bases: Iterable[DatasetBasePath] | None
    external_blob_mode: Literal["reference", "ingest"]
    allow_external_blob_outside_bases: bool
    namespace_client: Any
    table_id: Sequence[str] | None


WRITE_DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "max_rows_per_file": MAX_ROWS_PER_FILE,
        "max_rows_per_group": _OPTIONS.layout.max_rows_per_group,
        "max_bytes_per_file": MAX_BYTES_PER_FILE,
        "buffer_alignment": _OPTIONS.layout.buffer_alignment,
        "encoding_options": _OPTIONS.layout.encoding,
        "enable_v2_manifest_paths": True,
        "enable_stable_row_ids": False,
        "external_blob_mode": "reference",
        "allow_external_blob_outside_bases": False,
    }
)
"""The defaults of the keywords of writes; None for all others."""


@dataclass(frozen=True)
class Write:
    """A checked write.

    Attributes:
        mode: "create", "append" or "overwrite".
        options: Sizes and encodings of files. The version and the targets depend on the table.
        data_storage_version: File version as a string; None for that of the table, or the default
            of this library for a new one.
        schema_mode: What to do with columns that the table lacks: None rejects them, "merge" adds
            them.
        ingests: Whether blobs given by URI are read and stored.
        job: Key of the job; None if there is no job.
        properties: Properties of the transaction.
        stable_row_ids: Whether rows of a new table keep their ids when they move.
        config: Config of a new table.
        initial_bases: Base paths of a new table.
        target_bases: Names or paths of the base paths that data files are written to, in turn; none
            for the table's own folder.
        all_bases: Whether data files are written, in turn, to the table's own folder and to every
            base path.
    """

    mode: str
    options: WriteOptions = _OPTIONS
    data_storage_version: str | None = None
    schema_mode: str | None = None
    ingests: bool = False
    job: JobKey | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    stable_row_ids: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    initial_bases: tuple[BasePath, ...] = ()
    target_bases: tuple[str, ...] = ()
    all_bases: bool = False

    @classmethod
    def of(cls, mode: str, keywords: Mapping[str, Any]) -> Self:
        """Check the keywords of a write that describe its files, rows and commit."""
        given = {**WRITE_DEFAULTS, **keywords}.get
        schema_mode, targets = given("schema_mode"), given("target_bases")
        if schema_mode is not None:
            require_choice("schema_mode", schema_mode, "merge")
        if schema_mode and mode != "append":
            raise InvalidInputError("schema_mode: only with mode='append'")
        targets = () if targets is None else tuple(require_names("target_bases", targets))
        if targets and given("target_all_bases"):
            raise InvalidInputError("pass target_bases or target_all_bases, not both")
        if given("storage_options_provider") is not None:
            raise InvalidInputError("storage_options_provider: pass storage_options")
        job, bases = given("idempotency_key"), given("initial_bases")
        return cls(
            mode,
            _file_options(given),
            _version(given),
            schema_mode,
            _ingests(given("external_blob_mode"), given("allow_external_blob_outside_bases")),
            job,
            properties_of(given("commit_message"), given("transaction_properties"), job),
            bool(given("enable_stable_row_ids")),
            initial_bases=bases_to_commit(bases) if bases else (),
            target_bases=targets,
            all_bases=bool(given("target_all_bases")),
        )

    def bases(self, snapshot: Snapshot | None) -> tuple[BasePath, ...]:
        """Return the base paths that the table has, or will have once it is created."""
        if snapshot is None:
            return with_new_bases((), self.initial_bases)
        if self.initial_bases:
            raise InvalidInputError(
                f"initial_bases: there is a table at {snapshot.store.uri} already; use add_bases"
            )
        return snapshot.manifest.base_paths

    def targets(self, store: Store, bases: tuple[BasePath, ...]) -> tuple[Target, ...]:
        """Return the places for new data files of a table with these base paths."""
        if self.all_bases:
            return all_targets(store, bases)
        return chosen_targets(store, bases, self.target_bases)


def _version(given: Callable[[str], Any]) -> str | None:
    version: str | None = given("data_storage_version")
    if not given("use_legacy_format"):
        return version
    if version is not None:
        raise InvalidInputError("pass data_storage_version or use_legacy_format, not both")
    return str(FileVersion.LEGACY)


def _file_options(given: Callable[[str], Any]) -> WriteOptions:
    layout = FileOptions(
        given("data_cache_bytes"),
        given("max_page_bytes"),
        given("buffer_alignment"),
        given("encoding_options"),
        given("max_rows_per_group"),
    )
    return WriteOptions(
        given("max_rows_per_file"),
        given("max_bytes_per_file"),
        layout=layout,
        pack_bytes=given("blob_pack_file_size_threshold") or _OPTIONS.pack_bytes,
        allow_uris=given("allow_external_blob_outside_bases"),
        observer=_Observer.of(given("progress")),
    )


@dataclass(frozen=True)
class _Observer:
    """Passes the fragments of a write to an object of the caller."""

    progress: FragmentWriteProgress

    @classmethod
    def of(cls, progress: Any) -> _Observer | None:
        if not isinstance(progress, FragmentWriteProgress | None):
            raise InvalidInputError(f"progress: expected a FragmentWriteProgress, got {progress!r}")
        return None if progress is None else cls(progress)

    def begin(self, fragment: Fragment) -> None:
        self.progress.begin(FragmentMetadata.from_table(fragment))

    def complete(self, fragment: Fragment) -> None:
        self.progress.complete(FragmentMetadata.from_table(fragment))


def _ingests(external: Any, allows_uris: Any) -> bool:
    require_choice("external_blob_mode", external, "reference", "ingest")
    if external == "ingest" and allows_uris:
        raise InvalidInputError(
            "allow_external_blob_outside_bases: there are no references with "
            "external_blob_mode='ingest'"
        )
    return bool(external == "ingest")


def write(
    store: Store,
    data: Any,
    schema: pa.Schema | None,
    wanted: Write,
    pinned: Snapshot | None,
    scheme: NamingScheme = NamingScheme.V2,
) -> Snapshot:
    """Write rows as one new version, unless the table already contains the job.

    The table need not exist yet. If it exists, the write continues the version `pinned`, or the
    newest one.

    Returns:
        The new version, or the version that already contains the job.
    """
    done = snapshot_of_job(store, wanted.job)
    if done is not None:
        return done
    with durable_at_commit(store) as pending:
        written = write_transaction(pending, data, schema, wanted, pinned)
        return publish(pending, written, scheme=scheme)


def write_transaction(
    store: Store,
    data: Any,
    schema: pa.Schema | None,
    wanted: Write,
    pinned: Snapshot | None = None,
) -> Transaction:
    """Write the data files and return the transaction to commit; the table does not change.

    The errors are those of `pilum.write_dataset`, except those of its commit.
    """
    snapshot = _existing(store, wanted.mode, pinned)
    bases = wanted.bases(snapshot)
    reader = to_reader(data, schema)
    version = _file_version(snapshot, wanted)
    options = replace(
        wanted.options,
        version=version,
        targets=wanted.targets(store, bases),
        known_bases=frozenset(base.id for base in bases),
    )
    if version.has_blobs_v2 and mentions_blobs(reader.schema):
        reader = with_blobs_v2(reader)
    appends = wanted.mode == "append" and snapshot is not None
    table_schema = (
        _schema_to_append_to(snapshot, reader.schema, wanted)
        if snapshot and appends
        else _new_schema(reader.schema, _first_field_id(snapshot) if snapshot else 0)
    )
    alignment = align(reader.schema, table_schema)
    batches: Iterator[pa.RecordBatch] = map(alignment.batch, reader)
    if wanted.ingests:
        batches = ingested_batches(alignment.schema, batches, store.options)
    num_rows = getattr(data, "num_rows", None)
    if num_rows is None:
        options = options.for_stream(len(alignment.schema.fields))
    with progress("Writing", num_rows) as done:
        rows = counted(batches, done)
        fragments = write_fragments(store, alignment.schema, rows, options)
    operation = (
        _append(snapshot, table_schema, fragments)
        if snapshot and appends
        else Overwrite(
            table_schema,
            fragments,
            wanted.config if snapshot is None else {},
            empty_format=str(version),
            stable_row_ids=wanted.stable_row_ids,
            bases=bases if snapshot is None else (),
            if_created=IfCreated.REPLACE if snapshot else IfCreated(wanted.mode),
        )
    )
    read = snapshot.manifest if snapshot else None
    read_version = read.version if read else 0
    return Transaction(read_version, operation, properties=wanted.properties, read=read)


def _new_schema(incoming: pa.Schema, first_id: int = 0) -> Schema:
    return new_schema(schema_without_descriptors(incoming), first_id)


def _schema_to_append_to(snapshot: Snapshot, incoming: pa.Schema, wanted: Write) -> Schema:
    """Return the schema of the table after the append."""
    if wanted.schema_mode is None:
        return snapshot.schema
    schema = with_missing_columns(snapshot.manifest, schema_without_descriptors(incoming))
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
    require_choice("mode", mode, *_MODES)
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


def _file_version(snapshot: Snapshot | None, wanted: Write) -> FileVersion:
    """Return the version of the new files of a table, or of one that is created."""
    asked = wanted.data_storage_version
    version = None if asked is None else FileVersion.parse(asked)
    if snapshot is None or (version and wanted.mode != "append"):
        return version or DEFAULT_VERSION
    return require_version(snapshot, asked)


def require_version(snapshot: Snapshot, asked: str | None) -> FileVersion:
    """Return the file version for data added to a table, which is that of the table."""
    version = snapshot.manifest.data_version
    if asked is not None and FileVersion.parse(asked) is not version:
        raise InvalidInputError(
            f"data_storage_version: the table has {version}, so {asked!r} cannot be added"
        )
    return version
