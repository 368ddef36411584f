"""The command line of the cases of tables: `python -m bench.tables`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.tables import CASES, HEAD, Sizes, measure, table_of
from bench.tables.run import work_and_print


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.tables")
    parser.add_argument("--large", action="store_true", help="ten times of all")
    parser.add_argument("--smoke", action="store_true", help="tiny: does everything work?")
    parser.add_argument("--only", default="", metavar="PART", help="cases whose name has PART")
    parser.add_argument("--peak", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        library, name, path = options.peak
        known = [
            case
            for case in CASES
            for sizes in (Sizes(), Sizes.large(), Sizes.smoke())
            if case.name(sizes) == name
        ]
        work_and_print(known[0], library, Path(path))
        return
    sizes = Sizes.smoke() if options.smoke else Sizes.large() if options.large else Sizes()
    operations = []
    for case in CASES:
        if options.only in case.name(sizes):
            print(case.name(sizes), file=sys.stderr)
            operations += measure(case, sizes)
    console = Console(width=120)
    console.print(table_of(operations, HEAD))
    for operation in operations:
        for library, problem in operation.problems.items():
            console.print(f"not measured: {library}, {operation.name}: {problem}", highlight=False)


main()
