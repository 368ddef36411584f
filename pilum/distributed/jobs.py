"""The jobs of distributed writes: small, frozen, plain values that the processes exchange.

    start_job ──▶ WriteJob ──pickled──▶ tasks: write_part ──▶ PartMessage ──▶ commit_parts

The start reads the table and fixes what all tasks follow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa

from pilum.container.writer import FileOptions
from pilum.distributed.versions import TableVersion
from pilum.encodings.options import EncodingOptions
from pilum.errors import DatasetAlreadyExistsError, DatasetNotFoundError, InvalidInputError
from pilum.format.schema import Schema
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.lazy import cached_property
from pilum.table.changes.add_columns import require_not_legacy
from pilum.table.changes.schema_changes import with_missing_columns
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.overwrite import IfCreated
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import TableStore, open_table
from pilum.table.write.align import new_schema
from pilum.table.write.blob_inputs import schema_with_blobs_v2
from pilum.table.write.forms import plain_schema
from pilum.table.write.write import WriteOptions

__all__ = [
    "Attempt",
    "JobKey",
    "Mode",
    "PartMessage",
    "WriteJob",
    "job_on",
    "start_job",
    "write_options",
]

# A task holds its rows, their pages and the data that the engine sends: at most a quarter each.
_BUFFERED_SHARE = 4

Mode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True)
class WriteJob:
    """A write job that many tasks execute and one commit publishes.

    Attributes:
        uri: Location of the table.
        uuid: Id of the job and of its transaction; part of its file names.
        mode: "create" if no table exists yet, otherwise the requested mode.
        read_version: The latest version when the job started; 0 if there was none.
        schema: Columns that the table has after the commit.
        options: Options that determine how rows are divided into files.
        storage_options: Options of the object store.
        read_schema: Columns of the table before an append that adds columns; otherwise None.
        stable_row_ids: Whether rows keep their ids when they move, in a table that this job
            creates.
        if_created: What happens to the rows if there was no table and another writer creates it.
    """

    uri: str
    uuid: str
    mode: Mode
    read_version: int
    schema: Schema
    options: WriteOptions = field(default_factory=WriteOptions)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_schema: Schema | None = None
    stable_row_ids: bool = False
    if_created: IfCreated = IfCreated.REPLACE

    @cached_property
    def base(self) -> TableVersion:
        """The version that the job reads; each process opens it for itself."""
        return TableVersion(self.uri, self.read_version, self.storage_options)

    @property
    def plain_schema(self) -> pa.Schema:
        """The columns as tasks pass them: bytes for blobs, text for JSON."""
        return plain_schema(self.schema)


@dataclass(frozen=True, slots=True)
class PartMessage:
    """The message about what one task wrote.

    Attributes:
        partition: Number of the task.
        attempt: Number of the attempt.
        num_rows: Number of rows written.
        fragments: JSON forms of `FragmentMetadata`; empty if there were no rows.
    """

    partition: int
    attempt: int
    num_rows: int
    fragments: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the message as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PartMessage:
        """Read the JSON form that `to_json` returns."""
        values = json.loads(text)
        return cls(**{**values, "fragments": tuple(values["fragments"])})


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a task.

    Attributes:
        task: Number of the task within its job.
        number: Number of the attempt; 0 for the first one.
    """

    task: int
    number: int = 0

    def prefix(self, uuid: str) -> str:
        """Return the prefix of the names of all files that the attempt writes for a job."""
        return f"{uuid}-{self.task:05d}-{self.number}"


def write_options(
    *,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    encoding: EncodingOptions | None = None,
) -> WriteOptions:
    """Return the options that determine how the rows of a task are divided into files.

    A task starts a new file after a number of rows or bytes, and holds rows of approximately
    `memory_limit` bytes.
    """
    buffered = memory_limit and max(1, memory_limit // _BUFFERED_SHARE)
    given: dict[str, Any] = {
        "max_rows_per_file": max_rows_per_file,
        "max_bytes_per_file": max_bytes_per_file,
        "unfinished_bytes": buffered,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    layout = FileOptions(buffered, encoding=encoding or EncodingOptions())
    return replace(WriteOptions(layout=layout), **changes)


def job_on(version: TableVersion, options: WriteOptions | None = None) -> WriteJob:
    """Return a job whose tasks rewrite rows of an existing version; read no table."""
    job = WriteJob(
        version.uri,
        str(uuid4()),
        "append",
        version.version,
        version.snapshot.schema,
        options or WriteOptions(),
        version.storage_options,
    )
    vars(job)["base"] = version
    return job


def start_job(
    uri: str,
    schema: pa.Schema,
    mode: Mode,
    options: WriteOptions | None = None,
    *,
    version: FileVersion | str | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema_mode: Literal["merge"] | None = None,
    stable_row_ids: bool = False,
) -> WriteJob:
    """Read the table and create the job of a write; write nothing.

    Args:
        uri: Location of the table.
        schema: Schema of the data; in append mode the table keeps its own.
        mode: "create" requires that no table exists; the other modes create it if none exists.
        options: Options that determine how rows are divided into files. Limits that they lack are
            the target sizes of an existing table.
        version: File version; if None, that of the table or the default for a new table.
        storage_options: Options of the object store.
        schema_mode: "merge" adds the columns that the table lacks, in append mode.
        stable_row_ids: Whether rows of a new table keep their ids when they move; it does not
            affect existing tables.

    Raises:
        DatasetAlreadyExistsError: If `mode` is "create" and a table exists.
        InvalidInputError: If a table cannot have such columns, or files of another version would be
            appended.
        UnsupportedVersionError: If writing the file version of the table is not supported, or
            tables of this version cannot get more columns.
        UnsupportedFeatureError: If the next version of the table would lose something.
        CorruptFileError: If the table contradicts itself.
    """
    if isinstance(version, str):
        version = FileVersion.parse(version)
    access = dict(storage_options or {})
    store = open_table(uri, access)
    location = uri if isinstance(store, TableStore) else store.uri
    job = WriteJob(
        location,
        str(uuid4()),
        mode,
        0,
        Schema(()),
        options or WriteOptions(),
        access,
        stable_row_ids=stable_row_ids,
    )
    try:
        latest = Snapshot.latest(store)
    except DatasetNotFoundError:
        return replace(_new(job, schema, version), mode="create", if_created=IfCreated(mode))
    if mode == "create":
        raise DatasetAlreadyExistsError(
            f"{store.uri}: there is a table already; use mode append or overwrite"
        )
    # The commit would also refuse it, but only after all tasks have written.
    latest.manifest.require_continuable(f"{store.uri}, version {latest.manifest.version}")
    job = replace(
        job,
        read_version=latest.manifest.version,
        options=job.options.for_table(latest.manifest.config),
        stable_row_ids=False,
    )
    if mode == "overwrite":
        found = latest.manifest
        return _new(job, schema, version or found.data_version, found.first_new_field_id)
    return _append(job, latest, schema, version, merges=schema_mode == "merge")


def _new(
    job: WriteJob, schema: pa.Schema, version: FileVersion | None, first_field_id: int = 0
) -> WriteJob:
    """Return a job whose columns are those of the data."""
    version = version or DEFAULT_VERSION
    if version.has_blobs_v2:
        schema = schema_with_blobs_v2(schema)
    options = replace(job.options, version=version)
    return replace(job, schema=new_schema(schema, first_field_id), options=options)


def _append(
    job: WriteJob,
    latest: Snapshot,
    schema: pa.Schema,
    version: FileVersion | None,
    *,
    merges: bool,
) -> WriteJob:
    """Return a job whose columns are those of the table, and possibly more."""
    manifest = latest.manifest
    if version not in {None, manifest.data_version}:
        raise InvalidInputError(
            f"{job.uri}: the table has files of version {manifest.data_version}; "
            f"{version} cannot be appended"
        )
    options = replace(job.options, version=manifest.data_version)
    job = replace(job, schema=manifest.schema, options=options)
    if not merges:
        return job
    if manifest.data_version.has_blobs_v2:
        schema = schema_with_blobs_v2(schema)
    grown = with_missing_columns(manifest, schema)
    if grown == manifest.schema:
        return job
    require_not_legacy(latest)
    return replace(job, schema=grown, read_schema=manifest.schema)
