"""Measures: every library answers once to be checked and warm, then they take turns."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from rich.table import Table

import pilum.spark
from bench.spark.questions import (
    BARE,
    LIBRARIES,
    QUESTIONS,
    SMALL_FILES,
    BareSource,
    Library,
    Question,
    mixed,
    totals,
)
from pilum.spark.types import exchange_schema

__all__ = ["Answer", "measure", "table_of"]

_FLOOR_PARTITIONS = 8


@dataclass(slots=True)
class Answer:
    """How long one library took for one question, and what was wrong with it, if anything."""

    question: str
    library: str
    seconds: list[float] = field(default_factory=list)
    problem: str | None = None

    @property
    def median(self) -> float | None:
        """Median of the rounds, seconds."""
        return statistics.median(self.seconds) if self.seconds else None


def measure(rows: int, repeat: int, memory: str = "2g") -> Iterator[Answer]:
    """Asks all questions; yields the answers of one question after the other.

    Args:
        rows: Of the table; that of small files has a tenth.
        repeat: Rounds.
        memory: Of Spark's JVM.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with _session(memory) as spark:
            for library in LIBRARIES:
                library.write(mixed(spark, rows), folder / library.name)
                few = mixed(spark, max(rows // 10, SMALL_FILES), SMALL_FILES)
                (folder / "small").mkdir(exist_ok=True)
                library.write(few, folder / "small" / library.name)
            for question in QUESTIONS:
                yield from _ask(question, spark, folder, repeat)
    finally:
        shutil.rmtree(folder)


@contextmanager
def _session(memory: str) -> Iterator[SparkSession]:
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for key, value in {
        "spark.driver.memory": memory,
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    pilum.spark.configure(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _ask(question: Question, spark: SparkSession, folder: Path, repeat: int) -> list[Answer]:
    tables = folder / "small" if question.small_files else folder
    asked: dict[str, Callable[[], Any]] = {
        library.name: partial(_once, question, library, spark, tables) for library in LIBRARIES
    }
    if question.has_floor:
        asked[BARE] = partial(_floor, spark, _prepared(spark, folder))
    answers = {name: Answer(question.name, name) for name in asked}
    expected = asked["parquet"]()
    for name, ask in asked.items():
        try:
            if ask() != expected:
                answers[name].problem = "another answer than Parquet"
        except Exception as error:
            answers[name].problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    for _ in range(repeat):
        for name, ask in asked.items():
            if answers[name].problem is None:
                start = time.perf_counter()
                ask()
                answers[name].seconds.append(time.perf_counter() - start)
    return list(answers.values())


def _once(question: Question, library: Library, spark: SparkSession, tables: Path) -> Any:
    scratch = tables / "scratch"
    try:
        return question.ask(library, spark, tables / library.name, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _prepared(spark: SparkSession, folder: Path) -> Path:
    """The table as batches of the types that Spark wants, in one Arrow file."""
    path = folder / "bare.arrow"
    table = pilum.dataset(folder / "pilum")
    schema = exchange_schema(spark.read.format("pilum").load(str(folder / "pilum")).schema)
    with pa.ipc.new_file(path, schema) as writer:
        for batch in table.to_batches(batch_size=10_000):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    return path


def _floor(spark: SparkSession, path: Path) -> Any:
    spark.dataSource.register(BareSource)
    like: DataFrame = spark.read.format("pilum").load(str(path.with_name("pilum")))
    reader = spark.read.format("bare").schema(like.schema)
    return totals(reader.load(str(path), partitions=str(_FLOOR_PARTITIONS)))


def table_of(answers: list[Answer]) -> Table:
    """Seconds, and how many times faster pilum is; "bare source" is what Spark's way allows."""
    names = list(dict.fromkeys(answer.library for answer in answers))
    table = Table("Spark: question", *names, "parquet : pilum", "bare : pilum")
    for question in dict.fromkeys(answer.question for answer in answers):
        found = {answer.library: answer for answer in answers if answer.question == question}
        cells = [_cell(found.get(name)) for name in names]
        table.add_row(question, *cells, _ratio(found, "parquet"), _ratio(found, BARE))
    return table


def _cell(answer: Answer | None) -> str:
    if answer is None:
        return ""
    return f"{answer.median:.2f} s" if answer.median else f"[yellow]{answer.problem}[/]"


def _ratio(found: dict[str, Answer], peer: str) -> str:
    ours, theirs = found["pilum"].median, found[peer].median if peer in found else None
    return f"{theirs / ours:.2f} x" if ours and theirs else ""
