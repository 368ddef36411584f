"""The command line of the bench of vectors: `python -m bench.vectors`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.sections import put_section
from bench.vectors.cases import INDICES, SEARCHES, make_vectors
from bench.vectors.run import Figure, measure

_HEAD = """## Vectors

{rows:,} {data} vectors of {dimension} float32 in one fragment, 200 queries that are not among them,
k = 10. Each library built its own indices with the same parameters and searches with the same
settings; recall@10 against an exact search. Median of turns, in milliseconds. `prepared` is
`prepare_nearest`. The last column is a library with the vectors in memory, in one thread, at the
least effort that reaches the recall of pilum.

| | pilum | prepared | pylance | times faster | recall pilum | pylance | in memory |
|---|---:|---:|---:|---:|---:|---:|---|
"""


def main() -> int:
    """Run the bench; print a table, or write it as a section of a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.vectors")
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dimension", type=int, default=128)
    parser.add_argument("--data", choices=("clustered", "uniform"), default="clustered")
    parser.add_argument("--only", default="", metavar="TYPE", help="one type of index")
    parser.add_argument("--page", type=Path, help="page whose section Vectors is written")
    options = parser.parse_args()
    vectors = make_vectors(options.data, options.rows, options.dimension)
    builds = tuple(one for one in INDICES if options.only in {"", one.kind})
    with tempfile.TemporaryDirectory(prefix="bench-vectors-") as folder:
        lines = list(_lines(measure(Path(folder), vectors, builds, SEARCHES)))
    head = _HEAD.format(rows=options.rows, data=options.data, dimension=options.dimension)
    if options.page:
        put_section(options.page, head + "\n".join(lines) + "\n")
    else:
        print(head + "\n".join(lines))
    return 0


def _lines(figures: Iterable[Figure]) -> Iterable[str]:
    for figure in figures:
        own, peer = figure.median("pilum"), figure.median("pylance")
        best = min(own, figure.median("prepared")) if "prepared" in figure.samples else own
        cells = [
            figure.name,
            _milliseconds(figure, "pilum"),
            _milliseconds(figure, "prepared"),
            _milliseconds(figure, "pylance"),
            f"{peer / best:.1f}",
            _recall(figure, "pilum"),
            _recall(figure, "pylance"),
            f"{figure.peer} {_milliseconds(figure, figure.peer)}" if figure.peer else "",
        ]
        print(" | ".join(cells), file=sys.stderr)
        yield f"| {' | '.join(cells)} |"


def _milliseconds(figure: Figure, library: str) -> str:
    return f"{figure.median(library) * 1e3:,.3f}" if library in figure.samples else ""


def _recall(figure: Figure, library: str) -> str:
    return f"{figure.recalls[library]:.3f}" if library in figure.recalls else ""


sys.exit(main())
