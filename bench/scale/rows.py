"""The rows, and what a table must hold of them: computed by Spark alone, no file is read.

Ids count from 0. A row of generation 1 has another quantity and another text than that of
generation 0 with the same id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

import pilum.spark
from pilum.spark.types import FIXED_SIZE

__all__ = ["DIMENSION", "ROW_BYTES", "Changes", "expected", "found", "source"]

DIMENSION = 128
ROW_BYTES = 970
"""Of a row in memory, about; the report says what was found."""

_ONE_IN = 200
_COLUMNS = {
    "id": "id",
    "name": "concat('user-', lpad(string(pmod(xxhash64(id), 1000000)), 7, '0'))",
    "category": "concat('category ', pmod(hash(id, 1), 20))",
    "quantity": "pmod(hash(id, 2, generation), 1000)",
    "price": "pmod(xxhash64(id, 3), 1000000) / 100",
    "score": "IF(pmod(id, 10) = 0, NULL, pmod(xxhash64(id, 4), 97) / 7)",
    "moment": "timestamp_micros(1700000000000000 + id * 1000)",
    "flag": "pmod(id, 3) = 0",
    "text": "concat_ws(' ', sha2(string(id), 512), sha2(string(id + 1), 512), "
    "sha2(string(generation), 512))",
}
_NARROW = tuple(name for name in _COLUMNS if name != "text")
_MEMBER = "cast(hash(id, {}) AS float)"
_ENDS = (0, DIMENSION - 1)


@dataclass(frozen=True)
class Changes:
    """What the merge does to a table of `num_rows`: one row of 200 is changed, as many are new."""

    num_rows: int

    @property
    def num_new(self) -> int:
        """Rows that are new."""
        return self.num_rows // _ONE_IN

    @property
    def is_changed(self) -> str:
        """Tells rows of the table that the merge changes, as SQL."""
        return f"id < {self.num_rows} AND pmod(xxhash64(id, 5), {_ONE_IN}) = 0"

    @property
    def generation(self) -> str:
        """The generation of each row after the merge, as SQL."""
        return f"IF(id >= {self.num_rows} OR ({self.is_changed}), 1, 0)"

    def frame(self, spark: SparkSession, partitions: int) -> DataFrame:
        """The rows to merge."""
        ids = spark.range(0, self.num_rows + self.num_new, 1, partitions)
        return _rows(ids.where(f"id >= {self.num_rows} OR ({self.is_changed})"), "1")


def source(spark: SparkSession, num_rows: int, partitions: int) -> DataFrame:
    """The rows of a new table, a range of ids in each partition."""
    return _rows(spark.range(0, num_rows, 1, partitions), "0")


def _rows(ids: DataFrame, generation: str) -> DataFrame:
    embedding = f"transform(sequence(0, {DIMENSION - 1}), i -> {_MEMBER.format('i')})"
    rows = _narrow(ids, generation, {"embedding": embedding})
    return rows.withMetadata("embedding", {FIXED_SIZE: DIMENSION})


def _narrow(ids: DataFrame, generation: str, others: dict[str, str]) -> DataFrame:
    columns = {**_COLUMNS, **others}
    return ids.selectExpr("id", f"{generation} AS generation").selectExpr(
        *(f"{text} AS {name}" for name, text in columns.items())
    )


def expected(
    spark: SparkSession, num_rows: int, partitions: int, generation: str, *, wide: bool
) -> dict[str, int]:
    """What `found` gives of a table that has all rows, computed without one.

    Args:
        spark: The session.
        num_rows: Ids are below it.
        partitions: Tasks.
        generation: Of each row, as SQL.
        wide: Whether texts and vectors count, too.
    """
    ends = {f"at_{number}": _MEMBER.format(number) for number in _ENDS} if wide else {}
    rows = _narrow(spark.range(0, num_rows, 1, partitions), generation, ends)
    return _totals(rows, [*(_COLUMNS if wide else _NARROW), *ends])


def found(spark: SparkSession, path: str, *, wide: bool) -> dict[str, int]:
    """Rows, and a sum to which each value adds: of vectors those at both ends.

    Args:
        spark: The session.
        path: Of the table.
        wide: Whether texts and vectors count, too.
    """
    ends = [f"embedding[{number}]" for number in _ENDS] if wide else []
    frame = pilum.spark.read(spark, path, columns=None if wide else list(_NARROW))
    return _totals(frame, [*(_COLUMNS if wide else _NARROW), *ends])


def _totals(frame: DataFrame, values: Sequence[str]) -> dict[str, int]:
    row = frame.selectExpr(
        "count(*) AS num_rows",
        "sum(quantity) AS quantity",
        f"sum(pmod(xxhash64({', '.join(values)}), 1000003)) AS hash",
    ).collect()[0]
    return {name: int(value) for name, value in row.asDict().items()}
