"""The results as a section of docs/bench.md."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from bench.machine import summary
from bench.spark.run import BATCH_ROWS, Answer, cells_of

__all__ = ["section"]

_TEXT = """## Spark

A table of {rows:,} rows and nine columns (numbers, a time, texts, nulls) beside Spark's own
Parquet, in one session with {memory} for the JVM, in turns: `python -m bench --spark --page
docs/bench.md`.
Each answer is compared with that of Parquet. ÷ is the time of a peer divided by ours: above 1,
pilum is faster.

- **pilum**: a frame of the columns and the condition that the question needs (`pilum.spark.read`).
  Its rows cross from Python to the JVM one by one, which Spark asks of all Python sources.
- **bare source**: a Python source that only hands on prepared batches of the same columns, read
  from memory. No Python source is faster with rows.
- **pilum sql**: the same question by `pilum.spark.sql`. Tasks aggregate, and few rows cross.
- **pilum table**: the same question to a frame of `pilum.spark.table`, in the words that Parquet
  gets, without a hint.

A write is `pilum.spark.write` with the settings of Spark. `frame.write` of those is slower, because
Spark counts the bytes of batches; after `pilum.spark.configure(spark, batch_rows={batch_rows:_})`,
it counts rows alone.

Rows by key are found by `_rowaddr`, as an index gives it; Parquet has only a filter.

Measured on {date}: {cores} cores ({processor}), {memory_gib} GiB, Python {python}, PySpark {spark}.
"""


def section(rows: int, memory: str, answers: Sequence[Answer]) -> str:
    """The section, with its heading.

    Args:
        rows: Of the table.
        memory: Of Spark's JVM.
        answers: Of all libraries to all questions.
    """
    date = datetime.now(UTC).date().isoformat()
    spark = version("pyspark")
    text = _TEXT.format(
        rows=rows, memory=memory, batch_rows=BATCH_ROWS, date=date, spark=spark, **summary()
    )
    head, lines = cells_of(answers)
    rule = ["---", *["--:"] * (len(head) - 1)]
    return "\n".join([text, *(f"| {' | '.join(line)} |" for line in (head, rule, *lines)), ""])
