"""B-trees answer as a loop over all values does, and are read by pylance and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.folders import Folders, moved, nulls_of
from index.scalar.strategies import columns, order_of, rows_of, values_like

from pilum.container.open import new_file
from pilum.container.writer import FileOptions
from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    UnknownArgumentError,
    UnsupportedTypeError,
)
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.index.base import Part
from pilum.index.files import IndexFolder
from pilum.index.queries import Between, HasTexts, IsIn, IsNull, Query, StartsWith
from pilum.index.registry import index_type
from pilum.index.scalar.btree import BTREE
from pilum.index.scalar.btree_index import BTreeIndex
from pilum.storage.local import LocalStore


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(str(tmp_path_factory.mktemp("indices")))


def _found(index: BTreeIndex, query: Query) -> list[int]:
    answer = index.search(query)
    assert answer is not None
    assert answer.is_exact
    estimate = index.estimate(query)
    assert estimate is not None
    assert estimate >= 0
    found: list[int] = answer.rows.listed.tolist()
    return found


@given(data=st.data(), column=columns(), page_rows=st.integers(1, 9))
def test_searches(folders: Folders, data: st.DataObject, column: pa.Array, page_rows: int) -> None:
    """Equal values, ranges, prefixes and nulls."""
    index = folders.built(BTREE, column, zone_size=page_rows)
    keys = [order_of(value) for value in column]
    wanted = data.draw(values_like(column))
    among = {order_of(value) for value in wanted}
    answer = index.search(IsIn(wanted))
    assert answer is not None
    assert answer.rows.listed.tolist() == [i for i, key in enumerate(keys) if key in among]
    assert answer.nulls.listed.tolist() == nulls_of(column) == _found(index, IsNull())
    assert index.search(HasTexts(("abc",))) is None

    low, high = data.draw(st.booleans()), data.draw(st.booleans())
    ends = data.draw(values_like(column, 2))
    query = Between(
        ends[0] if data.draw(st.booleans()) else None,
        ends[-1] if data.draw(st.booleans()) else None,
        low,
        high,
    )
    expected = [i for i, key in enumerate(keys) if key is not None and is_between(key, query)]
    assert _found(index, query) == expected

    if isinstance(one := order_of(wanted[0]), bytes) and one:
        prefix = one[: data.draw(st.integers(1, 3))]
        starting = [i for i, key in enumerate(keys) if key is not None and key.startswith(prefix)]
        assert _found(index, StartsWith(prefix)) == starting


def is_between(key: Any, query: Between) -> bool:
    low, high = query.low, query.high
    above = low is None or _compared(key, low, query.includes_low, is_low=True)
    return above and (high is None or _compared(key, high, query.includes_high, is_low=False))


def _compared(key: Any, end: pa.Scalar, includes: bool, *, is_low: bool) -> bool:
    bound = order_of(end)
    if pa.types.is_floating(end.type) and end.as_py() == 0:
        # Both zeros are the same number: their keys are -1 and 0.
        bound = -1 if includes == is_low else 0
    above = key > bound or (includes and key == bound)
    below = key < bound or (includes and key == bound)
    return bool(above if is_low else below)


@given(data=st.data(), page_rows=st.integers(1, 9))
def test_merge(folders: Folders, data: st.DataObject, page_rows: int) -> None:
    """Segments and new rows are merged: rows that no longer exist vanish, ties keep their order."""
    column = data.draw(columns())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(column)), min_size=2, max_size=2)))
    pieces = [column[: cuts[0]], column[cuts[0] : cuts[1]], column[cuts[1] :]]
    starts = [0, *cuts]
    gone = set(data.draw(st.lists(st.integers(0, 40), max_size=5)))

    moves = moved(gone, 1000)
    parts = [
        Part(
            folders.built(BTREE, piece, list(range(start, start + len(piece))), zone_size=3), moves
        )
        for piece, start in zip(pieces[:2], starts, strict=False)
    ]
    parts.append(Part(folders.built(BTREE, column[:0], zone_size=page_rows)))
    rows = rows_of(pieces[2], list(range(starts[2], len(column))))
    writer = folders.new()
    assert BTREE.merge(parts, rows, writer) == b""
    kept = [i for i in range(len(column)) if i >= cuts[1] or i not in gone]
    references = [i + 1000 if i < cuts[1] else i for i in kept]
    expected = folders.new()
    BTREE.train(rows_of(column.take(pa.array(kept, pa.int64())), references), page_rows, expected)
    for name in ("page_data.lance", "page_lookup.lance"):
        merged, trained = writer.written().open(name), expected.written().open(name)
        assert _bits(merged.read()) == _bits(trained.read())
        assert merged.metadata == trained.metadata


def _bits(table: pa.Table) -> list[list[Any]]:
    return [[order_of(value) for value in column] for column in table.columns]


def test_what_cannot_be() -> None:
    """Types and parameters that are refused; the registry has the type."""
    assert index_type("btree") is BTREE
    for kind in (
        pa.list_(pa.int32()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.null(),
        pa.struct([]),
    ):
        with pytest.raises(UnsupportedTypeError, match="'a'"):
            BTREE.require_supported("a", kind)
    BTREE.require_supported("a", pa.float16())
    assert BTREE.parameters({}, pa.int8()) == 4096
    assert BTREE.parameters({"zone_size": 3}, pa.int8()) == 3
    for given_ in ({"zone_size": 0}, {"zone_size": "x"}, {"rows": 3}, {"zone_size": 2**31}):
        with pytest.raises((InvalidInputError, UnknownArgumentError)):
            BTREE.parameters(given_, pa.int8())


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint32(), pa.string(), pa.float64()])
def test_runs_of_pages_find_what_pages_find(folders: Folders, kind: pa.DataType) -> None:
    """Values straddle pages and runs, of which some are in memory."""
    random = np.random.default_rng(3)
    numbers = np.sort(random.integers(0, 900, 3000))
    numbers[1000:1200] = numbers[1000]  # fills pages at the end of a run
    values = pa.array(numbers).cast(kind)
    index = folders.built(BTREE, values, zone_size=7)
    listed = np.asarray([str(one) for one in values.to_pylist()])
    few = pa.array([0, 5, 5, int(numbers[1000]), 77, 899, 950]).cast(kind)
    queries: list[Query] = [IsIn(few), *(IsIn(one) for one in [few[:1], few[3:4], values[::9]])]
    queries.append(Between(few[1], few[4], True, False))

    def expected(query: Query) -> list[int]:
        if isinstance(query, IsIn):
            sought = {str(one) for one in query.values.to_pylist()}
            return np.flatnonzero([one in sought for one in listed]).tolist()
        is_between = pc.and_(pc.greater_equal(values, few[1]), pc.less(values, few[4]))
        return np.flatnonzero(is_between.to_numpy(zero_copy_only=False)).tolist()

    for join in (lambda: None, lambda: index._pages.run(2), index.prewarm):
        join()
        for query in queries:
            assert _found(index, query) == expected(query)
        for one in (few, values[::9]):
            places, rows = index.pairs(one) or ([], [])
            found = sorted(zip(np.asarray(places).tolist(), np.asarray(rows).tolist(), strict=True))
            assert found == [
                (place, row)
                for place, value in enumerate(one.to_pylist())
                for row in np.flatnonzero(listed == str(value)).tolist()
            ]
    assert index._pages.are_joined(0, len(values) // 7)


def test_estimates_of_many_keys_know_how_often_values_repeat(folders: Folders) -> None:
    """One page tells it, which the search needs anyway: a list of unique keys is no scan."""
    wanted = IsIn(pa.array(np.arange(0, 20_000, 100)))
    unique = folders.built(BTREE, pa.array(np.arange(20_000)))
    often = folders.built(BTREE, pa.array(np.arange(20_000) // 50 * 50))
    assert unique.estimate(wanted) == 200
    assert often.estimate(wanted) == pytest.approx(200 * 50, rel=0.1)
    few = IsIn(pa.array([17]))
    assert folders.built(BTREE, pa.array(np.arange(20_000))).estimate(few) == 4000 // 64
    assert unique.estimate(few) == 1


def test_other_types(folders: Folders) -> None:
    """An index whose values have another type than the column is damaged."""
    index = folders.built(BTREE, pa.array([1, 2]))
    for query in (IsIn(pa.array(["a"])), Between(pa.scalar("a"), None)):
        assert index.estimate(query) == 0
        with pytest.raises(CorruptFileError, match="int64"):
            index.search(query)


@pytest.mark.parametrize("values", [np.arange(300), [f"{number:03}" for number in range(300)]])
def test_pages_that_are_not_within_their_bounds_are_damage(folders: Folders, values: Any) -> None:
    """A lookup table with other numbers of pages would hide rows, or merge pages in disorder."""
    column = pa.array(values)
    writer = folders.new()
    BTREE.train(rows_of(column), 10, writer)
    folder = writer.written()
    lookup = folder.open("page_lookup.lance")
    table, metadata = lookup.read(), dict(lookup.metadata)
    numbers = table["page_idx"].to_numpy()[::-1]
    broken = folders.new()
    BTREE.train(rows_of(column), 10, broken)
    broken.write(
        "page_lookup.lance", table.set_column(3, table.schema.field(3), [numbers]), metadata
    )
    ask = IsIn(column.slice(7, 1))
    assert _found(BTREE.open(folder, b"", 0), ask) == [7]
    for search in (
        lambda index: index.search(ask),
        lambda index: index.pairs(column),
        lambda index: index.search(Between(column[15], column[40])),
        lambda index: list(index.blocks()),
    ):
        with pytest.raises(CorruptFileError, match="outside of its bounds"):
            search(BTREE.open(broken.written(), b"", 0))


def test_legacy_files(tmp_path: Path) -> None:
    """Files of old releases have other names of columns, and pages are their batches."""
    store = LocalStore(str(tmp_path))
    pages = [[0, 1, 2], [2, 2], [5, 7, 8, 9]]  # legacy files lose nulls
    values = pa.schema([pa.field("values", pa.int64()), pa.field("row_ids", pa.uint64())])
    bounds = pa.schema(
        [("low", pa.int64()), ("high", pa.int64()), ("nulls", pa.uint32()), ("page", pa.uint32())]
    )
    _legacy_file(
        store, "page_data.lance", values, [[page, list(range(len(page)))] for page in pages]
    )
    lookup = [[0, 2, 5], [2, 2, 9], [1, 0, 0], [0, 1, 2]]
    _legacy_file(store, "page_lookup.lance", bounds, [lookup])
    index = BTREE.open(IndexFolder(store, ""), b"", 0)
    assert _found(index, IsIn(pa.array([7, 2]))) == [0, 1, 2]
    assert _found(index, IsIn(pa.array([8]))) == [2]
    assert _found(index, IsNull()) == [0]
    assert index.statistics() == {"min": "NULL", "max": "9", "num_pages": 3}


def _legacy_file(store: LocalStore, name: str, schema: pa.Schema, batches: list[Any]) -> None:
    bounds = tuple(np.cumsum([len(batch[0]) for batch in batches]).tolist())
    options = FileOptions(group_bounds=bounds)
    sink = store.sink(f"/{name}")
    file = new_file(sink, Schema.from_arrow(schema), FileVersion.LEGACY, options)
    for columns_ in batches:
        arrays = [pa.array(one, kind) for one, kind in zip(columns_, schema.types, strict=True)]
        file.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    file.finish()
