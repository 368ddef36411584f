"""The command line: `python -m bench.scale --gigabytes 20 --page docs/bench.md`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.scale.page import HEAD, row_of, section
from bench.scale.rows import DIMENSION
from bench.scale.steps import Settings, measure
from bench.sections import put_section


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scale",
        description="Ingest, merge, compaction, cleanup and check of a table that is larger than "
        "memory, in Spark: time, and the peak memory of every kind of process. The disk must hold "
        "twice the table.",
    )
    parser.add_argument("--gigabytes", type=float, default=1, help="default: %(default)s")
    parser.add_argument("--memory", default="2g", help="of the JVM; default: %(default)s")
    parser.add_argument("--folder", type=Path, help="where there is room; default: the system's")
    parser.add_argument(
        "--page", type=Path, metavar="FILE", help="also put the section into docs/bench.md there"
    )
    options = parser.parse_args()
    settings = Settings(options.gigabytes, memory=options.memory, folder=options.folder)
    steps = []
    for step in measure(settings):
        print(step, file=sys.stderr, flush=True)
        steps.append(step)
    table = Table(*HEAD)
    for step in steps:
        table.add_row(*row_of(step))
    Console(width=140).print(table)
    if options.page:
        put_section(options.page, section(settings, steps, DIMENSION))


main()
