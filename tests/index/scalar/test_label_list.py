"""Label lists answer as a loop over all lists does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.folders import Folders, moved, nulls_of
from index.scalar.strategies import rows_of

from pilum.errors import CorruptFileError, UnsupportedFeatureError, UnsupportedTypeError
from pilum.index.base import Part, References
from pilum.index.queries import HasAll, HasAny, IsIn, IsNull
from pilum.index.registry import index_type
from pilum.index.scalar.label_list import LABEL_LIST

_FILE = "bitmap_page_lookup.lance"
_ITEMS = {pa.string(): st.sampled_from("abcd"), pa.int16(): st.integers(-2, 2)}
_KINDS = st.sampled_from([pa.list_, pa.large_list])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return Folders(str(tmp_path_factory.mktemp("indices")))


@st.composite
def _lists(draw: st.DrawFn) -> pa.Array:
    item = draw(st.sampled_from(list(_ITEMS)))
    lists = st.none() | st.lists(st.none() | _ITEMS[item], max_size=4)
    return pa.array(draw(st.lists(lists, max_size=30)), draw(_KINDS)(item))


@given(data=st.data(), column=_lists())
def test_searches(folders: Folders, data: st.DataObject, column: pa.Array) -> None:
    """Any and all of some items; rows whose list is null."""
    index = folders.built(LABEL_LIST, column)
    item = column.type.value_type
    wanted = pa.array(data.draw(st.lists(_ITEMS[item], min_size=1, max_size=3)), item)
    labels = [set(labels or ()) for labels in column.to_pylist()]
    assert index.statistics() == {"num_bitmaps": len(set().union(*labels))}
    expected: list[tuple[Any, list[int]]] = [
        (HasAny(wanted), [i for i, one in enumerate(labels) if one & set(wanted.to_pylist())]),
        (HasAll(wanted), [i for i, one in enumerate(labels) if one >= set(wanted.to_pylist())]),
        (IsNull(), nulls_of(column)),
    ]
    for query, rows in expected:
        answer = index.search(query)
        assert answer.is_exact
        assert answer.rows.listed.tolist() == rows
        index.prewarm()
        assert index.estimate(query) >= len(rows)
        if query != IsNull():
            assert answer.nulls.listed.tolist() == nulls_of(column)
    for query in (IsIn(wanted), HasAll(wanted[:0]), HasAny(wanted[:0])):
        assert index.search(query) is None
        assert index.estimate(query) is None


@given(data=st.data(), column=_lists())
def test_merge(folders: Folders, data: st.DataObject, column: pa.Array) -> None:
    """The sets of segments and of new rows are united, and so are those of null lists."""
    cut = data.draw(st.integers(0, len(column)))
    gone = set(data.draw(st.lists(st.integers(0, 30), max_size=9)))
    parts = [Part(folders.built(LABEL_LIST, column[:cut]), moved(gone, 2**40))]
    parts.append(Part(folders.built(LABEL_LIST, column[:0])))
    writer = folders.new()
    rows = rows_of(column[cut:], list(range(cut, len(column))))
    LABEL_LIST.merge(parts, rows, writer)
    kept = [i for i in range(len(column)) if i >= cut or i not in gone]
    references = [i + 2**40 if i < cut else i for i in kept]
    expected = folders.new()
    LABEL_LIST.train(rows_of(column.take(pa.array(kept, pa.int64())), references), None, expected)
    merged, trained = writer.written().open(_FILE), expected.written().open(_FILE)
    assert merged.read() == trained.read()
    assert merged.metadata == trained.metadata
    assert merged.global_buffer(1) == trained.global_buffer(1)


def test_hidden_items(folders: Folders) -> None:
    """Items of null lists, and those before and after a slice, are not indexed."""
    offsets = pa.array([0, 2, 4, 6], pa.int32())
    lists = pa.ListArray.from_arrays(
        offsets, pa.array(list("abcdef")), mask=pa.array([False, True, False])
    )
    index = folders.built(LABEL_LIST, lists[1:])
    assert index.search(HasAny(pa.array(list("abcde")))).rows.listed.tolist() == [1]
    assert index.search(IsNull()).rows.listed.tolist() == [0]


def test_old_files(folders: Folders) -> None:
    """Version 0 does not say which lists are null: answers are tested again, merges refused."""
    index = folders.built(LABEL_LIST, pa.array([["a"], None, []]))
    table = index.sets.file.read()
    writer = folders.new()
    writer.write(_FILE, table.replace_schema_metadata())
    old: Any = LABEL_LIST.open(writer.written(), b"", 0)
    answer = old.search(HasAny(pa.array(["a"])))
    assert (answer.is_exact, answer.rows.listed.tolist()) == (False, [0])
    assert old.search(IsNull()) is None
    with pytest.raises(UnsupportedFeatureError, match="create it again"):
        LABEL_LIST.merge([Part(old)], None, folders.new())
    writer = folders.new()
    writer.write(_FILE, table, {"lance:label_list_nulls": "7"})
    with pytest.raises(CorruptFileError, match="bitmap_page_lookup"):
        LABEL_LIST.open(writer.written(), b"", 1)


def test_what_can_be() -> None:
    """Lists of values that can be indexed, and what identifies a row."""
    assert index_type("label_list") is LABEL_LIST
    for kind in (pa.string(), pa.list_(pa.int8(), 2), pa.list_(pa.list_(pa.int8()))):
        with pytest.raises(UnsupportedTypeError, match="'a"):
            LABEL_LIST.require_supported("a", kind)
    LABEL_LIST.require_supported("a", pa.large_list(pa.float32()))
    assert LABEL_LIST.index_version(has_stable_row_ids=False) == 1
    assert [LABEL_LIST.references_of(version) for version in (0, 1, 2)] == [
        References.ROW_IDS,
        References.ROW_IDS,
        None,
    ]
