"""Merge a frame into a table by keys: Spark joins, tasks write, and one commit publishes.

Only the keys of the table are passed to Spark, together with the row addresses. All pairs of one
table row go to the same task, in table order. New rows are spread over the tasks. Source:
`pilum.distributed.merging`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import DataType, DoubleType, FloatType, StructField, StructType

from pilum.distributed import Attempt
from pilum.distributed.conditions import ROW_ADDRESS
from pilum.distributed.jobs import write_options
from pilum.distributed.merging import (
    MERGE_ADDRESS,
    MERGE_PRESENT,
    DistributedMerge,
    MergeJob,
    MergePart,
    MergeResult,
    write_merge_part,
)
from pilum.distributed.row_changes import RowChange
from pilum.distributed.tasks import optional_count, require_count
from pilum.errors import ColumnNotFoundError
from pilum.spark.convert import check_fits, convert_batch
from pilum.spark.frames import read
from pilum.spark.job_reports import reported
from pilum.spark.names import (
    find_name,
    is_case_sensitive,
    quoted,
    require_free,
    stored_type,
)
from pilum.spark.options import table_uri
from pilum.spark.tasks import run_tasks
from pilum.spark.types import compared_schema, exchange_type, to_spark

__all__ = ["SparkMerge", "merge_into"]

_PLACE = "_pilum_place"
_KEY = "_pilum_key_"
_PLACE_BITS = 18  # rows of a fragment that stay together: tasks share a large fragment
_NEW_PLACES = 1024


def merge_into(
    spark: SparkSession,
    uri: str,
    source: DataFrame,
    on: str | Iterable[str] | None = None,
    *,
    branch: str | None = None,
    local_rows: int = 0,
    max_rows_per_file: int | None = None,
    max_bytes_per_file: int | None = None,
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
        max_rows_per_file: Number of rows after which a task starts a new file. By default the
            target size of the table, as for the next argument; see `pilum.spark.write`.
        max_bytes_per_file: Number of bytes after which a task starts a new file.
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
    max_rows = optional_count("max_rows_per_file", max_rows_per_file, 1)
    max_bytes = optional_count("max_bytes_per_file", max_bytes_per_file, 1)
    change = RowChange.of(table_uri(uri), branch, storage_options=storage_options)
    return SparkMerge(spark, change, source, on, local_rows, max_rows, max_bytes)


class SparkMerge(DistributedMerge):
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
        max_rows: int | None,
        max_bytes: int | None,
    ) -> None:
        sizes = write_options(max_rows_per_file=max_rows, max_bytes_per_file=max_bytes)
        super().__init__(change, on, sizes)
        keys = [on] if isinstance(on, str) else [*(on or ())]
        names = self.stored_schema.names
        if is_case_sensitive(spark) and set(keys).difference(names):
            raise ColumnNotFoundError(f"on: no columns {keys}; the columns are {names}")
        self._spark = spark
        self._source = source
        self._local_rows = local_rows

    @property
    def job_target(self) -> tuple[SparkSession, str]:
        """Return the session, and the location of the table."""
        return self._spark, self._change.uri

    @reported("merge")
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
                match is refused, no clause is configured, or the source has a column of a name that
                the merge itself uses.
        """
        own = [f"{_KEY}{number}" for number in range(len(self._plan.on))]
        require_free(self._source.columns, _PLACE, MERGE_ADDRESS, MERGE_PRESENT, *own)
        self._use_stored_names()
        schema = self._source_schema()
        self.check(schema)
        return self.run(schema, self._collected(schema), self._spread)

    def _use_stored_names(self) -> None:
        """Rename keys and future table columns to the names that the table uses."""
        plan = self._plan
        moved = (plan.columns or self._source.columns) if plan.takes_all else plan.on
        stored = partial(self._stored_name, self.stored_schema.names)
        given = {self._stored_name(self._source.columns, name) for name in moved}
        names = [stored(name) if name in given else name for name in self._source.columns]
        if names != self._source.columns:
            self._source = self._source.toDF(*names)
            columns = plan.columns and tuple(map(stored, plan.columns))
            self._plan = replace(plan, columns=columns)

    def _source_schema(self) -> pa.Schema:
        """Return the source columns in the types used for the merge."""
        table = self.stored_schema
        known = to_spark(table)
        moved = self._plan.on if not self._plan.takes_all else self._source.columns
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

    def _spread(self, merge: MergeJob) -> list[MergePart]:
        return run_tasks(self._joined(merge), partial(_merge_task, merge), merge.write)

    def _joined(self, merge: MergeJob) -> DataFrame:
        """Return the source rows with the addresses that they match, partitioned by address."""
        names = [f"{_KEY}{number}" for number in range(len(merge.keys))]
        target = read(
            self._spark,
            self._change.uri,
            columns=[*merge.keys, ROW_ADDRESS],
            version=merge.write.read_version,
            storage_options=self._change.storage_options,
        ).toDF(*names, MERGE_ADDRESS)
        source = self._source.withColumn(MERGE_PRESENT, sf.lit(True))
        pairs = [
            _comparable(source[quoted(key)], target.schema[name].dataType)
            == _comparable(target[name], target.schema[name].dataType)
            for key, name in zip(merge.keys, names, strict=True)
        ]
        joined = source.join(target, pairs, merge.kind_of_join).drop(*names)
        new = -1 - sf.pmod(sf.xxhash64(*map(quoted, merge.keys)), sf.lit(_NEW_PLACES))
        place = sf.coalesce(sf.shiftright(MERGE_ADDRESS, _PLACE_BITS), new)
        # No number of partitions is given, so that Spark can coalesce small ones.
        placed = joined.withColumn(_PLACE, place).repartition(_PLACE).drop(_PLACE)
        return placed.sortWithinPartitions(sf.col(MERGE_ADDRESS).asc_nulls_last())


def _comparable(key: Column, kind: DataType) -> Column:
    """Return a key that Spark compares as pilum does: for floats, 0.0 is not -0.0."""
    key = key.cast(kind)
    return key.cast("string") if isinstance(kind, (FloatType, DoubleType)) else key


def _merge_task(merge: MergeJob, batches: Iterable[pa.RecordBatch], attempt: Attempt) -> MergePart:
    return write_merge_part(merge, batches, attempt, convert_batch)
