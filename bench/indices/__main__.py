"""The command line of the bench of indices: `python -m bench.indices`.

`--large` asks what the goals are stated for: 10,000,000 rows and 1,000,000 documents. DuckDB and
tantivy take part where they are installed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.indices.cases import (
    BUILDS,
    TEXT_QUERIES,
    Build,
    copies,
    lookups,
    near_duplicates,
    numbers,
    places,
    texts,
    within,
)
from bench.indices.peers import duckdb_peer, tantivy_peer
from bench.indices.run import OWN, REFERENCE, Figure, answer_all, build_all, merge_all
from bench.sections import put_section

_HEAD = """## Indices

A table of {rows:,} rows in two fragments, {texts:,} documents of 5 to 60 words, and as many of 60
words, of which five each are nearly the same, and as many points as documents. Each library
built its own indices; answers were compared first, scores to the last bit. Median of turns, in
milliseconds. Lookups have other constants in each turn, and texts other words, with indices in
memory, but for the cold one, which opens the table without caches. Builds ran in processes of their
own, whose memory at the peak is stated in MiB. DuckDB has the rows in its own file with an index
of the keys; tantivy has the documents. The last row compares pilum with itself: a merge by a key
with an index, and without.

| | pilum | pylance | times faster | beside them | memory of pilum | of pylance |
|---|---:|---:|---:|---:|---:|---:|
"""


_PARTS = "`lookups`, `texts`, `copies`, `places` or `merge`"


def main() -> int:
    """Run the bench; print a table, or write it as a section of a page."""
    parser = argparse.ArgumentParser(prog="python -m bench.indices")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--texts", type=int, default=200_000)
    parser.add_argument("--large", action="store_true", help="10,000,000 rows, 1,000,000 texts")
    parser.add_argument("--only", default="", metavar="PART", help=_PARTS)
    parser.add_argument("--page", type=Path, help="page whose section Indices is written")
    options = parser.parse_args()
    if options.large:
        options.rows, options.texts = 10_000_000, 1_000_000
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="bench-indices-") as folder:
        root = Path(folder)
        if options.only in "lookups":
            table = numbers(options.rows)
            figures += build_all(root / "numbers", table, BUILDS)
            figures += answer_all(root / "numbers", lookups(options.rows), duckdb_peer(root, table))
            del table
        if options.only in "texts":
            build = Build("text", "INVERTED", {"with_position": True})
            table = texts(options.texts)
            figures += build_all(root / "texts", table, [build])
            figures += answer_all(root / "texts", TEXT_QUERIES, tantivy_peer(root, table))
            del table
        if options.only in "copies":
            table = copies(options.texts)
            figures += build_all(root / "copies", table, [Build("text", "MINHASHLSH", {})])
            figures += answer_all(root / "copies", near_duplicates(table), None)
            del table
        if options.only in "places":
            table = places(options.texts)
            figures += build_all(root / "places", table, [Build("place", "RTREE", {})])
            figures += answer_all(root / "places", within(table), None)
            del table
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
            lines.append(f"| {figure.name} | {figure.problem} | | | | | |")
            continue
        own, peer = figure.median(OWN), figure.median(REFERENCE)
        others = [f"{name} {figure.median(name) * 1e3:,.2f}" for name in figure.others]
        memory = [
            f"{figure.peak_bytes[name] >> 20:,}"
            for name in (OWN, REFERENCE)
            if name in figure.peak_bytes
        ] or ["", ""]
        cells = [
            figure.name,
            f"{own * 1e3:,.2f}",
            f"{peer * 1e3:,.2f}",
            f"{peer / own:.1f}",
            ", ".join(others),
            *memory,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


sys.exit(main())
