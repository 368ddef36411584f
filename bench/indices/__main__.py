"""The command line of the bench of indices: `python -m bench.indices`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.indices.cases import BUILDS, LOOKUPS, TEXT_QUERIES, Build, numbers, texts
from bench.indices.run import Figure, answer_all, build_all, merge_all
from bench.sections import put_section

_HEAD = """## Indices

A table of {rows:,} rows in two fragments, and {texts:,} documents of 5 to 60 words. Each library
built its own indices; answers were compared first, scores to the last bit. Median of turns, in
milliseconds. The last row compares pilum with itself: a merge by a key with an index, and without.

| | pilum | pylance | times faster |
|---|---:|---:|---:|
"""


def main() -> int:
    """Run the bench; print a table, or write it as a section of a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.indices")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--only", default="", metavar="PART", help="`lookups`, `texts` or `merge`")
    parser.add_argument("--page", type=Path, help="page whose section Indices is written")
    options = parser.parse_args()
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-indices-") as folder:
        root = Path(folder)
        if options.only in "lookups":
            figures += build_all(root / "numbers", numbers(options.rows), BUILDS)
            figures += answer_all(root / "numbers", LOOKUPS)
        if options.only in "texts":
            build = Build("text", "INVERTED", {"with_position": True})
            figures += build_all(root / "texts", texts(options.texts), [build])
            figures += answer_all(root / "texts", TEXT_QUERIES)
        if options.only in "merge":
            figures.append(merge_all(root, numbers(options.rows), options.rows // 100))
    section = _HEAD.format(rows=options.rows, texts=options.texts) + "\n".join(_lines(figures))
    if options.page:
        put_section(options.page, section + "\n")
    else:
        print(section)
    return 1 if any(figure.problem for figure in figures) else 0


def _lines(figures: Sequence[Figure]) -> list[str]:
    lines = []
    for figure in figures:
        if figure.problem:
            lines.append(f"| {figure.name} | {figure.problem} | | |")
            continue
        own, peer = figure.median("pilum"), figure.median("pylance")
        lines.append(f"| {figure.name} | {own * 1e3:,.2f} | {peer * 1e3:,.2f} | {peer / own:.1f} |")
    return lines


sys.exit(main())
