"""Full-zip pages of values without levels: rows picked out of them, and pages cut short."""

from __future__ import annotations

import pyarrow as pa
import pytest
from container.pages import read_page
from hypothesis import given
from hypothesis import strategies as st

from pilum.blocks import FixedBlock, ListBlock, block_of
from pilum.encodings.base import EncodedPage
from pilum.encodings.structural.full_zip import encode_full_zip
from pilum.encodings.values import list_encoding
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.levels import ravel

KINDS = (pa.int64(), pa.int16(), pa.float64(), pa.list_(pa.int8(), 3), pa.decimal128(9))


def page_of(values: pa.Array) -> EncodedPage:
    levels, leaf = ravel(values)
    block = block_of(leaf)
    assert isinstance(block, FixedBlock | ListBlock)
    return encode_full_zip(block, list_encoding(block), levels, len(values))


@given(st.sampled_from(KINDS), st.integers(2, 40), st.data())
def test_any_rows_are_picked(kind: pa.DataType, count: int, data: st.DataObject) -> None:
    are_lists = pa.types.is_fixed_size_list(kind)
    values = pa.array([[n, n + 1, n] if are_lists else n for n in range(count)], kind)
    rows = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    ranges = RowRanges.of(*((row, row + 1) for row in rows))
    page = page_of(values)
    found = read_page(kind, page.layout, page.buffers, count, ranges)
    assert found.to_pylist() == values.take(pa.array(rows)).to_pylist()


@pytest.mark.parametrize("rows", [[(0, 1), (4, 5)], [(4, 5)], [(0, 5)]])
def test_a_page_with_less_bytes_than_rows_is_damaged(rows: list[tuple[int, int]]) -> None:
    page = page_of(pa.array([1, 2, 3, 4]))
    with pytest.raises(CorruptFileError, match="full-zip"):
        read_page(pa.int64(), page.layout, page.buffers, 5, RowRanges.of(*rows))
