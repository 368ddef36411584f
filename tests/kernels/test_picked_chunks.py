"""Rows of several pages in one call: what is read for them, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes, chunk_of

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.kernels import MiniBlock, PickedChunks, Plan
from pilum.kernels.reference import chunks_of_rows

PLAIN = MiniBlock(Plan.flat(8), None, b"\1", 1, False)
BODY = 40
"""Where the chunks of a page begin in its file."""


class Page:
    """Bytes in chunks, all but the last of `per_chunk` of them."""

    def __init__(self, num_values: int, per_chunk: int) -> None:
        self.values = bytes(i % 251 for i in range(num_values))
        parts = [self.values[i : i + per_chunk] for i in range(0, num_values, per_chunk)]
        chunks = [chunk_of([part]) for part in parts]
        self.file = bytes(BODY) + b"".join(chunks)
        sizes = np.array([len(chunk) for chunk in chunks], np.int64)
        counts = np.array([len(part) for part in parts], np.int64)
        starts, firsts = sizes.cumsum() - sizes, counts.cumsum() - counts
        self.table = np.column_stack((starts, sizes, counts, firsts, counts))


pages = st.builds(Page, st.integers(1, 400), st.integers(1, 40))


@st.composite
def wanted_rows(draw: st.DrawFn, page: Page) -> RowRanges:
    rows = draw(st.sets(st.integers(0, len(page.values) - 1), min_size=1, max_size=12))
    return RowRanges.of_rows(np.array(sorted(rows), np.int64))


@given(st.data(), st.lists(pages, min_size=1, max_size=4))
def test_the_rows_of_each_page_come_back(data: st.DataObject, some: list[Page]) -> None:
    rows = [data.draw(wanted_rows(page)) for page in some]
    files = np.cumsum([0, *(len(page.file) for page in some[:-1])])
    picked = PickedChunks(
        [
            (page.table, int(at) + BODY, wanted.bounds)
            for page, at, wanted in zip(some, files, rows, strict=True)
        ]
    )
    offsets, _ = picked.ranges()
    everything = as_bytes(b"".join(page.file for page in some))
    found = picked.decode([PLAIN] * len(some), everything, offsets)
    for (buffers, count, layers), page, wanted in zip(found, some, rows, strict=True):
        expected = bytes(page.values[row] for row in wanted.rows())
        assert (buffers[0].tobytes(), count) == (expected, len(expected))
        assert layers == [(len(expected), None, 0, None)]


@given(st.data(), pages)
def test_what_is_read_holds_the_rows_and_little_else(data: st.DataObject, page: Page) -> None:
    rows = data.draw(wanted_rows(page))
    offsets, sizes = PickedChunks([(page.table, BODY, rows.bounds)]).ranges()
    read = {int(at) + i - BODY for at, n in zip(offsets, sizes, strict=True) for i in range(n)}
    needed = chunks_of_rows(page.table.tolist(), rows.rows().tolist())
    chunks = [page.table[number] for number in needed]
    assert read.issuperset(i for at, n, *_ in chunks for i in range(int(at), int(at + n)))
    is_dense = 2 * len(rows.bounds) >= needed[-1] - needed[0] + 1
    assert is_dense or len(read) <= 2 * sum(int(size) for _, size, *_ in chunks)
    assert (np.diff(offsets) > sizes[:-1]).all()


def test_only_one_page_is_decoded_where_that_is_asked() -> None:
    some = [Page(5, 2), Page(7, 3)]
    every = RowRanges.one(0, 5)
    picked = PickedChunks([(page.table, BODY, every.bounds) for page in some])
    [(buffers, _, _)] = picked.decode(
        [PLAIN, PLAIN], as_bytes(some[1].file), np.array([0, BODY]), 1
    )
    assert buffers[0].tobytes() == some[1].values[:5]


def test_rows_beyond_the_page_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="rows"):
        PickedChunks([(Page(5, 2).table, BODY, RowRanges.one(3, 6).bounds)])


@pytest.mark.parametrize("start", [-1, 3, 2**62])
def test_places_beyond_the_bytes_are_refused(start: int) -> None:
    page = Page(5, 8)
    picked = PickedChunks([(page.table, BODY, RowRanges.one(0, 5).bounds)])
    with pytest.raises(CorruptFileError):
        picked.decode([PLAIN], as_bytes(page.file[BODY:]), np.array([start], np.int64))
    with pytest.raises(CorruptFileError):
        picked.decode([PLAIN], as_bytes(page.file), np.array([], np.int64))
