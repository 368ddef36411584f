"""Several whole pages in one call: the same as each by itself, and damage of what says where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes, chunk_of

from pilum import kernels
from pilum.encodings.structural.chunks import ChunkTable
from pilum.errors import CorruptFileError
from pilum.kernels import Block, MiniBlock, Plan

PLAIN = MiniBlock(Plan.flat(8), None, b"\1", 1, False)


class Page:
    """Chunks of bytes, all but the last of 2 to the power of `log` of them."""

    def __init__(self, num_values: int, log: int, *, large: bool = False) -> None:
        self.values = bytes(i % 251 for i in range(num_values))
        parts = [self.values[i : i + (1 << log)] for i in range(0, num_values, 1 << log)]
        chunks = [self._chunk(part, large) for part in parts]
        words = [((len(chunk) // 8 - 1) << 4) | log for chunk in chunks]
        self.words = np.array(words, "<u4" if large else "<u2").tobytes()
        self.body = b"".join(chunks)
        self.kernel_page = MiniBlock(Plan.flat(8), None, b"\1", 1, large)

    @staticmethod
    def _chunk(part: bytes, large: bool) -> bytes:
        if not large:
            return chunk_of([part])
        header = bytes(2) + len(part).to_bytes(4, "little") + bytes(2)
        return header + part + bytes(-len(part) % 8)


def decode(pages: list[tuple[MiniBlock, int, bytes, bytes]]) -> Any:
    """Decodes pages of some number of values, given their words and chunks."""
    parts = [part for _, _, words, body in pages for part in (words, body)]
    sizes = np.array([len(part) for part in parts], np.int64)
    starts = np.cumsum(sizes) - sizes
    kinds = [(kind, count, count) for kind, count, _, _ in pages]
    return kernels.decode_mini_blocks(kinds, as_bytes(b"".join(parts)), starts, sizes)


def decode_as_one(pages: list[Page]) -> Any:
    """Decodes pages of small chunks, each in a file of its own."""
    places = []
    for page in pages:
        words, count = (3, len(page.words)), len(page.values)
        data = as_bytes(bytes(3) + page.words + page.body)
        places.append((data, words, (sum(words), len(page.body)), count, count))
    return kernels.decode_mini_blocks_as_one(PLAIN, places)


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 6), st.booleans()), max_size=6))
def test_each_page_comes_back(shapes: list[tuple[int, int, bool]]) -> None:
    pages = [Page(count, log, large=large) for count, log, large in shapes]
    found = decode([(p.kernel_page, len(p.values), p.words, p.body) for p in pages])
    assert [buffers[0].tobytes() for buffers, _, _ in found] == [page.values for page in pages]
    assert [layers for _, _, layers in found] == [[(len(p.values), None, 0, None)] for p in pages]


@given(st.lists(st.tuples(st.integers(1, 400), st.integers(1, 6)), min_size=1, max_size=6))
def test_pages_of_one_description_come_back_as_one(shapes: list[tuple[int, int]]) -> None:
    pages = [Page(count, log) for count, log in shapes]
    buffers, count, layers = decode_as_one(pages)
    whole = b"".join(page.values for page in pages)
    assert (buffers[0].tobytes(), count) == (whole, len(whole))
    assert layers == [(len(whole), None, 0, None)]


def test_a_damaged_page_among_others_of_its_description() -> None:
    pages = [Page(9, 2), Page(7, 3)]
    pages[1].words = b"\xff\xff"
    with pytest.raises(CorruptFileError):
        decode_as_one(pages)


@pytest.mark.parametrize("place", [(0, 99), (9, 1), (2**62, 2**62), (8, 1)])
def test_pages_as_one_lie_within_their_bytes(place: tuple[int, int]) -> None:
    for places in ((place, (0, 8)), ((0, 2), place)):
        with pytest.raises(CorruptFileError):
            kernels.decode_mini_blocks_as_one(PLAIN, [(as_bytes(bytes(8)), *places, 1, 1)])


def test_nulls_come_back() -> None:
    levels = np.array([0, 1, 0], "<u2").tobytes()
    body = chunk_of([levels, b"\1\2\3"], num_levels=3)
    nullable = MiniBlock(Plan.flat(8), Block.flat(16), b"\3", 1, False)
    word = ((len(body) // 8 - 1) << 4).to_bytes(2, "little")
    [(buffers, count, [(length, validity, nulls, offsets)])] = decode([(nullable, 3, word, body)])
    assert (buffers[0].tobytes(), count, length, nulls, offsets) == (b"\1\2\3", 3, 3, 1, None)
    assert validity.tobytes() == b"\x05"


@given(st.integers(1, 300), st.integers(1, 5), st.data())
def test_words_are_refused_where_the_table_of_chunks_refuses_them(
    num_values: int, log: int, data: st.DataObject
) -> None:
    page = Page(num_values, log)
    words = bytearray(page.words)
    words[data.draw(st.integers(0, len(words) - 1))] = data.draw(st.integers(0, 255))
    words = words[: data.draw(st.integers(0, len(words)))]
    try:
        ChunkTable.parse(
            np.frombuffer(words, np.uint8),
            None,
            large=False,
            num_items=num_values,
            num_rows=num_values,
            body_bytes=len(page.body),
        )
    except CorruptFileError:
        with pytest.raises(CorruptFileError):
            decode([(PLAIN, num_values, bytes(words), page.body)])


@pytest.mark.parametrize(("start", "size"), [(-1, 4), (0, -4), (0, 99), (2**62, 2**62)])
def test_places_beyond_the_bytes_are_refused(start: int, size: int) -> None:
    starts, sizes = (np.array([number, 0], np.int64) for number in (start, size))
    with pytest.raises(CorruptFileError):
        kernels.decode_mini_blocks([(PLAIN, 1, 1)], as_bytes(bytes(8)), starts, sizes)


def test_lists_are_refused() -> None:
    page = Page(5, 3)
    lists = MiniBlock(Plan.flat(8), None, b"\1\2", 1, False)
    with pytest.raises(CorruptFileError, match="lists"):
        decode([(lists, 5, page.words, page.body)])
