"""Clustering as a Spark job: all rows of a table are rewritten in another order.

    table ──▶ rows with addresses ──▶ ranges of the keys, sorted ──▶ tasks: new fragments
                                                                        │ with ids of rows
    driver: one Rewrite of all fragments that there were  ◀─────────────┘

Fragments may be clustered in groups, each with a commit of its own. Then less data goes through the
shuffle at once, and committed groups are kept after a failure. The journal of a named job records
the groups of its first run; fragments that are no longer in the table are done.

Rows that are appended concurrently stay where they are. If another writer changes rows of a group,
the commit of the group is refused and its files are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from pilum.container.options import FileOptions
from pilum.dataset.compaction import CompactionMetrics
from pilum.distributed import WriteJob, abort_parts
from pilum.errors import CommitStatusUnknownError, InvalidInputError
from pilum.spark.clustering import Order
from pilum.spark.frames import read
from pilum.spark.jobs.journal import Journal
from pilum.spark.options import table_uri
from pilum.spark.row_tasks import pinned, run_tasks, stored_bytes
from pilum.spark.sink import write_task
from pilum.table.model.fragment import Fragment
from pilum.table.model.reuse_index import Move
from pilum.table.read.lineage import lineage_of_rows, with_lineage
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.compaction import commit_moves, require_clusterable
from pilum.table.versions.open import open_table
from pilum.table.write.write import WriteOptions

__all__ = ["cluster"]

_ADDRESS = "_rowaddr"
_TASK_BYTES = 256 << 20
# As in the sink: rows, their pages, and the data that Spark sends.
_BUFFERED_SHARE = 4


def cluster(
    spark: SparkSession,
    uri: str,
    *,
    sort_by: Sequence[str | Column] | None = None,
    zorder_by: Sequence[str] | None = None,
    hilbert_by: Sequence[str] | None = None,
    num_partitions: int | None = None,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
    memory_limit: int | None = None,
    commit_every: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactionMetrics:
    """Rewrite all rows of a table, so that rows with similar values are stored close together.

    Rows keep their values, stable ids and versions; deleted rows are removed. If anything fails
    before a commit, the files written for it are deleted. All rows of one commit go through Spark's
    shuffle, for which Spark's disks need room.

    Args:
        spark: The session.
        uri: Location of the table.
        sort_by: Sort the rows by these columns, within each file and across files.
        zorder_by: Order the rows along a Z-order curve, which stores rows with similar values in
            all of these columns close together.
        hilbert_by: The same along a Hilbert curve, with narrower value ranges per file.
        num_partitions: Maximum number of writing tasks; by default one per 256 MiB of files. With
            `commit_every`, the number of tasks per commit.
        max_rows_per_file: Number of rows after which a task starts a new file.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
        memory_limit: Approximate limit, in bytes, of the rows that a Python worker holds.
        commit_every: Number of adjacent fragments that are ordered and committed as one group; the
            order holds within each group. None for one commit of all fragments.
        job: A job name, for use with `commit_every`: a later call with the same name resumes where
            this one ended.
        journal: Location of the job journals; a folder of the table if None.
        storage_options: Settings of the store.

    Returns:
        Metrics of the work done; for a resumed job, of the remaining work.

    Raises:
        DatasetNotFoundError: If there is no table.
        ColumnNotFoundError: If there is no such column.
        CommitConflictError: If another writer changed or moved rows concurrently. Groups already
            committed are kept.
        UnsupportedFeatureError: If the table has blob columns, or an index that cannot be remapped.
        InvalidInputError: If not exactly one order is given, or an argument is invalid.
        pyspark.errors.PySparkException: If a task failed in all attempts, or if a column in
            `sort_by` does not exist.
    """
    order = Order(sort_by, zorder_by, hilbert_by)
    if not order:
        raise InvalidInputError("cluster: expected one of sort_by, zorder_by and hilbert_by")
    _require_positive(
        num_partitions=num_partitions,
        max_rows_per_file=max_rows_per_file,
        max_bytes_per_file=max_bytes_per_file,
        memory_limit=memory_limit,
        commit_every=commit_every,
    )
    if job is None and journal is not None:
        raise InvalidInputError("job: required with journal, which records its progress")
    access, location = dict(storage_options or {}), table_uri(uri)
    notes = None if job is None else Journal(location, job, journal and table_uri(journal), access)
    require_clusterable(Snapshot.latest(open_table(location, access)))
    clustering = _Clustering(
        spark,
        location,
        order,
        num_partitions,
        partial(
            _write_options,
            max_rows=max_rows_per_file,
            max_bytes=max_bytes_per_file,
            memory_limit=memory_limit,
        ),
        memory_limit,
        access,
    )
    return clustering.run(commit_every, notes)


@dataclass(frozen=True)
class _Clustering:
    """One call of `cluster`.

    Attributes:
        spark: The session.
        uri: Location of the table.
        order: Order of the rows.
        num_partitions: Number of writing tasks; None to derive it from the size of the files.
        options: Settings for writing files, for the version that is read.
        memory_limit: Memory limit of a Python worker, in bytes.
        storage_options: Settings of the store.
    """

    spark: SparkSession
    uri: str
    order: Order
    num_partitions: int | None
    options: Callable[[Snapshot], WriteOptions]
    memory_limit: int | None
    storage_options: dict[str, str] = field(repr=False)

    def run(self, size: int | None, journal: Journal | None) -> CompactionMetrics:
        """Cluster the fragments group by group."""
        groups = _groups(self._latest(), size)
        if journal is not None:
            facts = {"cluster": self.order.texts(), "commit_every": size}
            plan = journal.begin(facts, {str(group[0]): group for group in groups})
            groups = list(plan.values())
        done = [self._rewrite(group) for group in groups]
        if journal is not None:
            journal.remove()
        return CompactionMetrics.of([move for move in done if move is not None])

    def _rewrite(self, group: Collection[int]) -> Move | None:
        """Rewrite the rows of those of the given fragments that still exist, in order."""
        snapshot = self._latest()
        old = tuple(one for one in snapshot.manifest.fragments if one.id in group)
        if not old:
            return None
        require_clusterable(snapshot)
        version, schema = snapshot.manifest.version, snapshot.manifest.schema
        options, access = self.options(snapshot), self.storage_options
        job = WriteJob(self.uri, str(uuid4()), "append", version, schema, options, access)
        return _rewritten(snapshot, job, self._ordered(job, snapshot, old), old)

    def _ordered(
        self, job: WriteJob, snapshot: Snapshot, fragments: Sequence[Fragment]
    ) -> DataFrame:
        """Return the rows of fragments with their addresses, in the requested order."""
        rows = partial(
            read,
            self.spark,
            job.uri,
            filter=_rows_of(snapshot, fragments),
            version=job.read_version,
            memory_limit=self.memory_limit,
            storage_options=job.storage_options,
        )
        frame = rows(columns=[*job.schema.arrow.names, _ADDRESS])
        curve = self.order.curve_columns
        keys = rows(columns=list(curve)) if curve else None
        count = self.num_partitions or max(1, -(-stored_bytes(fragments) // _TASK_BYTES))
        return self.order.apply(frame, count, keys)

    def _latest(self) -> Snapshot:
        return Snapshot.latest(open_table(self.uri, self.storage_options))


def _groups(snapshot: Snapshot, size: int | None) -> list[list[int]]:
    """Return groups of adjacent fragments."""
    ids = sorted(int(fragment.id) for fragment in snapshot.manifest.fragments)
    step = size or max(1, len(ids))
    return [ids[start : start + step] for start in range(0, len(ids), step)]


def _rows_of(snapshot: Snapshot, fragments: Sequence[Fragment]) -> str | None:
    """Return a condition for the rows of some fragments; None if these are all fragments."""
    wanted = {int(fragment.id) for fragment in fragments}
    known = sorted(int(fragment.id) for fragment in snapshot.manifest.fragments)
    if len(wanted) == len(known):
        return None
    stretches = [list(ids) for is_in, ids in groupby(known, wanted.__contains__) if is_in]
    return " OR ".join(
        f"({_ADDRESS} >= {ids[0] << 32} AND {_ADDRESS} < {(ids[-1] + 1) << 32})"
        for ids in stretches
    )


def _rewritten(
    snapshot: Snapshot, job: WriteJob, rows: DataFrame, old: tuple[Fragment, ...]
) -> Move:
    """Write rows in their order and commit them in place of the existing fragments."""
    try:
        parts = run_tasks(rows, partial(_write, job), job)  # deletes the files of other attempts
        move = Move(old, tuple(fragment for part in parts for fragment in part))
        commit_moves(
            snapshot.store,
            job.read_version,
            [move],
            records_moves=False,
            keeps_order=False,
            uuid=job.uuid,
        )
    except CommitStatusUnknownError:  # the commit may succeed: keep its files
        raise
    except BaseException:
        abort_parts(job)
        raise
    return move


def _require_positive(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and (type(value) is not int or value < 1):
            raise InvalidInputError(f"{name}: expected a positive number, found {value!r}")


def _write_options(
    snapshot: Snapshot, max_rows: int | None, max_bytes: int | None, memory_limit: int | None
) -> WriteOptions:
    buffered = memory_limit and max(1, memory_limit // _BUFFERED_SHARE)
    options = WriteOptions(version=snapshot.manifest.data_version, layout=FileOptions(buffered))
    if buffered is not None:
        options = replace(options, unfinished_bytes=buffered)
    if max_rows is not None:
        options = replace(options, max_rows_per_file=max_rows)
    return options if max_bytes is None else replace(options, max_bytes_per_file=max_bytes)


def _ordered(
    spark: SparkSession, job: WriteJob, order: Order, count: int, memory_limit: int | None
) -> DataFrame:
    """Return all rows with their addresses, in the requested order."""
    rows = partial(
        read,
        spark,
        job.uri,
        version=job.read_version,
        memory_limit=memory_limit,
        storage_options=job.storage_options,
    )
    frame = rows(columns=[*job.schema.arrow.names, _ADDRESS])
    keys = rows(columns=list(order.curve_columns)) if order.curve_columns else None
    return order.apply(frame, count, keys)


def _write(job: WriteJob, batches: Iterable[pa.RecordBatch]) -> tuple[Fragment, ...]:
    """Write the rows of one task together with their ids and versions."""
    addresses: list[pa.Array] = []

    def without_addresses() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            addresses.append(batch.column(_ADDRESS))
            yield batch.drop_columns([_ADDRESS])

    message = write_task(job, without_addresses())
    written = tuple(Fragment.from_json(json.loads(text)) for text in message.fragments)
    places = pa.chunked_array(addresses, pa.int64()).to_numpy().astype(np.uint64)
    return with_lineage(written, lineage_of_rows(pinned(job), places))
