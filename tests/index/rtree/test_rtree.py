"""R-trees: rows whose boxes overlap a box, against all boxes; merges, and damaged files."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fuzz.mutate import mutate
from geometry_columns import LAYOUTS, column_of, random_shapes
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.folders import Folders, moved, nulls_of
from index.scalar.strategies import rows_of

from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    PilumError,
    UnknownArgumentError,
    UnsupportedTypeError,
)
from pilum.format.version import FileVersion
from pilum.index.base import Part
from pilum.index.files import IndexFolderWriter
from pilum.index.queries import InBox, IsIn, IsNull
from pilum.index.rtree import index as rtree_index
from pilum.index.rtree.index import RTreeIndex
from pilum.index.rtree.levels import Levels
from pilum.index.rtree.rtree import RTREE
from pilum.storage.local import LocalStore

_POINT = LAYOUTS["points"][1]
_QUERIES = [
    InBox((2.0, 2.0, 4.0, 4.0)),
    InBox((5.0, 0.0, 5.0, 9.0)),
    InBox((-9.0, -9.0, 99.0, 99.0)),
    InBox((50.0, 50.0, 60.0, 60.0)),
]
_NUMBERS = st.sampled_from(
    [0.0, -0.0, 1.0, 2.0, 3.5, -4.0, 1e308, -1e308, float("inf"), -float("inf")]
)


def _points(count: int, seed: int = 1) -> pa.Array:
    return column_of("points", random_shapes("points", count, random.Random(seed)))


def _found(index: RTreeIndex, query: InBox) -> list[int]:
    answer = index.search(query)
    assert answer is not None
    assert not answer.is_exact
    found: list[int] = answer.rows.listed.tolist()
    return found


def _expected(column: pa.Array, query: InBox) -> list[int]:
    low_x, low_y, high_x, high_y = query.ends
    return [
        row
        for row, one in enumerate(column.to_pylist())
        if one is not None and low_x <= one["x"] <= high_x and low_y <= one["y"] <= high_y
    ]


@pytest.mark.parametrize("page_rows", [2, 7, 4096])
@pytest.mark.parametrize("count", [0, 1, 2, 49, 300])
def test_search(tmp_path: Path, count: int, page_rows: int) -> None:
    """Trees of several levels, and of none; an estimate is about what is found."""
    column = _points(count)
    index = Folders(str(tmp_path)).built(RTREE, column, page_size=page_rows)
    for _ in range(2):
        for query in _QUERIES:
            expected = _expected(column, query)
            assert _found(index, query) == expected
            assert 0 <= index.estimate(query) <= count
        assert index.search(IsNull()).rows.listed.tolist() == nulls_of(column)
        assert index.estimate(IsNull()) == column.null_count
        index.prewarm()
    everything = _QUERIES[2]
    assert index.estimate(everything) == len(_found(index, everything))
    assert index.search(IsIn(column)) is None
    assert index.estimate(IsIn(column)) is None
    figures = index.statistics()
    assert figures["num_items"] == len(_expected(column, everything))
    assert len(figures["page_offsets"]) == figures["num_pages"]


@given(
    places=st.lists(st.none() | st.tuples(_NUMBERS, _NUMBERS | st.just(float("nan"))), max_size=30),
    first=st.tuples(_NUMBERS, _NUMBERS),
    second=st.tuples(_NUMBERS, _NUMBERS),
)
def test_extreme_places(
    tmp_path_factory: pytest.TempPathFactory,
    places: list[tuple[float, float] | None],
    first: tuple[float, float],
    second: tuple[float, float],
) -> None:
    """Infinite and huge coordinates are found; those that are NaN, or null, are no place."""
    rows = [None if one is None else dict(zip("xy", one, strict=True)) for one in places]
    column = pa.array(rows, _POINT)
    (low_x, high_x), (low_y, high_y) = (sorted(ends) for ends in zip(first, second, strict=True))
    query = InBox((low_x, low_y, high_x, high_y))
    index = Folders(str(tmp_path_factory.mktemp("rtree"))).built(RTREE, column, page_size=3)
    assert _found(index, query) == _expected(column, query)
    assert 0 <= index.estimate(query) <= len(places)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(tmp_path: Path, layout: str) -> None:
    """The boxes are those of the shapes; empty ones are in no box."""
    shapes = random_shapes(layout, 80, random.Random(layout))
    index = Folders(str(tmp_path)).built(RTREE, column_of(layout, shapes), page_size=4)
    for query in _QUERIES:
        low_x, low_y, high_x, high_y = query.ends
        expected = []
        for row, shape in enumerate(shapes):
            if shape is not None and not shape.is_empty:
                own = shape.bounds
                if own[0] <= high_x and own[1] <= high_y and own[2] >= low_x and own[3] >= low_y:
                    expected.append(row)
        assert _found(index, query) == expected
    assert index.nulls.tolist() == [row for row, shape in enumerate(shapes) if shape is None]


def test_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge is a build of the rows that are left, with the pages of the last segment."""
    monkeypatch.setattr(rtree_index, "_ROWS_TOGETHER", 10)
    folders = Folders(str(tmp_path))
    column, more = _points(100), _points(40, seed=2)
    first = folders.built(RTREE, column, page_size=9)
    second = folders.built(RTREE, more, list(range(1000, 1040)), page_size=4)
    gone = set(range(0, 100, 3))
    folder = folders.new()
    parts = [Part(first, moved(gone, 500)), Part(second)]
    RTREE.merge(parts, rows_of(more, list(range(2000, 2040))), folder)
    merged = RTREE.open(folder.written(), b"", 0)
    left = [row for row in range(100) if row not in gone]
    every = pa.concat_arrays([column.take(pa.array(left)), more, more])
    references = [row + 500 for row in left] + [*range(1000, 1040), *range(2000, 2040)]
    built = folders.built(RTREE, every, references, page_size=4)
    assert merged.statistics() == built.statistics()
    assert merged.nulls.tolist() == built.nulls.tolist()
    for query in _QUERIES:
        assert _found(merged, query) == [references[row] for row in _expected(every, query)]


def test_levels() -> None:
    """The drawing of the module; a tree of one page has no boxes of pages."""
    levels = Levels.of(9, 3)
    assert (levels.sizes, levels.starts, levels.num_rows) == ((9, 3), [0, 9], 12)
    assert (levels.num_pages, levels.page_starts) == (4, [0, 3, 6, 9])
    assert Levels.of(0, 3).num_pages == len(Levels.of(0, 3).page_starts) == 0
    assert Levels.of(1, 3).num_pages == 1


def test_refused() -> None:
    """Parameters and types that are not possible."""
    refused: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"pages": 2}, UnknownArgumentError, "pages"),
        ({"page_size": 1}, InvalidInputError, "page_size: expected at least 2, found 1"),
        ({"page_size": "9"}, InvalidInputError, "page_size"),
    ]
    for given_parameters, error, message in refused:
        with pytest.raises(error, match=message):
            RTREE.parameters(given_parameters, _POINT)
    for kind in (
        pa.int64(),
        pa.struct([("x", pa.float32()), ("y", pa.float32())]),
        pa.struct([("x", pa.float64())]),
        pa.list_(pa.string()),
        pa.list_(pa.float64(), 5),
    ):
        with pytest.raises(UnsupportedTypeError, match="RTREE index column c must be a geometry"):
            RTREE.require_supported("c", kind)


@pytest.mark.seeds(25)
@pytest.mark.parametrize("version", [FileVersion.V2_0, FileVersion.V2_1])
def test_damage(tmp_path: Path, version: FileVersion, seed: int) -> None:
    """Mutated bytes of a file: an error of this library, or an answer."""
    source = random.Random(f"{seed} {version}")
    folders = Folders(str(tmp_path), version)
    folders.built(RTREE, _points(200), page_size=8)
    path = source.choice(sorted(tmp_path.rglob("*.lance")))
    path.write_bytes(mutate(path.read_bytes(), source))
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/0", version).written()
    with suppress(PilumError):
        index = RTREE.open(folder, b"", 0)
        assert index.statistics()
        for query in [*_QUERIES, IsNull()]:
            assert index.estimate(query) is not None
            answer = index.search(query)
            assert answer is not None
            assert (answer.rows.listed[:-1] < answer.rows.listed[1:]).all()
        index.prewarm()
        RTREE.merge([Part(index)], None, folders.new())


def _rewritten(folders: Folders, rows: pa.Table, **metadata: str) -> RTreeIndex:
    """Open a segment whose file of pages has other rows or metadata."""
    known = {
        "page_size": "4", "num_items": "9", "num_pages": "4",
        "bbox": '{"minx":0,"miny":0,"maxx":9,"maxy":9}',
    }  # fmt: skip
    folder = folders.new()
    folder.write("page_data.lance", rows, {**known, **metadata})
    folder.write("nulls.lance", pa.table({"nulls": pa.array([b"\0" * 4])}))
    return RTREE.open(folder.written(), b"", 0)


def test_contradictions(tmp_path: Path) -> None:
    """Files whose parts do not fit together are damaged."""
    folders = Folders(str(tmp_path))
    column = pa.array([{"x": float(row), "y": 1.0} for row in range(9)], _POINT)
    folders.built(RTREE, column, page_size=4)
    folder = IndexFolderWriter(LocalStore(str(tmp_path)), "_indices/0", FileVersion.V2_1).written()
    rows = folder.open("page_data.lance").read().replace_schema_metadata(None)
    assert _found(_rewritten(folders, rows), _QUERIES[0]) == []
    for metadata, message in [
        ({"page_size": "1"}, "pages of 1 rows"),
        ({"page_size": "x"}, "page_size: expected a number"),
        ({"num_items": "10"}, "12 rows; 10 boxes in pages of 4 take 13"),
        ({"num_items": "1" + "0" * 17}, "12 rows"),
        ({"num_pages": "5"}, "not 4 pages"),
        ({"bbox": "[]"}, "bbox: expected a box"),
        ({"bbox": "{"}, "bbox: expected a box"),
    ]:
        with pytest.raises(CorruptFileError, match=message):
            _rewritten(folders, rows, **metadata)
    values = rows.to_pylist()
    changes: list[tuple[int, dict[str, Any], str]] = [
        (9, {"id": 1}, "boxes of pages that are not in their order"),
        (10, {"bbox": {"xmin": 4.5, "ymin": 1.0, "xmax": 7.0, "ymax": 1.0}}, "outside of those"),
        (
            3,
            {"bbox": {"xmin": 3.0, "ymin": 1.0, "xmax": 2.0, "ymax": 1.0}},
            "end before they begin",
        ),
    ]
    for row, change, message in changes:
        changed = [dict(one) for one in values]
        changed[row].update(change)
        with pytest.raises(CorruptFileError, match=message):
            _rewritten(folders, pa.Table.from_pylist(changed, rows.schema)).search(_QUERIES[2])
    with pytest.raises(CorruptFileError, match="expected the columns"):
        _rewritten(folders, rows.rename_columns(["bbox", "row"]))


def test_damaged_nulls(tmp_path: Path) -> None:
    """The set of null rows is one row."""
    folders = Folders(str(tmp_path))
    for nulls in ([], [b"\0" * 4] * 2, [b"\1"]):
        folder = folders.new()
        RTREE.train(rows_of(_points(5)), 4, folder)
        folder.write("nulls.lance", pa.table({"nulls": pa.array(nulls, pa.binary())}))
        index: Any = RTREE.open(folder.written(), b"", 0)
        assert np.ndim(index.estimate(_QUERIES[0])) == 0
        with pytest.raises(CorruptFileError):
            index.search(IsNull())
