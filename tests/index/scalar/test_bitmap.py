"""Bitmap indices answer as a loop over all values does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.folders import Folders, moved, nulls_of
from index.scalar.strategies import columns, order_of, rows_of, values_like
from index.scalar.test_btree import is_between

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.index.base import Part
from pilum.index.queries import Between, HasAny, IsIn, IsNull, Query, StartsWith
from pilum.index.registry import index_type
from pilum.index.row_maps import pack_rows
from pilum.index.scalar.bitmap import BITMAP, BitmapIndex

_FILE = "bitmap_page_lookup.lance"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(str(tmp_path_factory.mktemp("indices")))


def _found(index: BitmapIndex, query: Query) -> list[int]:
    answer = index.search(query)
    assert answer is not None
    assert answer.is_exact
    rows: list[int] = answer.rows.listed.tolist()
    assert index.estimate(query) == len(rows)  # as the sets are in memory now
    return rows


@given(data=st.data(), column=columns())
def test_searches(folders: Folders, data: st.DataObject, column: pa.Array) -> None:
    """Equal values, ranges, prefixes and nulls."""
    index = folders.built(BITMAP, column)
    keys = [order_of(value) for value in column]
    assert index.statistics() == {"num_bitmaps": len(set(keys))}
    wanted = data.draw(values_like(column))
    among = {order_of(value) for value in wanted}
    answer = index.search(IsIn(wanted))
    assert answer.rows.listed.tolist() == [i for i, key in enumerate(keys) if key in among]
    assert answer.nulls.listed.tolist() == nulls_of(column) == _found(index, IsNull())
    assert index.search(HasAny(wanted)) is None

    ends = data.draw(values_like(column, 2))
    query = Between(ends[0], ends[-1], data.draw(st.booleans()), data.draw(st.booleans()))
    expected = [i for i, key in enumerate(keys) if key is not None and is_between(key, query)]
    assert _found(index, query) == expected
    if isinstance(one := order_of(wanted[0]), bytes) and one:
        prefix = one[: data.draw(st.integers(1, 3))]
        starting = [i for i, key in enumerate(keys) if key is not None and key.startswith(prefix)]
        assert _found(index, StartsWith(prefix)) == starting


@given(data=st.data(), column=columns())
def test_merge(folders: Folders, data: st.DataObject, column: pa.Array) -> None:
    """The sets of segments and of new rows are united; values without rows disappear."""
    cut = data.draw(st.integers(0, len(column)))
    gone = set(data.draw(st.lists(st.integers(0, 40), max_size=9)))
    parts = [Part(folders.built(BITMAP, column[:cut]), moved(gone, 2**40))]
    parts.append(Part(folders.built(BITMAP, column[:0])))
    writer = folders.new()
    rows = rows_of(column[cut:], list(range(cut, len(column))))
    assert BITMAP.merge(parts, rows, writer) == b""
    kept = [i for i in range(len(column)) if i >= cut or i not in gone]
    references = [i + 2**40 if i < cut else i for i in kept]
    expected = folders.new()
    BITMAP.train(rows_of(column.take(pa.array(kept, pa.int64())), references), None, expected)
    merged, trained = writer.written().open(_FILE), expected.written().open(_FILE)
    assert merged.read()["bitmaps"] == trained.read()["bitmaps"]
    assert [order_of(key) for key in merged.read()["keys"]] == [
        order_of(key) for key in trained.read()["keys"]
    ]
    assert merged.metadata == trained.metadata


def test_many_values(folders: Folders) -> None:
    """A range of more sets than are kept is united; rows span several blocks and fragments."""
    values = np.random.default_rng(5).integers(0, 3000, 40_000)
    references = [row % 7 << 32 | row for row in range(len(values))]
    references.sort()
    index = folders.built(BITMAP, pa.array(values), references)
    found = index.search(Between(pa.scalar(100), pa.scalar(2900))).rows.listed
    expected = np.array(references, np.uint64)[(values >= 100) & (values <= 2900)]
    assert (found == expected).all()
    index.prewarm()
    writer = folders.new()
    BITMAP.merge([Part(index)], None, writer)
    again = writer.written().open(_FILE).read()
    assert again == index.sets.file.read()


def test_old_files(folders: Folders) -> None:
    """Old releases wrote keys in any order."""
    keys = pa.array(["b", None, "a", "c"])
    sets = [pack_rows(np.array(rows, np.uint64)) for rows in ([1, 2], [7], [3], [4, 5])]
    writer = folders.new()
    writer.write(_FILE, pa.table({"keys": keys, "bitmaps": pa.array(sets)}))
    index = BITMAP.open(writer.written(), b"", 0)
    assert _found(index, IsIn(pa.array(["a", "x", "c"]))) == [3, 4, 5]
    assert _found(index, Between(pa.scalar("b"), None)) == [1, 2, 4, 5]
    assert _found(index, IsNull()) == [7]
    merged = folders.new()
    BITMAP.merge([Part(index)], None, merged)
    assert merged.written().open(_FILE).read()["keys"].to_pylist() == [None, "a", "b", "c"]


def test_other_types(folders: Folders) -> None:
    """An index whose values have another type than the column is damaged."""
    index = folders.built(BITMAP, pa.array([1, 2]))
    for query in (IsIn(pa.array(["a"])), Between(pa.scalar("a"), None)):
        assert index.estimate(query) == 0
        with pytest.raises(CorruptFileError, match="int64"):
            index.search(query)


@pytest.mark.parametrize(
    ("keys", "sets"),
    [
        (["a", "a"], [b"\0\0\0\0"] * 2),
        ([None, None], [b"\0\0\0\0"] * 2),
        (["a", "b"], [b"\1\0\0\0\0\0\0\0\0\0\0\0", b"\0\0\0\0"]),
        (["a", "b"], [None, b"\0\0\0\0"]),
        (["a", "b"], [b"\2\0\0\0", b"\0\0\0\0"]),
    ],
)
def test_damage(folders: Folders, keys: list[str], sets: list[bytes]) -> None:
    """Keys that repeat, and sets that are no sets, are errors that name the file."""
    writer = folders.new()
    writer.write(_FILE, pa.table({"keys": keys, "bitmaps": pa.array(sets, pa.binary())}))
    with pytest.raises(CorruptFileError, match="bitmap_page_lookup"):
        BITMAP.open(writer.written(), b"", 0).search(IsIn(pa.array(["a"])))


def test_what_cannot_be() -> None:
    """Types and parameters that are refused; the registry has the type."""
    assert index_type("bitmap") is BITMAP
    with pytest.raises(UnsupportedTypeError, match="'a'"):
        BITMAP.require_supported("a", pa.list_(pa.int8()))
    with pytest.raises(InvalidInputError):
        BITMAP.parameters({"zone_size": 3}, pa.int8())
