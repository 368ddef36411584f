"""Measures: every library answers once to be checked and warm, then they take turns."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.table import Table

import pilum.spark
from bench.spark.questions import (
    BARE,
    LIBRARIES,
    QUESTIONS,
    SMALL_FILES,
    STORED,
    BareSource,
    Library,
    Query,
    Question,
    mixed,
)
from bench.spark.session import session
from pilum.spark.types import exchange_schema, to_spark

__all__ = ["BATCH_ROWS", "MEMORY", "Answer", "cells_of", "measure", "table_of"]

MEMORY = "2g"
"""Of Spark's JVM."""
BATCH_ROWS = 10_000
"""Rows of frames in a batch for Python, as many as by default, but whatever they take."""
_FLOOR_PARTITIONS = "8"
# As many as in ours.
_FLOOR_BATCH_ROWS = 20_000


_RATIOS = (
    ("parquet", "pilum"),
    ("parquet", "pilum sql"),
    ("parquet", "pilum table"),
    (BARE, "pilum"),
)


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


def measure(rows: int, repeat: int, memory: str = MEMORY) -> Iterator[Answer]:
    """Asks all questions; yields the answers of one question after the other.

    Args:
        rows: Of the table; that of small files has a tenth.
        repeat: Rounds.
        memory: Of Spark's JVM.
    """
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with session(memory, batch_rows=BATCH_ROWS) as spark:
            for library in STORED:
                library.write(mixed(spark, rows), folder / library.name)
                few = mixed(spark, max(rows // 10, SMALL_FILES), SMALL_FILES)
                (folder / "small").mkdir(exist_ok=True)
                library.write(few, folder / "small" / library.name)
            for question in QUESTIONS:
                yield from _ask(question, spark, folder, repeat)
    finally:
        shutil.rmtree(folder)


def _ask(question: Question, spark: SparkSession, folder: Path, repeat: int) -> list[Answer]:
    tables = folder / "small" if question.small_files else folder
    asked: dict[str, Callable[[], Any]] = {
        library.name: partial(_once, question, library, spark, tables)
        for library in (LIBRARIES if question.by_sql else STORED)
    }
    if (query := question.query_of_floor) is not None:
        asked[BARE] = partial(_floor, spark, query, _prepared(spark, folder, query))
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
        return question.ask(library, spark, tables / _table(library), scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _table(library: Library) -> str:
    """The table that it asks; a way to ask has none of its own."""
    return library.name.partition(" ")[0]


def _prepared(spark: SparkSession, folder: Path, query: Query) -> Path:
    """Columns as batches of the types that Spark wants, in one Arrow file."""
    path = folder / "bare.arrow"
    table = pilum.dataset(folder / "pilum")
    frame = pilum.spark.read(spark, str(folder / "pilum"), columns=query.columns)
    schema = exchange_schema(frame.schema)
    with pa.ipc.new_file(path, schema) as writer:
        for batch in table.to_batches(columns=schema.names, batch_size=_FLOOR_BATCH_ROWS):
            writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
    return path


def _floor(spark: SparkSession, query: Query, path: Path) -> Any:
    spark.dataSource.register(BareSource)
    with pa.ipc.open_file(path) as file:
        schema = to_spark(file.schema)
    frame = spark.read.format("bare").schema(schema).load(str(path), partitions=_FLOOR_PARTITIONS)
    return frame.selectExpr(*query.select).collect()


def table_of(answers: list[Answer]) -> Table:
    """Seconds, and how many times faster pilum is; "bare source" is what Spark's way allows."""
    head, rows = cells_of(answers)
    table = Table(f"Spark: {head[0]}", *head[1:])
    for row in rows:
        table.add_row(*row)
    return table


def cells_of(answers: Sequence[Answer]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table: medians, and peers divided by pilum."""
    names = list(dict.fromkeys(answer.library for answer in answers))
    head = ["question", *names, *(f"{peer} ÷ {ours}" for peer, ours in _RATIOS)]
    rows = []
    for question in dict.fromkeys(answer.question for answer in answers):
        found = {answer.library: answer for answer in answers if answer.question == question}
        times = [_cell(found.get(name)) for name in names]
        rows.append([question, *times, *(_ratio(found, *pair) for pair in _RATIOS)])
    return head, rows


def _cell(answer: Answer | None) -> str:
    if answer is None:
        return "–"
    return f"{answer.median:.2f} s" if answer.median else f"{answer.problem}"


def _ratio(found: dict[str, Answer], peer: str, ours: str) -> str:
    medians = [found[name].median if name in found else None for name in (peer, ours)]
    return f"{medians[0] / medians[1]:.2f}" if medians[0] and medians[1] else "–"
