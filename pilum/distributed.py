"""Reading and writing one table from many processes: the seams for Spark, and for others like it.

    driver     plan_splits ──▶ Split, …                start_job ──▶ WriteJob
                  │                                       │
    workers    read_split ──▶ batches         batches ──▶ write_part ──▶ PartMessage
                                                          │
    driver                                             commit_parts  or  abort_parts

What travels is small, frozen and made of plain values. A version is pinned by the driver and
never looked up again. All files of a job carry its uuid in their names, and its one commit has
that uuid too: so a commit whose answer was lost is found again, and an abort can tell whether
the files that it is about to delete are part of the table. A job that is given up leaves a mark,
for tasks that are still running then. Source: docs/spark.md, "Commits".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Literal, Protocol, TypeVar
from uuid import uuid4

import pyarrow as pa

from pilum.container.open import default_version
from pilum.errors import (
    CommitError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    InvalidInputError,
)
from pilum.expressions import BoundFilter
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.commits.commit import commit
from pilum.table.commits.commit_handler import TableStore
from pilum.table.commits.jobs import JOB_PROPERTY, Job, JobKey
from pilum.table.commits.landed import find_commit
from pilum.table.commits.tombstones import is_tombstone, leave_tombstone, was_given_up
from pilum.table.commits.transaction import Transaction
from pilum.table.evolution.add_columns import require_not_legacy
from pilum.table.evolution.evolution import with_missing_columns
from pilum.table.fragment import Fragment
from pilum.table.manifest import Manifest
from pilum.table.open import open_table
from pilum.table.operations.append import Append
from pilum.table.operations.base import Operation
from pilum.table.operations.merge import Merge, appended_to
from pilum.table.operations.overwrite import Overwrite
from pilum.table.scanning.scan import ScanOptions, scan
from pilum.table.scanning.skip import rows_to_test
from pilum.table.snapshot import Snapshot
from pilum.table.writing.align import align, new_schema
from pilum.table.writing.blob_inputs import schema_with_blobs_v2, with_blobs_v2
from pilum.table.writing.sidecars import delete_data_file
from pilum.table.writing.write import WriteOptions, write_fragments

__all__ = [
    "DEFAULT_SPLIT_BYTES",
    "Mode",
    "PartMessage",
    "Split",
    "WriteJob",
    "abort_parts",
    "commit_parts",
    "group_splits",
    "plan_splits",
    "read_split",
    "split_fragment",
    "start_job",
    "write_part",
]

DEFAULT_SPLIT_BYTES = 32 << 20
# Rows of the largest mini-block chunk: a range that ends between chunks decodes none twice.
_ROW_STEP = 4096
_DATA = "data"

Mode = Literal["create", "append", "overwrite"]


@dataclass(frozen=True, slots=True)
class Split:
    """Some rows of one fragment of one version.

    Attributes:
        uri: Location of the table.
        version: The pinned version.
        fragment_id: The fragment.
        start: First physical row within the fragment.
        stop: The row after the last.
        size_bytes: Share of the fragment's files; an estimate, for balancing.
    """

    uri: str
    version: int
    fragment_id: int
    start: int
    stop: int
    size_bytes: int


def plan_splits(
    snapshot: Snapshot,
    target_bytes: int = DEFAULT_SPLIT_BYTES,
    filter: BoundFilter | None = None,
) -> list[Split]:
    """Cuts a version into ranges of rows, in scan order.

    Args:
        snapshot: The version.
        target_bytes: Files larger than this are cut, at multiples of 4,096 rows.
        filter: Ranges that it cannot match are left out, where that is known without reading
            rows: by statistics of legacy files, and by row ids, addresses and versions.

    Raises:
        InvalidInputError: If `target_bytes` is not positive.
        UnsupportedFormatError: If the writer was too old to record numbers of rows, and the data
            files cannot be asked.
    """
    if target_bytes < 1:
        raise InvalidInputError(f"target_bytes: expected a positive number, found {target_bytes}")
    return [
        split
        for fragment in snapshot.manifest.fragments
        for split in _matching(
            snapshot, fragment, filter, split_fragment(snapshot, fragment, target_bytes)
        )
    ]


def _matching(
    snapshot: Snapshot, fragment: Fragment, filter: BoundFilter | None, splits: Iterator[Split]
) -> Iterator[Split]:
    if filter is None or not _knows(snapshot, filter):
        return splits
    reader, rows = snapshot.reader(fragment), fragment.physical_rows
    tested = rows_to_test(reader, snapshot.described, filter, 0, rows)
    if not len(tested.bounds):
        return iter(())
    return (split for split in splits if len(tested.within(split.start, split.stop).bounds))


def _knows(snapshot: Snapshot, filter: BoundFilter) -> bool:
    """Whether something is known about a column of the filter; files since 2.0 say nothing."""
    is_legacy = snapshot.manifest.data_version is FileVersion.LEGACY
    return is_legacy or not set(filter.columns).issubset(snapshot.described.names)


def split_fragment(snapshot: Snapshot, fragment: Fragment, target_bytes: int) -> Iterator[Split]:
    """Cuts one fragment of a version into ranges of rows, as `plan_splits`."""
    rows = fragment.physical_rows
    # A file of unknown size is not cut, and shares its task with no other.
    size_bytes = sum(file.size_bytes or target_bytes for file in fragment.files)
    pieces = max(1, -(-size_bytes // target_bytes))
    step = -(-rows // pieces)
    step = max(_ROW_STEP, -(-step // _ROW_STEP) * _ROW_STEP)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        share = size_bytes * (stop - start) // rows
        yield Split(snapshot.store.uri, snapshot.manifest.version, fragment.id, start, stop, share)


class _HasSize(Protocol):
    """What can be grouped by its share of the files, bytes."""

    @property
    def size_bytes(self) -> int: ...


_S = TypeVar("_S", bound=_HasSize)


def group_splits(
    splits: Iterable[_S], target_bytes: int = DEFAULT_SPLIT_BYTES
) -> list[tuple[_S, ...]]:
    """Joins neighbouring splits until a group holds about `target_bytes`; keeps the order."""
    groups: list[list[_S]] = []
    size_bytes = 0
    for split in splits:
        size_bytes += split.size_bytes
        if not groups or size_bytes > target_bytes:
            groups.append([])
            size_bytes = split.size_bytes
        groups[-1].append(split)
    return [tuple(group) for group in groups]


def read_split(
    split: Split,
    *,
    columns: tuple[str, ...] | None = None,
    filter: BoundFilter | None = None,
    batch_size: int | None = None,
    with_payloads: bool = False,
    window_bytes: int | None = None,
    snapshot: Snapshot | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Scans the rows of a split.

    Args:
        split: What to read.
        columns: Names or dotted paths, in the wanted order; all if None.
        filter: Keeps the rows for which it is true.
        batch_size: Rows per batch.
        with_payloads: Whether blobs give their bytes instead of descriptors.
        window_bytes: Bytes of rows that are read together; see `ScanOptions`.
        snapshot: The version of the split, where the caller has it open already.
        storage_options: Settings of the store.

    Raises:
        VersionNotFoundError: If the version is gone.
    """
    if snapshot is None:
        snapshot = Snapshot.at(open_table(split.uri, storage_options), split.version)
    options = ScanOptions(
        columns=columns,
        filter=filter,
        batch_size=batch_size,
        fragment_ids=(split.fragment_id,),
        row_range=(split.start, split.stop),
        with_payloads=with_payloads,
        window_bytes=window_bytes,
    )
    return scan(snapshot, options)


@dataclass(frozen=True)
class WriteJob:
    """A write that many tasks share and one commit publishes.

    Attributes:
        uri: Location of the table.
        uuid: Of the job: of its transaction, and part of its file names.
        mode: "create" if there is no table yet, else what was asked for.
        read_version: The latest version when the job began, 0 if there was none.
        schema: Columns that the table will have.
        options: How files are cut.
        storage_options: Settings of the store.
        read_schema: Columns that the table has now, if an append brings more; else None.
        stable_row_ids: Whether rows of a table that this creates keep their ids when they move.
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


@dataclass(frozen=True, slots=True)
class PartMessage:
    """What one task wrote.

    Attributes:
        partition: Number of the task.
        attempt: Which try of it.
        num_rows: Rows written.
        fragments: Each a JSON text as `FragmentMetadata` has it; empty if there were no rows.
    """

    partition: int
    attempt: int
    num_rows: int
    fragments: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The message as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> PartMessage:
        """The message that `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "fragments": tuple(values["fragments"])})


def start_job(
    uri: str,
    schema: pa.Schema,
    mode: Mode,
    options: WriteOptions | None = None,
    *,
    version: FileVersion | None = None,
    storage_options: Mapping[str, str] | None = None,
    schema_mode: Literal["merge"] | None = None,
    stable_row_ids: bool = False,
) -> WriteJob:
    """Looks at the table and fixes what a write goes by. Writes nothing.

    Args:
        uri: Location of the table.
        schema: Columns of the data; a table that is appended to keeps its own.
        mode: "create" demands that there is no table; the others create it where there is none.
        options: How files are cut.
        version: Of the files; that of the table, or the default of a new one, if None.
        storage_options: Settings of the store.
        schema_mode: "merge" adds the columns that a table lacks which is appended to.
        stable_row_ids: Whether rows of a new table keep their ids when they move; a table that
            exists stays as it is.

    Raises:
        DatasetAlreadyExistsError: If mode is "create" and there is a table.
        InvalidInputError: If a table cannot have such columns, or files of another version were
            to be appended.
        UnsupportedVersionError: If the table has files of a version that we do not write, or
            that can have no more columns.
    """
    access = dict(storage_options or {})
    store = open_table(uri, access)
    location = uri if isinstance(store, TableStore) else store.uri
    draft = _Draft(location, str(uuid4()), options or WriteOptions(), access)
    try:
        latest = Snapshot.latest(store)
    except DatasetNotFoundError:
        return draft.new("create", schema, version, stable_row_ids=stable_row_ids)
    if mode == "create":
        raise DatasetAlreadyExistsError(
            f"{store.uri}: there is a table already; use mode append or overwrite"
        )
    if mode == "overwrite":
        return draft.new(mode, schema, version, latest.manifest)
    return draft.append(latest, schema, version, merges=schema_mode == "merge")


@dataclass(frozen=True, slots=True)
class _Draft:
    """What all jobs have, however the table is."""

    uri: str
    uuid: str
    options: WriteOptions
    access: Mapping[str, str]

    def new(
        self,
        mode: Mode,
        schema: pa.Schema,
        version: FileVersion | None,
        latest: Manifest | None = None,
        *,
        stable_row_ids: bool = False,
    ) -> WriteJob:
        """A job whose columns are those of the data."""
        if version is None and latest is not None:
            version = latest.data_version
        version = version or default_version(new_schema(schema), has_sidecars=True)
        if version.has_blobs_v2:
            schema = schema_with_blobs_v2(schema)
        created = new_schema(schema, latest.first_new_field_id if latest else 0)
        read_version = latest.version if latest else 0
        options = replace(self.options, version=version)
        job = WriteJob(self.uri, self.uuid, mode, read_version, created, options, self.access)
        return replace(job, stable_row_ids=stable_row_ids)

    def append(
        self, latest: Snapshot, schema: pa.Schema, version: FileVersion | None, *, merges: bool
    ) -> WriteJob:
        """A job whose columns are those of the table, and perhaps more."""
        manifest = latest.manifest
        if version not in {None, manifest.data_version}:
            raise InvalidInputError(
                f"{self.uri}: the table has files of version {manifest.data_version}; "
                f"{version} cannot be appended"
            )
        options = replace(self.options, version=manifest.data_version)
        job = WriteJob(
            self.uri, self.uuid, "append", manifest.version, manifest.schema, options, self.access
        )
        if not merges:
            return job
        if manifest.data_version.has_blobs_v2:
            schema = schema_with_blobs_v2(schema)
        grown = with_missing_columns(manifest, schema)
        if grown == manifest.schema:
            return job
        require_not_legacy(latest)
        return replace(job, schema=grown, read_schema=manifest.schema)


def write_part(
    job: WriteJob, batches: Iterable[pa.RecordBatch], *, partition: int, attempt: int = 0
) -> PartMessage:
    """Writes the rows of one task as data files; nothing of the table changes.

    Args:
        job: What the driver fixed.
        batches: All of one schema. Columns are matched by name, as in `pilum.write_dataset`, and
            nullable ones may be missing.
        partition: Number of the task.
        attempt: Which try of it; another try must have another number.

    Returns:
        What `commit_parts` needs. If this fails, the files of the attempt are gone again.

    Raises:
        SchemaMismatchError: If the columns do not fit those of the job.
        CommitError: If the job was given up meanwhile.
    """
    options = replace(job.options, file_name_prefix=f"{job.uuid}-{partition:05d}-{attempt}")
    store = open_table(job.uri, job.storage_options)
    schema, aligned = _aligned(job, iter(batches))
    fragments = write_fragments(store, schema, aligned, options)
    if was_given_up(store, job.uuid):
        for file in (file for fragment in fragments for file in fragment.files):
            delete_data_file(store, file.path)
        raise CommitError(
            f"{job.uri}: the job {job.uuid} was given up while its task {partition} was still "
            "writing; what that wrote is deleted"
        )
    num_rows = sum(fragment.physical_rows for fragment in fragments)
    texts = tuple(json.dumps(fragment.to_json()) for fragment in fragments)
    return PartMessage(partition, attempt, num_rows, texts)


def _aligned(
    job: WriteJob, batches: Iterator[pa.RecordBatch]
) -> tuple[Schema, Iterator[pa.RecordBatch]]:
    """What the files of a task hold, and its batches in that form."""
    first = next(batches, None)
    if first is None:
        return job.schema, batches
    incoming, batches = first.schema, chain([first], batches)
    if job.options.version.has_blobs_v2 and any(map(has_blobs, job.schema.fields)):
        reader = with_blobs_v2(pa.RecordBatchReader.from_batches(incoming, batches))
        incoming, batches = reader.schema, iter(reader)
    alignment = align(incoming, job.schema)
    return alignment.schema, map(alignment.batch, batches)


def commit_parts(
    job: WriteJob, messages: Sequence[PartMessage], *, idempotency_key: JobKey | None = None
) -> int:
    """Publishes what the tasks wrote, all or nothing. Repeating it does no harm.

    Args:
        job: The job of the messages.
        messages: One of each task.
        idempotency_key: As in `pilum.write_dataset`, for jobs that are started again from the
            beginning, such as `(query_id, batch_id)` of a stream. If the table has it already, the
            files of this job are deleted.

    Returns:
        The version that holds the rows. An append without rows makes no version.

    Raises:
        CommitConflictError: If another commit made the job meaningless.
        CommitContentionError: If others were faster every time.
    """
    store = open_table(job.uri, job.storage_options)
    if (landed := find_commit(store, job.uuid, job.read_version)) is not None:
        return landed
    fragments = tuple(
        Fragment.from_json(json.loads(text))
        for message in sorted(messages, key=lambda message: message.partition)
        for text in message.fragments
    )
    if job.mode == "append" and not fragments:
        return job.read_version
    key = {} if idempotency_key is None else {JOB_PROPERTY: Job(idempotency_key).property()}
    operation = _operation(store, job, fragments)
    transaction = Transaction(job.read_version, operation, job.uuid, key)
    manifest = commit(store, transaction)
    if job.uuid not in manifest.transaction_file:
        _delete_files(store, job)
    return manifest.version


def _operation(store: Store, job: WriteJob, fragments: tuple[Fragment, ...]) -> Operation:
    if job.mode != "append":
        return Overwrite(
            job.schema,
            fragments,
            empty_format=str(job.options.version),
            stable_row_ids=job.stable_row_ids,
        )
    if job.read_schema is None:
        return Append(fragments)
    return Merge(
        job.schema,
        appended_to(Snapshot.at(store, job.read_version).manifest, fragments),
        preserves_nullability=True,
        appended=fragments,
        read_schema=job.read_schema,
    )


def abort_parts(job: WriteJob) -> int:
    """Deletes the files of a job, unless its commit went through.

    Also those of attempts that nobody reported: the names of all of them begin with the uuid. Tasks
    that are still running delete theirs by themselves: an empty file tells them, which stays until
    a cleanup removes it.

    Args:
        job: The job that is given up; no commit of it may be under way.

    Returns:
        The number of files deleted.

    Raises:
        CorruptFileError: If the versions since cannot be read; then nothing is deleted.
    """
    store = open_table(job.uri, job.storage_options)
    if find_commit(store, job.uuid, job.read_version) is not None:
        return 0
    leave_tombstone(store, job.uuid)
    return _delete_files(store, job)


def _delete_files(store: Store, job: WriteJob) -> int:
    entries = (entry.name for entry in store.list(_DATA) if entry.name.startswith(job.uuid))
    names = [name for name in entries if not is_tombstone(name, job.uuid)]
    for name in names:
        delete_data_file(store, name)
    return len(names)
