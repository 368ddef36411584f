"""Rows of several pages in one call: what is read for them, and what comes of it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes, chunk_of, decode_page, word_of

from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.kernels import Block, ChunkTable, Condition, MiniBlock, PageReads, Plan, reference

PLAIN = MiniBlock(Plan.flat(8), b"\1", 1)
LARGE = MiniBlock(Plan.flat(8), b"\1", 1, large=True)
LISTS = MiniBlock(Plan.flat(8), b"\1\2", 1, rep=Block.flat(16))


class Page:
    """Chunks of bytes, all but the last of 2 to the power of `log` of them, at some place."""

    def __init__(self, num_values: int, log: int, *, large: bool = False) -> None:
        self.layout = LARGE if large else PLAIN
        self.large = large
        self.values = bytes(i % 251 for i in range(num_values))
        parts = [self.values[i : i + (1 << log)] for i in range(0, num_values, 1 << log)]
        chunks = [chunk_of([part], large=large) for part in parts]
        self.words = b"".join(word_of(chunk, log, large=large) for chunk in chunks)
        self.body = b"".join(chunks)
        self.file = bytes(3) + self.words + self.body
        words = 3, len(self.words)
        self.places = [words, (sum(words), len(self.body))]

    def table(self) -> ChunkTable:
        count = len(self.values)
        body_bytes = len(self.body)
        return ChunkTable(self.layout, as_bytes(self.words), None, count, count, body_bytes)

    def read(self, rows: RowRanges | None = None, *, at: int = 0, as_ranges: bool = True) -> Any:
        """A read of rows, or of the whole page, of a file in which it begins at `at`."""
        count, table = len(self.values), None if rows is None else self.table()
        places = [(at + start, size) for start, size in self.places]
        selected = rows and (rows.bounds if as_ranges else rows.rows())
        return self.layout, places, count, count, table, selected, None, None, None

    def held(self, rows: RowRanges | None = None) -> Any:
        """A read of the page in memory."""
        *read, _, bounds, _, _, _ = self.read(rows)
        return *read, None, bounds, None, as_bytes(self.file), None

    def picked(self, rows: RowRanges | None) -> bytes:
        return self.values if rows is None else bytes(self.values[row] for row in rows.rows())


pages = st.builds(Page, st.integers(1, 400), st.integers(1, 6), large=st.booleans())


@st.composite
def wanted_rows(draw: st.DrawFn, page: Page) -> RowRanges:
    rows = draw(st.sets(st.integers(0, len(page.values) - 1), min_size=1, max_size=12))
    return RowRanges.of_rows(np.array(sorted(rows), np.int64))


@given(st.data(), st.lists(pages, max_size=5))
def test_the_rows_of_each_page_come_back(data: st.DataObject, some: list[Page]) -> None:
    starts = np.cumsum([0, *(len(page.file) for page in some)]).tolist()
    file = as_bytes(b"".join(page.file for page in some))
    reads, expected = [], []
    for page, at in zip(some, starts, strict=False):
        rows = data.draw(st.none() | wanted_rows(page))
        if data.draw(st.booleans()):
            reads.append(page.held(rows))
        else:
            reads.append(page.read(rows, at=at, as_ranges=data.draw(st.booleans())))
        expected.append(page.picked(rows))
    planned = PageReads(reads)
    offsets, _ = planned.ranges()
    found = planned.decode([(file, offsets)])
    assert [buffers[0].tobytes() for buffers, _, _ in found] == expected
    assert [count for _, count, _ in found] == [len(values) for values in expected]
    assert [layers for _, _, layers in found] == [
        [(len(values), None, 0, None)] for values in expected
    ]
    ends = planned.ends
    parts = [
        (file[at:], offsets[first:last] - at)
        for at, first, last in zip(starts, [0, *ends], ends, strict=False)
        if last > first
    ]
    apart = planned.decode(parts)
    assert [buffers[0].tobytes() for buffers, _, _ in apart] == expected


@given(st.data(), st.lists(st.tuples(st.integers(1, 400), st.integers(1, 6)), min_size=1))
def test_pages_of_one_layout_come_back_as_one(
    data: st.DataObject, shapes: list[tuple[int, int]]
) -> None:
    some = [Page(count, log) for count, log in shapes]
    rows = [data.draw(st.none() | wanted_rows(page)) for page in some]
    planned = PageReads([page.held(own) for page, own in zip(some, rows, strict=True)])
    border = data.draw(st.integers(1, len(some)))
    groups = [list(range(border)), list(range(border, len(some)))]
    found = planned.decode([], [group for group in groups if group])
    for (buffers, count, layers), group in zip(found, groups, strict=False):
        whole = b"".join(some[number].picked(rows[number]) for number in group)
        assert (buffers[0].tobytes(), count) == (whole, len(whole))
        assert layers == [(len(whole), None, 0, None)]


def test_lists_of_several_pages_come_back_as_one() -> None:
    """Rows [0, 1] and [2] of the first page, [3] and [4, 5] of the second."""
    reads: list[Any] = []
    for rep, values in (([1, 0, 1], b"\0\1\2"), ([1, 1, 0], b"\3\4\5")):
        body = chunk_of([np.array(rep, "<u2").tobytes(), values], num_levels=3)
        parts = [word_of(body), body, np.array([2, 0], "<u8").tobytes()]
        ends = np.cumsum([len(part) for part in parts]).tolist()
        places = [(end - len(part), len(part)) for end, part in zip(ends, parts, strict=True)]
        reads.append((LISTS, places, 3, 2, None, None, None, as_bytes(b"".join(parts)), None))
    [(buffers, count, layers)] = PageReads(reads).decode([], [[0, 1]])
    assert (buffers[0].tobytes(), count) == (bytes(range(6)), 6)
    [_, (num_rows, validity, nulls, offsets)] = layers
    assert (num_rows, validity, nulls) == (4, None, 0)
    assert offsets is not None
    assert offsets.tolist() == [0, 2, 3, 4, 6]
    inner: list[Any] = [(*read, 1) for *read, _ in reads]
    [(buffers, count, layers)] = PageReads(inner).decode([], [[0, 1]])
    assert (buffers[0].tobytes(), count) == (bytes(range(6)), 6)
    assert layers == [(6, None, 0, None), (4, None, 0, None)]


@given(st.data(), pages)
def test_what_is_read_holds_the_rows_and_little_else(data: st.DataObject, page: Page) -> None:
    rows = data.draw(wanted_rows(page))
    offsets, sizes = PageReads([page.read(rows)]).ranges()
    body = page.places[1][0]
    read = {int(at) + i - body for at, n in zip(offsets, sizes, strict=True) for i in range(n)}
    table = page.table().chunks()
    needed = reference.chunks_of_rows(table, rows.rows().tolist())
    chunks = [table[number] for number in needed]
    assert read.issuperset(i for at, n, *_ in chunks for i in range(at, at + n))
    is_dense = 2 * len(rows.bounds) >= needed[-1] - needed[0] + 1
    assert is_dense or len(read) <= 2 * sum(size for _, size, *_ in chunks)
    assert (np.diff(offsets) > sizes[:-1]).all()


def test_only_some_pages_are_decoded_where_that_is_asked() -> None:
    some = [Page(5, 2), Page(7, 3)]
    found = PageReads([page.held() for page in some]).decode([], [[1]])
    assert [buffers[0].tobytes() for buffers, _, _ in found] == [some[1].values]


def test_nulls_come_back() -> None:
    levels = np.array([0, 1, 0], "<u2").tobytes()
    body = chunk_of([levels, b"\1\2\3"], num_levels=3)
    nullable = MiniBlock(Plan.flat(8), b"\3", 1, def_=Block.flat(16))
    found = decode_page(nullable, word_of(body), body, 3, 3)
    buffers, count, [(length, validity, nulls, offsets)] = found
    assert (buffers[0].tobytes(), count, length, nulls, offsets) == (b"\1\2\3", 3, 3, 1, None)
    assert validity.tobytes() == b"\x05"


@given(st.integers(1, 300), st.integers(1, 5), st.booleans(), st.data())
def test_the_table_of_chunks(num_values: int, log: int, large: bool, data: st.DataObject) -> None:
    """Words that are damaged are refused, or the table is what they say."""
    page = Page(num_values, log, large=large)
    expected = reference.chunk_table(page.words, large, None, num_values)
    assert page.table().chunks() == expected
    words = bytearray(page.words)
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.integers(0, 255))
    words = words[: data.draw(st.integers(0, len(words)))]
    page.words = bytes(words)
    is_whole = len(words) > 0 and len(words) % (4 if large else 2) == 0
    expected = reference.chunk_table(page.words, large, None, num_values) if is_whole else []
    fits = sum(size for _, size, *_ in expected) <= len(page.body)
    if is_whole and fits and 0 < expected[-1][2] <= 32_768:
        assert page.table().chunks() == expected
        return
    with pytest.raises(CorruptFileError):
        page.table()
    with pytest.raises(CorruptFileError):
        decode_page(page.layout, page.words, page.body, num_values, num_values)


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_table_of_chunks_with_lists(levels: list[list[int]]) -> None:
    levels[0][0] = 1
    index = reference.repetition_index(levels, 1)
    num_rows = sum(level for chunk in levels for level in chunk)
    words = bytes(2) * len(levels)  # chunks of 8 bytes and one value
    stored = np.array(index, "<u8").tobytes()
    table = ChunkTable(
        LISTS, as_bytes(words), as_bytes(stored), len(levels), num_rows, 8 * len(levels)
    )
    expected = reference.chunk_table(words, False, index, len(levels))
    assert table.chunks() == expected
    for row in range(num_rows):
        needed = reference.chunks_of_rows(expected, [row])
        places = [(0, len(words)), (0, 8 * len(levels)), (0, len(stored))]
        bounds = RowRanges.one(row, row + 1).bounds
        read = (LISTS, places, len(levels), num_rows, table, bounds, None, None, None)
        [start], [size] = PageReads([read]).ranges()
        assert (start // 8, (start + size) // 8 - 1) == (needed[0], needed[-1])


@pytest.mark.parametrize(
    "index", [[[0, 1]], [[2, 0]], [[0, 0]], [[1, 0], [1, 0]], [[1]], [[2**63, 0]]]
)
def test_a_repetition_index_that_contradicts_the_page_is_refused(index: list[list[int]]) -> None:
    stored = as_bytes(np.array(index, "<u8").tobytes())
    with pytest.raises(CorruptFileError):
        ChunkTable(LISTS, as_bytes(b"\0\0"), stored, 1, 1, 8)


@given(st.data(), pages, st.integers(0, 9))
def test_only_kept_rows_of_the_selected_ones_come_back(
    data: st.DataObject, page: Page, first: int
) -> None:
    rows = data.draw(st.none() | wanted_rows(page))
    picked = page.picked(rows)
    wanted = data.draw(st.lists(st.booleans(), min_size=len(picked), max_size=len(picked)))
    bits = np.packbits([True] * first + wanted, bitorder="little")
    for is_held in (False, True):
        *read, _, memory, _ = page.held(rows) if is_held else page.read(rows)
        planned = PageReads([(*read, (bits, first), memory, None)])
        starts, sizes = planned.ranges()
        parts = [page.file[s : s + n] for s, n in zip(starts, sizes, strict=True)]
        places = np.cumsum([0, *sizes])[:-1].astype(np.int64)
        [(buffers, count, _)] = planned.decode([(as_bytes(b"".join(parts)), places)])
        assert bytes(buffers[0]) == bytes(itertools.compress(picked, wanted))
        assert count == sum(wanted)


def test_the_bitmap_of_kept_rows_covers_them() -> None:
    *read, _, memory, _ = Page(9, 2).held()
    with pytest.raises(CorruptFileError, match="bitmap of kept rows"):
        PageReads([(*read, (np.zeros(1, np.uint8), 0), memory, None)])


@pytest.mark.parametrize("width", [0, 3, 32])
def test_a_bit_packed_chunk_has_its_length_if_its_width_answers(width: int) -> None:
    layout = MiniBlock(Plan.inline_bitpacking(32), b"\1", 1)
    every = Condition.numbers_within("unsigned", 32, None, None)
    for missing in (0, 1, 128):
        packed = bytes(128 * width)[: max(0, 128 * width - missing)]
        chunk = chunk_of([width.to_bytes(4, "little") + packed])
        file = as_bytes(word_of(chunk) + chunk)
        read = (layout, [(0, 2), (2, len(chunk))], 1000, 1000, None, None, None, file, None)
        if len(packed) == 128 * width:
            [bits] = PageReads([read]).mask([], every)
            assert np.unpackbits(bits, bitorder="little").sum() == 1000
        else:
            with pytest.raises(CorruptFileError, match="bit-packed group"):
                PageReads([read]).mask([], every)


def test_rows_beyond_the_page_are_refused() -> None:
    with pytest.raises(CorruptFileError, match="rows"):
        PageReads([Page(5, 2).read(RowRanges.one(3, 6))])
    with pytest.raises(CorruptFileError, match="rows"):
        PageReads([Page(5, 2).held(RowRanges.one(3, 6))]).decode([])


def test_some_rows_need_a_table_of_chunks() -> None:
    *read, _, bounds, kept, data, _ = Page(5, 2).read(RowRanges.one(3, 4))
    with pytest.raises(ValueError, match="table of the chunks"):
        PageReads([(*read, None, bounds, kept, data, None)])


def test_a_damaged_page_among_others_of_its_layout() -> None:
    pages = [Page(9, 2), Page(7, 3)]
    pages[1].file = bytes(3) + b"\xff\xff" + pages[1].file[5:]
    planned = PageReads([page.held() for page in pages])
    with pytest.raises(CorruptFileError):
        planned.decode([], [[0, 1]])


@pytest.mark.parametrize("place", [(0, 99), (9, 1), (2**62, 2**62), (8, 1)])
def test_pages_in_memory_lie_within_their_bytes(place: tuple[int, int]) -> None:
    for places in ([place, (0, 8)], [(0, 2), place]):
        planned = PageReads([(PLAIN, places, 1, 1, None, None, None, as_bytes(bytes(8)), None)])
        with pytest.raises(CorruptFileError):
            planned.decode([])


@pytest.mark.parametrize("start", [-1, 3, 2**62])
@pytest.mark.parametrize("rows", [None, RowRanges.one(0, 4)])
def test_places_beyond_the_bytes_are_refused(start: int, rows: RowRanges | None) -> None:
    page = Page(5, 3)
    planned = PageReads([page.read(rows)])
    starts = np.full(len(planned.ranges()[0]), start, np.int64)
    body = as_bytes(page.body[:7])
    for fetched in ([(body, starts)], [(body, starts[:0])], []):
        with pytest.raises(CorruptFileError):
            planned.decode(fetched)


def test_missing_buffers_are_named() -> None:
    with pytest.raises(CorruptFileError, match="expected at least 2, found 1"):
        PageReads([(PLAIN, [(0, 2)], 1, 1, None, None, None, None, None)])


@pytest.mark.parametrize("group", [[], [1]])
def test_groups_of_pages_that_are_not_there_are_refused(group: list[int]) -> None:
    with pytest.raises(CorruptFileError, match="pages"):
        PageReads([Page(5, 2).held()]).decode([], [group])
