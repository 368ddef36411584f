"""The command line of the bench of vectors: `python -m bench.vectors`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.sections import put_section
from bench.vectors.cases import MILLION, SHAPES, Shape, make_vectors
from bench.vectors.curves import write_curves
from bench.vectors.memory import Memory, measure_memory
from bench.vectors.page import cells_of, guide_table, put_guide_table, section
from bench.vectors.peers import InMemoryPeers
from bench.vectors.run import Figure, measure


def main() -> int:
    """Run the bench; print a section, or write it into a page with pictures beside it."""
    parser = argparse.ArgumentParser(prog="python -m bench.vectors")
    parser.add_argument("--million", action="store_true", help="also 1,000,000 x 128")
    parser.add_argument("--rows", type=int, help="instead of the numbers of rows, for a trial")
    parser.add_argument("--shape", type=int, help="only the shape of this number, from 0 on")
    parser.add_argument("--only", default="", metavar="TYPE", help="one type of index")
    parser.add_argument("--page", type=Path, help="page whose section Vectors is written")
    parser.add_argument("--guide", type=Path, help="guide whose table of indices is written")
    options = parser.parse_args()
    shapes = [*SHAPES, MILLION] if options.million else list(SHAPES)
    if options.shape is not None:
        shapes = shapes[options.shape : options.shape + 1]
    figures: list[Figure] = []
    memory: Memory = {}
    pictures: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory(prefix="bench-vectors-") as folder:
        beside = options.page.with_suffix("") if options.page else Path(folder)
        for number, full in enumerate(shapes):
            shape = _reduced(full, options.rows, options.only)
            root = Path(folder) / str(number)
            own, remembered, drawn = _measured(root, shape, beside)
            figures += own
            memory |= remembered
            pictures += [(title, f"{beside.name}/{name}") for title, name in drawn]
    if options.guide:
        put_guide_table(options.guide, guide_table(figures))
    text = section(figures, memory, pictures)
    if options.page:
        put_section(options.page, text + "\n")
    else:
        print(text)
    return 0


def _reduced(shape: Shape, num_rows: int | None, kind: str) -> Shape:
    """Return a shape with fewer rows and indices, for a trial."""
    builds = tuple(one for one in shape.builds if kind in {"", one.kind})
    return replace(shape, builds=builds, num_rows=num_rows or shape.num_rows)


def _measured(
    root: Path, shape: Shape, beside: Path
) -> tuple[list[Figure], Memory, list[tuple[str, str]]]:
    print(shape, file=sys.stderr)
    vectors = make_vectors(shape.data, shape.num_rows, shape.dimension)
    peers = InMemoryPeers(vectors)
    figures = []
    for figure in measure(root, shape, vectors, peers):
        print(" | ".join(cells_of(figure)), file=sys.stderr)
        figures.append(figure)
    pictures = []
    if shape.has_curves:
        pictures = list(write_curves(root, shape, vectors, peers, beside))
    return figures, measure_memory(root, shape), pictures


sys.exit(main())
