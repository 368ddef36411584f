"""Merge a frame into a table by keys: Spark joins, tasks write, and one commit publishes.

    source ──┐                                              new files
             ├─ join by key ─ by place in the table ─ tasks ─▶ addresses ──▶ driver: one commit
    keys of ─┘
    the table

Only the keys of the table are passed to Spark, together with the row addresses. All pairs of one
table row go to the same task, in table order. New rows are spread over the tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from pilum.arguments import require_count
from pilum.arrays.picking import filtered
from pilum.dataset.merge_plan import MergeClauses, MergePlan
from pilum.dataset.merging import MergeResult, merge_result
from pilum.distributed import WriteJob
from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs
from pilum.spark.convert import check_fits, convert_batch
from pilum.spark.frames import read
from pilum.spark.names import find_name, is_case_sensitive, stored_type
from pilum.spark.row_tasks import RowChange, file_name_prefix, pinned, run_tasks
from pilum.spark.rows import RETRY_TIMEOUT, row_change
from pilum.spark.types import compared_schema, exchange_type, to_spark
from pilum.table.changes.join import Matches
from pilum.table.changes.merge_clauses import Clauses, Matched, merged_columns
from pilum.table.changes.merge_rows import (
    MergeCounts,
    MergedPart,
    finish_merge,
    merge_part,
    merge_rows,
)
from pilum.table.changes.row_changes import matching_rows
from pilum.table.commit.operations.base import Operation
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.spool import Spool

__all__ = ["SparkMerge", "merge_into"]

_ADDRESS = "_pilum_address"
_PRESENT = "_pilum_present"
_PLACE = "_pilum_place"
_KEY = "_pilum_key_"
_PLACE_BITS = 18  # rows of a fragment that stay together: tasks share a large fragment
_NEW_PLACES = 1024
_SHIFT = np.uint64(32)
_NOTHING = MergeCounts(0, 0, 0)


def merge_into(
    spark: SparkSession,
    uri: str,
    source: DataFrame,
    on: str | Iterable[str] | None = None,
    *,
    branch: str | None = None,
    local_rows: int = 0,
    storage_options: Mapping[str, str] | None = None,
) -> SparkMerge:
    """Begin a merge, which matches the rows of a frame with the table rows of equal keys.

    >>> merge = pilum.spark.merge_into(spark, "/tmp/t", changes, on="id")
    >>> merge.when_matched_update_all().when_not_matched_insert_all().execute()
    {'num_inserted_rows': 2, 'num_updated_rows': 1, 'num_deleted_rows': 0}

    Args:
        spark: The session.
        uri: Location of the table.
        source: The rows to merge. The frame is evaluated once per attempt. It should be
            deterministic, because a retried task must read the same rows again.
        on: The key column or columns; None for the primary key of the table.
        branch: The branch whose latest version is changed.
        local_rows: A source with at most this many rows is collected and merged by the driver, with
            the same result and without a shuffle. To find out, the source is evaluated with a limit
            of one more row.
        storage_options: Settings of the store.

    Returns:
        A builder. Configure what happens to the rows, then call `execute`.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
        ColumnNotFoundError: If a column does not exist.
        InvalidInputError: If no key is given and the table has none.
    """
    local_rows = require_count("local_rows", local_rows)
    change = row_change(uri, branch, 10, RETRY_TIMEOUT, None, storage_options)
    return SparkMerge(spark, change, source, on, local_rows)


class SparkMerge(MergeClauses):
    """A builder for the merge of a frame, made by `pilum.spark.merge_into`.

    Matched rows, unmatched rows and rows that only the table has stay unchanged unless a method
    says otherwise. If several methods cover the same rows, the last call wins. Conditions and
    expressions use the SQL dialect of pilum's filters.
    """

    def __init__(
        self,
        spark: SparkSession,
        change: RowChange,
        source: DataFrame,
        on: str | Iterable[str] | None,
        local_rows: int,
    ) -> None:
        self._table = change.opened()
        schema = self._table.snapshot.schema
        keys = [on] if isinstance(on, str) else [*(on or ())]
        super().__init__(schema, keys)
        if is_case_sensitive(spark) and set(keys).difference(schema.names):
            raise ColumnNotFoundError(f"on: no columns {keys}; the columns are {schema.names}")
        self._spark = spark
        self._change = change
        self._source = source
        self._local_rows = local_rows
        self._retries = change.retries

    def execute(self) -> MergeResult:
        """Merge the rows with one commit.

        A row with a null key matches nothing. As in Spark, every NaN matches every other NaN. -0.0
        does not match 0.0. If another writer changes the same rows concurrently, the merge is
        repeated on the new version. The driver needs 8 bytes for each table row that changes.

        Returns:
            A dict with `num_inserted_rows`, `num_updated_rows` and `num_deleted_rows`.

        Raises:
            SchemaMismatchError: If the source does not fit the table.
            ColumnNotFoundError: If a condition or expression names a column that neither side has.
            FilterError: If a condition or expression does not parse or bind, or fails on a value.
            CommitConflictError: If a concurrent commit invalidated the merge.
            CommitContentionError: If concurrent commits won in every attempt.
            UnsupportedFeatureError: If the source has blob columns that would be merged.
            InvalidInputError: If several source rows match one table row that they would change, a
                match is refused, or no clause is configured.
        """
        if not self._plan.does_something:
            raise InvalidInputError("nothing to merge: call one of the when_ methods first")
        change = RowChange(
            self._change.uri, self._change.storage_options, self._retries, self._idempotency_key
        )
        self._use_stored_names()
        schema = self._source_schema()
        self._clauses(self._table.snapshot, schema)  # report errors here, before any task runs
        local = self._collected(schema)
        attempt = self._spread if local is None else partial(self._merge_locally, local)
        return merge_result(change.commit_once(self._table, partial(attempt, schema), _NOTHING))

    def _clauses(self, snapshot: Snapshot, schema: pa.Schema) -> Clauses:
        clauses = self._plan.bound(snapshot, schema)
        fields = merged_columns(snapshot, schema, clauses).schema.fields
        if blobs := [field.name for field in fields if has_blobs(field)]:
            raise UnsupportedFeatureError(
                f"tasks cannot merge columns of blobs: {blobs}; leave them out, or use "
                "LanceDataset.merge_insert"
            )
        return clauses

    def _use_stored_names(self) -> None:
        """Rename keys and future table columns to the names that the table uses."""
        plan = self._plan
        moved = (plan.columns or self._source.columns) if takes_all(plan) else plan.on
        stored = partial(self._stored_name, self._table.snapshot.schema.names)
        given = {self._stored_name(self._source.columns, name) for name in moved}
        names = [stored(name) if name in given else name for name in self._source.columns]
        if names != self._source.columns:
            self._source = self._source.toDF(*names)
            columns = plan.columns and tuple(map(stored, plan.columns))
            self._plan = replace(plan, columns=columns)

    def _source_schema(self) -> pa.Schema:
        """Return the source columns in the types used for the merge."""
        table = self._table.snapshot.schema.arrow
        known = to_spark(table)
        moved = self._plan.on if not takes_all(self._plan) else self._source.columns
        fields = []
        for given in self._source.schema.fields:
            if given.name in table.names and given.name in moved:
                self._check_type(given, known[given.name])
                fields.append(table.field(given.name).with_nullable(True))
            else:
                crossing = exchange_type(given.dataType, given.name)
                fields.append(pa.field(given.name, crossing))
        return pa.schema(fields)

    def _check_type(self, given: StructField, known: StructField) -> None:
        """Check that a column fits the table column, as for an append."""
        sensitive = is_case_sensitive(self._spark)
        kind = stored_type(given.dataType, known.dataType, sensitive)
        found, wanted = compared_schema(
            StructType([StructField(given.name, kind), StructField(known.name, known.dataType)])
        )
        check_fits(found.type, wanted.type, given.name)

    def _stored_name(self, known: Sequence[str], name: str) -> str:
        sensitive = is_case_sensitive(self._spark)
        return find_name(name, known, case_sensitive=sensitive) or name

    def _collected(self, schema: pa.Schema) -> list[pa.RecordBatch] | None:
        """Return the source rows if there are at most `local_rows`, else None."""
        if not self._local_rows:
            return None
        found = self._source.limit(self._local_rows + 1).toArrow()
        if found.num_rows > self._local_rows:
            return None
        return [convert_batch(batch, schema) for batch in found.to_batches()]

    def _merge_locally(
        self, local: list[pa.RecordBatch], schema: pa.Schema, snapshot: Snapshot, job: WriteJob
    ) -> tuple[Operation, MergeCounts]:
        with Spool(pa.RecordBatchReader.from_batches(schema, local)) as spool:
            return merge_rows(snapshot, spool, self._clauses(snapshot, schema))

    def _spread(
        self, schema: pa.Schema, snapshot: Snapshot, job: WriteJob
    ) -> tuple[Operation, MergeCounts]:
        clauses = self._clauses(snapshot, schema)
        frame = self._joined(snapshot, clauses)
        done = run_tasks(frame, partial(_merge_task, job, schema, clauses), job)
        others = np.concatenate([np.empty(0, np.uint64), *(others for _, others in done)])
        return finish_merge(snapshot, clauses, [part for part, _ in done], others)

    def _joined(self, snapshot: Snapshot, clauses: Clauses) -> DataFrame:
        """Return the source rows with the addresses that they match, partitioned by address."""
        names = [f"{_KEY}{number}" for number in range(len(clauses.keys))]
        target = read(
            self._spark,
            self._change.uri,
            columns=[*clauses.keys, "_rowaddr"],
            version=snapshot.manifest.version,
            storage_options=self._change.storage_options,
        ).toDF(*names, _ADDRESS)
        source = self._source.withColumn(_PRESENT, sf.lit(True))
        pairs = [
            _comparable(source[_quoted(key)], target.schema[name].dataType)
            == _comparable(target[name], target.schema[name].dataType)
            for key, name in zip(clauses.keys, names, strict=True)
        ]
        joined = source.join(target, pairs, _kind_of_join(clauses)).drop(*names)
        new = -1 - sf.pmod(sf.xxhash64(*map(_quoted, clauses.keys)), sf.lit(_NEW_PLACES))
        place = sf.coalesce(sf.shiftright(_ADDRESS, _PLACE_BITS), new)
        # No number of partitions is given, so that Spark can coalesce small ones.
        placed = joined.withColumn(_PLACE, place).repartition(_PLACE).drop(_PLACE)
        return placed.sortWithinPartitions(sf.col(_ADDRESS).asc_nulls_last())


def takes_all(plan: MergePlan) -> bool:
    """Return whether the columns of a source become those of the table."""
    return plan.inserts or (plan.matched is Matched.UPDATED and plan.values is None)


def _comparable(key: Column, kind: DataType) -> Column:
    """Return a key that Spark compares as pilum does: for floats, 0.0 is not -0.0."""
    key = key.cast(kind)
    return key.cast("string") if isinstance(kind, (FloatType, DoubleType)) else key


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _kind_of_join(clauses: Clauses) -> str:
    if clauses.deletes_others:
        return "full" if clauses.inserts else "right"
    return "left" if clauses.inserts else "inner"


def _merge_task(
    job: WriteJob, schema: pa.Schema, clauses: Clauses, batches: Iterable[pa.RecordBatch]
) -> tuple[MergedPart, NDArray[np.uint64]]:
    """Write the rows of one partition and return it with the rows missing from the source."""
    snapshot = pinned(job)
    joined = _Joined(schema)
    with Spool(pa.RecordBatchReader.from_batches(schema, joined.rows(batches))) as spool:
        part = merge_part(snapshot, spool, clauses, joined.matches(), file_name_prefix(job))
    return part, _wanted(snapshot, clauses, joined.others())


class _Joined:
    """The rows of one join partition: source rows pass through, addresses are kept."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._addresses: list[pa.Array] = []
        self._others: list[pa.Array] = []

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the source rows in the types of the merge."""
        for batch in batches:
            present = batch.column(_PRESENT).is_valid()
            of_source = filtered(batch, present)
            if of_source.num_rows < batch.num_rows:
                self._others.append(batch.column(_ADDRESS).filter(pc.invert(present)))
            self._addresses.append(of_source.column(_ADDRESS))
            yield convert_batch(of_source, self._schema)

    def matches(self) -> Matches:
        """Return the matched pairs in ascending order of address, as sorted by Spark."""
        addresses = pa.chunked_array(self._addresses, pa.int64())
        rows = np.flatnonzero(addresses.is_valid().to_numpy())
        return Matches(addresses.drop_null().to_numpy().astype(np.uint64), rows)

    def others(self) -> NDArray[np.uint64]:
        """Return the addresses of table rows that the source does not have."""
        found = pa.chunked_array(self._others, pa.int64())
        addresses: NDArray[np.uint64] = found.to_numpy().astype(np.uint64)
        return addresses


def _wanted(
    snapshot: Snapshot, clauses: Clauses, addresses: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return the addresses of the rows for which the merge condition is true."""
    if clauses.others is None or not len(addresses):
        return addresses
    fragments = tuple(np.unique(addresses >> _SHIFT).tolist())
    found = matching_rows(snapshot, clauses.others, fragments)
    wanted = [(np.uint64(number) << _SHIFT) | rows.offsets for number, rows in found.items()]
    is_wanted = np.isin(addresses, np.concatenate([np.empty(0, np.uint64), *wanted]))
    wanted_addresses: NDArray[np.uint64] = addresses[is_wanted]
    return wanted_addresses
