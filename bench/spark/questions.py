"""What is asked of both: a frame of one library in, one row of plain values out.

A question gets a library by its two verbs, so that pilum can say which columns and rows it wants,
which Spark tells Parquet by itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
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
    "BareSource",
    "Library",
    "Parquet",
    "Pilum",
    "Question",
    "mixed",
    "totals",
]

BARE = "bare source"
SMALL_FILES = 200
_KEYS = 100


class Library(ABC):
    """A format that Spark reads and writes."""

    name: str

    @abstractmethod
    def read(
        self, spark: SparkSession, path: Path, columns: list[str] | None, where: str | None
    ) -> DataFrame:
        """A frame of a table."""

    @abstractmethod
    def write(self, frame: DataFrame, path: Path) -> None:
        """Writes a new table."""

    def rows(self, spark: SparkSession, path: Path, numbers: list[int]) -> DataFrame:
        """Rows by their number, which is also their id."""
        return self.read(spark, path, None, f"id IN ({', '.join(map(str, numbers))})")


class Parquet(Library):
    """Spark's own."""

    name = "parquet"

    def read(
        self, spark: SparkSession, path: Path, columns: list[str] | None, where: str | None
    ) -> DataFrame:
        """Spark prunes columns and pushes filters by itself."""
        frame = spark.read.parquet(str(path))
        return frame.where(where) if where else frame

    def write(self, frame: DataFrame, path: Path) -> None:
        """Compressed with Snappy, Spark's default."""
        frame.write.parquet(str(path))


class Pilum(Library):
    """Columns and conditions are told when the table is loaded."""

    name = "pilum"

    def read(
        self, spark: SparkSession, path: Path, columns: list[str] | None, where: str | None
    ) -> DataFrame:
        """By the helper."""
        return pilum.spark.read(spark, str(path), columns=columns, filter=where)

    def write(self, frame: DataFrame, path: Path) -> None:
        """By the data source."""
        frame.write.format("pilum").mode("append").save(str(path))

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
        return self.read(spark, path, None, f"_rowaddr IN ({', '.join(map(str, addresses))})")


LIBRARIES: tuple[Library, ...] = (Pilum(), Parquet())


@dataclass(frozen=True)
class Question:
    """One thing to ask.

    Attributes:
        name: As in the report.
        ask: What is measured; returns plain values that must be the same for all.
        small_files: Whether the table is one of many small files.
        has_floor: Whether a bare Python source is asked too, which only hands on batches.
    """

    name: str
    ask: Callable[[Library, SparkSession, Path, Path], Any]
    small_files: bool = False
    has_floor: bool = False


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


def totals(frame: DataFrame) -> Any:
    """One value of each column."""
    return frame.selectExpr(
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
    ).collect()


def _full_scan(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
    return totals(library.read(spark, path, None, None))


def _filtered(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
    where = "quantity < 10 AND category = 'category 3'"
    frame = library.read(spark, path, ["price"], where)
    return frame.selectExpr("count(*)", "round(sum(price), 2)").collect()


def _subset(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
    frame = library.read(spark, path, ["price", "quantity"], None)
    return frame.selectExpr("round(sum(price), 2)", "sum(quantity)").collect()


def _random_rows(library: Library, spark: SparkSession, path: Path, _: Path) -> Any:
    count = pilum.dataset(path.with_name("pilum")).count_rows()
    numbers = [number * 7919 % count for number in range(1, _KEYS + 1)]
    found = library.rows(spark, path, sorted(set(numbers))).collect()
    return sorted((row.id, row.text) for row in found)


def _write(library: Library, spark: SparkSession, path: Path, scratch: Path) -> Any:
    source = spark.read.parquet(str(path.with_name("parquet")))
    library.write(source, scratch)
    return None


QUESTIONS: tuple[Question, ...] = (
    Question("full scan, a sum of each column", _full_scan, has_floor=True),
    Question("filtered scan", _filtered),
    Question("two columns of nine", _subset),
    Question("many small files, two columns", _subset, small_files=True),
    Question(f"{_KEYS} rows by key", _random_rows),
    Question("write", _write),
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
