"""The command line of the bench."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from bench.encodings import CASES, measure, table_of
from bench.page import page
from bench.peers import LANCE_VERSIONS, PEERS
from bench.plots import write_plots
from bench.questions import QUESTIONS
from bench.report import document_of, print_report, write_text
from bench.rounds import Cell, Settings, run
from bench.sections import put_section, with_sections_of
from bench.shapes import SHAPES
from bench.tables import CASES as TABLE_CASES
from bench.tables import HEAD, Operation, Sizes
from bench.tables import measure as measure_table
from bench.tables import table_of as table_of_operations

__all__ = ["main"]

_ROWS = 1_000_000
_SECONDS = 3.0
_SPARK_ROWS = 10_000_000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and reports; returns 1 if the first library answered anything wrong.

    What a version of the file format cannot hold may be refused.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    for part in options.only:
        if not any(part in name for name in (*SHAPES, *QUESTIONS)):
            parser.error(f"--only {part}: no column and no question is named like that")
    if options.spark:
        return _spark(2000 if options.smoke else options.rows or _SPARK_ROWS, options)
    shapes = choose(SHAPES, options.only)
    questions = [QUESTIONS[name] for name in choose(QUESTIONS, options.only)]
    names = options.peers.split(",")
    versions = options.file_versions.split(",")
    # The first version is that of all comparisons; in the others only those are asked that have it.
    turns = {
        version: [
            PEERS[name].in_version(version)
            for name in names
            if version in (*PEERS[name].file_versions, versions[0])
        ]
        for version in versions
    }
    peers = turns[versions[0]]
    settings = Settings(options.rows or _ROWS, options.repeat, options.seconds)
    if options.smoke:
        settings = Settings(rows=2000, repeat=0, seconds=0.0)
    cells: list[Cell] = []
    progress = Console(stderr=True)
    for version, asked in turns.items():
        for cell in run(
            [SHAPES[n] for n in shapes if SHAPES[n].in_all_versions or version == versions[0]],
            [q for q in questions if q.in_all_versions or version == versions[0]],
            asked,
            settings,
            version,
        ):
            if not cells or (cells[-1].shape, cells[-1].question) != (cell.shape, cell.question):
                progress.print(f"{version} {cell.shape}: {cell.question}", highlight=False)
            cells.append(cell)
    speeds = [] if options.only else [measure(case, settings.rows) for case in CASES]
    operations: list[Operation] = []
    sizes = Sizes.smoke() if options.smoke else Sizes.large() if options.large_tables else Sizes()
    for case in () if options.only or "pylance" not in names else TABLE_CASES:
        progress.print(f"tables: {case.name(sizes)}", highlight=False)
        operations += measure_table(case, sizes)
    # Into a file or a pipe: wide enough for four libraries.
    console = Console() if sys.stdout.isatty() else Console(width=120)
    print_report(cells, peers, console)
    if speeds:
        console.print(table_of(speeds))
    if operations:
        console.print(table_of_operations(operations, HEAD))
    for operation in operations:
        for library, problem in operation.problems.items():
            console.print(f"[yellow]not measured:[/] {library}, {operation.name}: {problem}")
    document = document_of(cells, peers, settings)
    document["encodings"] = [asdict(speed) for speed in speeds]
    document["tables"] = [asdict(operation) for operation in operations]
    if options.json:
        write_text(options.json, json.dumps(document, indent=1) + "\n")
    if options.page:
        first = [cell for cell in document["cells"] if cell["file_version"] == versions[0]]
        text = page(document, write_plots(options.page, first))
        write_text(options.page, with_sections_of(options.page, text))
    oldest = {name: shape.oldest for name, shape in SHAPES.items()}
    held = [cell for cell in cells if cell.file_version >= oldest.get(cell.shape, "")]
    return int(any(cell.problem for cell in held if cell.peer == peers[0].name))


def _spark(rows: int, options: argparse.Namespace) -> int:
    from bench.spark import MEMORY, section
    from bench.spark import measure as measure_spark
    from bench.spark import table_of as table_of_answers

    answers = []
    for answer in measure_spark(rows, 1 if options.smoke else options.repeat):
        print(f"{answer.question}: {answer.library} {answer.seconds}", file=sys.stderr)
        answers.append(answer)
    Console(width=120).print(table_of_answers(answers))
    if options.json:
        text = json.dumps([asdict(answer) for answer in answers], indent=1)
        write_text(options.json, text + "\n")
    if options.page:
        put_section(options.page, section(rows, MEMORY, answers))
    return int(any(answer.problem for answer in answers))


def choose(known: Iterable[str], wanted: Sequence[str]) -> list[str]:
    """The names that contain one of the wanted parts; all of them if none does."""
    return [name for name in known if any(part in name for part in wanted)] or list(known)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures pilum beside its peers. Ratios are the peer's median divided by "
        "that of the first library: above 1, the first is faster, smaller or leaner.",
        epilog=f"Columns: {', '.join(SHAPES)}. Questions: {', '.join(QUESTIONS)}.",
    )
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PART",
        help="only columns, and only questions, whose name contains PART; may be repeated",
    )
    parser.add_argument("--rows", type=int, help=f"default: {_ROWS}, with --spark {_SPARK_ROWS}")
    parser.add_argument("--repeat", type=int, default=5, help="rounds; default: %(default)s")
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        help="after them a case gets no further round, but three at least; default: %(default)s",
    )
    parser.add_argument(
        "--file-versions",
        default=",".join(LANCE_VERSIONS),
        metavar="LIST",
        help="of Lance; the first for all libraries, the others for those that have them; "
        "default: %(default)s",
    )
    parser.add_argument("--peers", default=",".join(PEERS), help="default: %(default)s")
    parser.add_argument(
        "--large-tables", action="store_true", help="ten times as large; takes many minutes more"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all samples there")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="also write docs/bench.md there; with --spark, put its section into it",
    )
    parser.add_argument(
        "--spark", action="store_true", help="instead: in Spark, beside its own Parquet"
    )
    parser.add_argument("--smoke", action="store_true", help="tiny: does everything work?")
    return parser


if __name__ == "__main__":
    sys.exit(main())
