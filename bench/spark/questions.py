"""What is asked: of Spark's Parquet, and of pilum in the ways that its users have.

pilum        rows of the columns and the condition that are told when the table is loaded,
             which Spark tells Parquet by itself; Spark aggregates them
pilum sql    the same question as a text for `pilum.spark.sql`; tasks aggregate
pilum table  the same question to a frame of `pilum.spark.table`, without a hint; tasks aggregate
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import pilum
import pilum.spark

__all__ = [
    "BARE",
    "LIBRARIES",
    "QUESTIONS",
    "SMALL_FILES",
    "STORED",
    "TOTALS",
    "BareSource",
    "Library",
    "Parquet",
    "Pilum",
    "PilumSql",
    "PilumTable",
    "Query",
    "Question",
    "mixed",
]

BARE = "bare source"
SMALL_FILES = 200
_KEYS = 100
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@dataclass(frozen=True)
class Query:
    """What is asked of one table.

    Attributes:
        select: Expressions of Spark's SQL.
        columns: That they are made of; all if None.
        where: A condition on rows.
    """

    select: tuple[str, ...]
    columns: tuple[str, ...] | None = None
    where: str | None = None


class Library(ABC):
    """A format that Spark reads and writes, and a way to use it."""

    name: str

    @abstractmethod
    def ask(self, spark: SparkSession, path: Path, query: Query) -> DataFrame:
        """The answer to a query."""

    def rows(self, spark: SparkSession, path: Path, numbers: list[int]) -> DataFrame:
        """Rows by their number, which is also their id."""
        raise NotImplementedError

    def write(self, frame: DataFrame, path: Path) -> None:
        """Writes a new table."""
        raise NotImplementedError

    def write_by_format(self, frame: DataFrame, path: Path) -> None:
        """Writes a new table by Spark's own method; the same, unless there is another way."""
        self.write(frame, path)


class Parquet(Library):
    """Spark's own."""

    name = "parquet"

    def ask(self, spark: SparkSession, path: Path, query: Query) -> DataFrame:
        """Spark prunes columns and pushes filters by itself."""
        frame = spark.read.parquet(str(path))
        return (frame.where(query.where) if query.where else frame).selectExpr(*query.select)

    def rows(self, spark: SparkSession, path: Path, numbers: list[int]) -> DataFrame:
        """By a filter; Parquet has nothing else."""
        return spark.read.parquet(str(path)).where(f"id IN ({', '.join(map(str, numbers))})")

    def write(self, frame: DataFrame, path: Path) -> None:
        """Compressed with Snappy, Spark's default."""
        frame.write.parquet(str(path))


class Pilum(Library):
    """Columns and conditions are told when the table is loaded; its rows cross to Spark."""

    name = "pilum"

    def ask(self, spark: SparkSession, path: Path, query: Query) -> DataFrame:
        """By the helper."""
        frame = pilum.spark.read(spark, str(path), columns=query.columns, filter=query.where)
        return frame.selectExpr(*query.select)

    def rows(self, spark: SparkSession, path: Path, numbers: list[int]) -> DataFrame:
        """By row address, as an index of keys would give it; the table was written in order."""
        fragments = pilum.dataset(path).get_fragments()
        starts: list[tuple[int, int]] = []
        first = 0
        for fragment in fragments:
            starts.append((first, fragment.fragment_id << 32))
            first += fragment.count_rows()
        addresses = [
            next(base + number - begin for begin, base in reversed(starts) if begin <= number)
            for number in numbers
        ]
        where = f"_rowaddr IN ({', '.join(map(str, addresses))})"
        return pilum.spark.read(spark, str(path), filter=where)

    def write(self, frame: DataFrame, path: Path) -> None:
        """By the helper."""
        pilum.spark.write(frame, str(path), mode="append")

    def write_by_format(self, frame: DataFrame, path: Path) -> None:
        """By the data source."""
        frame.write.format("pilum").mode("append").save(str(path))


class PilumSql(Library):
    """Tables of the first, asked by SQL."""

    name = "pilum sql"

    def ask(self, spark: SparkSession, path: Path, query: Query) -> DataFrame:
        """Columns and conditions are found in the text; tasks aggregate."""
        where = f" WHERE {query.where}" if query.where else ""
        text = f"SELECT {', '.join(query.select)} FROM t{where}"
        return pilum.spark.sql(spark, text, tables={"t": str(path)})


class PilumTable(Library):
    """Tables of the first, as frames that find out what they read."""

    name = "pilum table"

    def ask(self, spark: SparkSession, path: Path, query: Query) -> DataFrame:
        """Asked as Parquet is."""
        frame = pilum.spark.table(spark, str(path))
        return (frame.where(query.where) if query.where else frame).selectExpr(*query.select)


STORED: tuple[Library, ...] = (Pilum(), Parquet())
LIBRARIES: tuple[Library, ...] = (Pilum(), PilumSql(), PilumTable(), Parquet())


@dataclass(frozen=True)
class Question:
    """One thing to ask.

    Attributes:
        name: As in the report.
        ask: What is measured; returns plain values that must be the same for all.
        by_sql: Whether it can be a text.
        small_files: Whether the table is one of many small files.
        query_of_floor: Asked of a bare Python source, too, which only hands on batches of the
            columns; None for no such question.
    """

    name: str
    ask: Callable[[Library, SparkSession, Path, Path], Any]
    by_sql: bool = False
    small_files: bool = False
    query_of_floor: Query | None = None


def mixed(spark: SparkSession, rows: int, partitions: int = 8) -> DataFrame:
    """Numbers, times, texts of few and of many values, nulls; the same every time."""
    return spark.range(0, rows, 1, partitions).selectExpr(
        "id",
        "concat('user-', lpad(string(pmod(xxhash64(id), 1000000)), 7, '0')) AS name",
        "concat('category ', pmod(hash(id, 1), 20)) AS category",
        "pmod(hash(id, 2), 1000) AS quantity",
        "pmod(xxhash64(id, 3), 1000000) / 100 AS price",
        "IF(pmod(id, 10) = 0, NULL, pmod(xxhash64(id, 4), 97) / 7) AS score",
        "timestamp_micros(1700000000000000 + id * 1000) AS moment",
        "pmod(id, 3) = 0 AS flag",
        "concat_ws(' ', md5(string(id)), 'and', md5(string(id + 1))) AS text",
    )


TOTALS = Query(
    (
        "count(*)",
        "sum(id)",
        "sum(length(name))",
        "max(category)",
        "sum(quantity)",
        "round(sum(price), 2)",
        "count(score)",
        "max(moment)",
        "count_if(flag)",
        "sum(length(text))",
    )
)
"""One value of each column."""
_FEW_ROWS = Query(
    ("count(*)", "round(sum(price), 2)"),
    ("price",),
    "quantity < 10 AND category = 'category 3'",
)
_TWO_COLUMNS = Query(("round(sum(price), 2)", "sum(quantity)"), ("price", "quantity"))


def _query(query: Query) -> Callable[[Library, SparkSession, Path, Path], Any]:
    def ask(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
        return library.ask(spark, path, query).collect()

    return ask


def _random_rows(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
    count = pilum.dataset(path.with_name("pilum")).count_rows()
    numbers = [number * 7919 % count for number in range(1, _KEYS + 1)]
    found = library.rows(spark, path, sorted(set(numbers))).collect()
    return sorted((row.id, row.text) for row in found)


def _write(library: Library, spark: SparkSession, path: Path, scratch: Path) -> Any:
    with _default_settings(spark):
        library.write(_rows_of(spark, path), scratch)


def _write_by_format(library: Library, spark: SparkSession, path: Path, scratch: Path) -> Any:
    with _default_settings(spark):
        library.write_by_format(_rows_of(spark, path), scratch)


def _write_configured(library: Library, spark: SparkSession, path: Path, scratch: Path) -> Any:
    library.write_by_format(_rows_of(spark, path), scratch)


def _rows_of(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.parquet(str(path.with_name("parquet")))


@contextmanager
def _default_settings(spark: SparkSession) -> Iterator[None]:
    """Without the setting that lifts Spark's limit of bytes."""
    unbounded = str(spark.conf.get(_BATCH_BYTES))
    spark.conf.unset(_BATCH_BYTES)
    try:
        yield
    finally:
        spark.conf.set(_BATCH_BYTES, unbounded)


QUESTIONS: tuple[Question, ...] = (
    Question("full scan, a sum of each column", _query(TOTALS), by_sql=True, query_of_floor=TOTALS),
    Question("filtered scan", _query(_FEW_ROWS), by_sql=True),
    Question("two columns of nine", _query(_TWO_COLUMNS), by_sql=True, query_of_floor=_TWO_COLUMNS),
    Question("many small files, two columns", _query(_TWO_COLUMNS), by_sql=True, small_files=True),
    Question(f"{_KEYS} rows by key", _random_rows),
    Question("write", _write),
    Question("write by frame.write", _write_by_format),
    Question("write by frame.write, with batch_rows", _write_configured),
)


class BareSource(DataSource):
    """Hands on the batches of an Arrow file, shared by partitions: what the way to Spark allows."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "bare"

    def schema(self) -> str:
        """Given by the user."""
        raise NotImplementedError

    def reader(self, schema: Any) -> BareReader:
        """A reader of the file."""
        return BareReader(self.options["path"], int(self.options["partitions"]))


class BareReader(DataSourceReader):
    """Each partition gives its share of the batches."""

    def __init__(self, path: str, partitions: int) -> None:
        self._path = path
        self._partitions = partitions

    def partitions(self) -> list[InputPartition]:
        """Numbers."""
        return [InputPartition(number) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches that lie in memory as they are sent."""
        with pa.memory_map(self._path) as source, pa.ipc.open_file(source) as file:
            for number in range(partition.value, file.num_record_batches, self._partitions):
                yield file.get_batch(number)
