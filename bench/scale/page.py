"""The results as a table, and as a section of docs/bench.md."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from bench.machine import summary
from bench.scale.steps import Settings, Step

__all__ = ["HEAD", "row_of", "section"]

HEAD = (
    "step",
    "time",
    "rows, GB/s",
    "worker, peak",
    "workers together",
    "JVM",
    "driver",
    "fragments",
    "files",
    "on disk",
    "",
)

_TEXT = """## Larger than memory

A table of {rows:,} rows, {gigabytes:.1f} GB in memory, goes through Spark: `local[*]` with
{memory} for the JVM (`python -m bench.scale --gigabytes {asked:g} --page docs/bench.md`). Spark
computes the rows (id, texts, numbers, a time, a vector of {dimension} floats) while they are
written, so nothing is read to make them, and the ingest has their cost. After ingest, merge and
compaction the number of rows and sums over most columns are compared with what Spark computes, at
the end of a whole run over all columns.

Peaks are resident sizes as the kernel marks them, set back before each step: of the largest Python
worker, of all Python processes below the JVM at one time (pages that they share count once), of the
JVM and of the driver's Python. Speed is that of rows as they lie in memory; the last columns are
the files of the latest version, and all that the table has on disk.

Measured on {date}: {cores} cores ({processor}), {memory_gib} GiB, Python {python}. The machine was
shared with other work (a load of {load:.0f} at the end), so times are worth less than peaks.
"""


def section(settings: Settings, steps: Sequence[Step], dimension: int) -> str:
    """The section, with its heading."""
    text = _TEXT.format(
        rows=settings.num_rows,
        gigabytes=max(step.gigabytes or 0 for step in steps),
        asked=settings.gigabytes,
        memory=settings.memory,
        dimension=dimension,
        load=os.getloadavg()[2],
        date=datetime.now(UTC).date().isoformat(),
        **summary(),
    )
    lines = [HEAD, ["---", *["--:"] * (len(HEAD) - 2), "---"], *map(row_of, steps)]
    return "\n".join([text, *(f"| {' | '.join(line)} |" for line in lines), ""])


def row_of(step: Step) -> list[str]:
    """One line of the table."""
    peaks = step.peaks
    speed = f"{step.gigabytes / step.seconds:.3f}" if step.gigabytes else ""
    sizes = [peaks["worker"], peaks["workers"], peaks["jvm"], peaks["driver"]]
    return [
        step.name,
        f"{step.seconds:,.0f} s",
        speed,
        *(f"{size / 2**20:,.0f} MiB" for size in sizes),
        str(step.fragments or ""),
        *(f"{size / 1e9:.2f} GB" if size else "" for size in (step.file_bytes, step.disk_bytes)),
        step.note,
    ]
