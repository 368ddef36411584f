"""Rows of full-zip pages in one call: what is read for them, and what comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes
from kernels.test_page_reads import Page as ChunkedPage

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.kernels import Condition, FullZip, PageReads, Plan, RowIndex

TEXTS = FullZip(Plan.variable(32), b"\1", 0, 0)
NUMBERS = FullZip(Plan.flat(16), b"\3", 0, 1)
"""Numbers that may be null: a byte with the level, and two of the value."""

texts = st.lists(st.binary(max_size=9), min_size=1, max_size=60)


class Page:
    """Values of varying length somewhere in a file, and the numbers of their index."""

    def __init__(self, values: list[bytes], width: int, at: int) -> None:
        self.values = values
        entries = [len(value).to_bytes(4, "little") + value for value in values]
        self.body, self.at = b"".join(entries), at
        ends = np.cumsum([0, *map(len, entries)])
        self.numbers = as_bytes(ends.astype(f"<u{width}").tobytes())

    def read(self, rows: RowRanges, *, as_ranges: bool = True) -> Any:
        index = RowIndex(self.numbers, len(self.values))
        assert index.size_bytes == len(self.numbers)
        selected = rows.bounds if as_ranges else rows.rows()
        return TEXTS, (self.at, len(self.body)), index, selected


def drawn(data: st.DataObject, num_rows: int) -> RowRanges:
    rows = data.draw(st.sets(st.integers(0, num_rows - 1), min_size=1, max_size=12))
    return RowRanges.of_rows(np.array(sorted(rows), np.int64))


@given(st.data(), st.lists(texts, min_size=1, max_size=5), st.sampled_from([2, 4, 8]))
def test_rows_are_found_by_the_index(
    data: st.DataObject, columns: list[list[bytes]], width: int
) -> None:
    pages, file = [], b"..."
    for values in columns:
        pages.append(Page(values, width, len(file)))
        file += pages[-1].body
    rows = [drawn(data, len(values)) for values in columns]
    as_ranges = data.draw(st.booleans())
    planned = PageReads(
        [page.read(own, as_ranges=as_ranges) for page, own in zip(pages, rows, strict=True)]
    )
    offsets, sizes = planned.ranges()
    assert planned.ends == np.cumsum([len(own.bounds) for own in rows]).tolist()
    expected = [
        [page.values[row] for row in own.rows()] for page, own in zip(pages, rows, strict=True)
    ]
    assert sizes.sum() == sum(4 + len(value) for values in expected for value in values)
    border = data.draw(st.integers(1, len(pages)))
    groups = [list(range(border)), list(range(border, len(pages)))]
    found = planned.decode([(as_bytes(file), offsets)], [group for group in groups if group])
    for (buffers, count, layers), group in zip(found, groups, strict=False):
        values = [value for number in group for value in expected[number]]
        assert buffers[0].tolist() == np.cumsum([0, *map(len, values)]).tolist()
        assert buffers[1].tobytes() == b"".join(values)
        assert count == len(values)
        assert layers == [(len(values), None, 0, None)]


@given(st.data(), st.lists(st.none() | st.integers(0, 2**16 - 1), min_size=1, max_size=60))
def test_rows_of_one_width_need_no_index(data: st.DataObject, values: list[int | None]) -> None:
    entries = [bytes([value is None]) + (value or 0).to_bytes(2, "little") for value in values]
    body, rows = b"".join(entries), drawn(data, len(values))
    planned = PageReads([(NUMBERS, (1, len(body)), None, rows.bounds)])
    offsets, sizes = planned.ranges()
    assert offsets.tolist() == (1 + 3 * rows.starts).tolist()
    assert sizes.tolist() == (3 * (rows.stops - rows.starts)).tolist()
    [(buffers, count, [(_, validity, nulls, _)])] = planned.decode(
        [(as_bytes(b"." + body), offsets)]
    )
    expected = [values[row] for row in rows.rows()]
    assert buffers[0].view("<u2").tolist() == [value or 0 for value in expected]
    assert (count, nulls) == (len(expected), expected.count(None))
    if validity is not None:
        bits = np.unpackbits(validity, count=len(expected), bitorder="little")
        assert bits.tolist() == [value is not None for value in expected]


def test_damage_is_found() -> None:
    page, rows = Page([b"a", b"bc"], 2, 0), RowRanges.of((0, 2))
    read = page.read(rows)
    for wrong in (page.numbers[:5], page.numbers[:0], np.zeros(9, np.uint8)):
        with pytest.raises(CorruptFileError, match="full-zip index, bytes"):
            RowIndex(wrong, 2)
    with pytest.raises(CorruptFileError, match="full-zip rows, bytes: expected ascending"):
        PageReads([(TEXTS, (0, 10), *read[2:])])  # one byte less than the index says
    with pytest.raises(CorruptFileError, match="full-zip index, bytes"):
        PageReads([(*read[:3], RowRanges.of((1, 3)).bounds)])
    with pytest.raises(CorruptFileError, match="without its index"):
        PageReads([(TEXTS, (0, 11), None, rows.bounds)])
    planned = PageReads([read])
    for cut in range(len(page.body)):
        with pytest.raises(CorruptFileError, match="rows, bytes"):
            planned.decode([(as_bytes(page.body[:cut]), np.zeros(1, np.int64))])
    with pytest.raises(CorruptFileError, match="ranges"):
        planned.decode([])


def test_pages_that_do_not_belong_together_are_refused() -> None:
    page, rows = Page([b"a", b"bc"], 2, 0), RowRanges.of((0, 2))
    planned = PageReads([page.read(rows), ChunkedPage(2, 1).held()])
    file = [(as_bytes(page.body), np.zeros(1, np.int64))]
    for group in ([0, 1], [1, 0]):
        with pytest.raises(CorruptFileError, match="two layouts"):
            planned.decode(file, [group])
    with pytest.raises(CorruptFileError, match="test of a full-zip page"):
        planned.mask(file, Condition.every(True, False))
