"""Searches of nearest vectors without an index find the rows that the reference finds."""

from __future__ import annotations

from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import pilum

NUM_ROWS, DIMENSION = 60, 5
TYPES = {
    "f16": pa.float16(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "u8": pa.uint8(),
}


def vectors(type: pa.DataType) -> pa.Array:
    """Returns vectors of which some are equal, null, zero, infinite or not a number."""
    random = np.random.default_rng(11)
    if type == pa.uint8():
        values = random.integers(0, 256, (NUM_ROWS, DIMENSION)).astype(np.uint8)
    else:
        values = random.normal(size=(NUM_ROWS, DIMENSION)).astype(type.to_pandas_dtype())
        values[7, 1], values[8, 2], values[9] = np.nan, np.inf, 0
        values[10, 0] = -np.inf
    values[20:24] = values[30:34] = values[0]
    rows = [None if n in (3, 40) else row for n, row in enumerate(values)]
    return pa.array(rows, pa.list_(type, DIMENSION))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("nearest") / "t")
    plain = vectors(pa.float32())
    lists = [
        None if n == 5 else [row for row in plain.to_pylist()[n : n + n % 4 + 1] if row]
        for n in range(NUM_ROWS)
    ]
    columns: dict[str, Any] = {name: vectors(type) for name, type in TYPES.items()}
    columns["id"] = range(NUM_ROWS)
    columns["s"] = pa.StructArray.from_arrays([plain], ["v"])
    columns["multi"] = pa.array(
        [one if n > 15 else None for n, one in enumerate(lists)],
        pa.list_(pa.list_(pa.float32(), DIMENSION)),
    )
    pilum.write_dataset(pa.table(columns), path, max_rows_per_file=25).delete("id IN (0, 21, 50)")
    return path


def compare(folder: str, column: str, query: Any, more: dict[str, Any], **scan: Any) -> None:
    """Asserts that both find the same rows at the same distances."""
    nearest = {"column": column, "q": query, "k": 13, **more}
    columns = ["id", "_distance", "_rowid"]
    mine = pilum.dataset(folder).to_table(columns, nearest=nearest, **scan)
    other = lance.dataset(folder).to_table(columns, nearest=nearest, **scan)
    assert mine.schema.remove_metadata() == other.schema.remove_metadata()
    assert mine.drop(["_distance"]).to_pydict() == other.drop(["_distance"]).to_pydict()
    found, expected = (one["_distance"].to_numpy() for one in (mine, other))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("metric", ["l2", "cosine", "dot"])
@pytest.mark.parametrize("column", ["f16", "f32", "f64", "s.v", "multi"])
def test_the_same_rows(folder: str, column: str, metric: str) -> None:
    random = np.random.default_rng(5)
    query = random.normal(size=(2, DIMENSION) if column == "multi" else DIMENSION)
    query = query.astype(np.float16)  # exact in all types
    compare(folder, column, query, {"metric": metric})
    compare(folder, column, query, {"metric": metric, "k": 100})
    compare(folder, column, query, {"metric": metric, "distance_range": (0.5, 1.5)})


@pytest.mark.parametrize("metric", [None, "hamming"])
def test_the_same_rows_of_bits(folder: str, metric: str | None) -> None:
    compare(folder, "u8", [1, 255, 3, 7, 128], {"metric": metric})


@pytest.mark.parametrize(
    "scan",
    [
        {"filter": "id > 20"},
        {"filter": "id > 20", "prefilter": True},
        {"filter": "_distance < 3"},
        {"filter": "id % 2 = 0", "prefilter": True, "limit": 4, "offset": 2},
        {"filter": "id % 2 = 0", "limit": 4, "offset": 2},
        {"limit": 0},
        {"fast_search": True},
        {"with_row_address": True},
    ],
)
@pytest.mark.parametrize("batch", [False, True])
def test_the_same_rows_of_scans(folder: str, scan: dict[str, Any], batch: bool) -> None:
    query = np.random.default_rng(6).normal(size=(3, DIMENSION)).astype(np.float32)
    compare(folder, "f32", query if batch else query[0], {}, **scan)


@pytest.mark.parametrize(
    ("query", "metric"),
    [
        ([float("nan")] * DIMENSION, "l2"),
        ([0.0] * DIMENSION, "cosine"),
        ([0.0] * DIMENSION, "dot"),
        ([0.0] * DIMENSION, "l2"),
        ([float("inf"), 0, 0, 0, 0], "l2"),
    ],
)
def test_the_same_rows_of_odd_queries(folder: str, query: list[float], metric: str) -> None:
    compare(folder, "f32", query, {"metric": metric})
