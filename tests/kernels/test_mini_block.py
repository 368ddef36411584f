"""Chunks of levels and values: rows of any selection, and damage of every part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import as_bytes, chunk_of, cuts, decode_chunk, decode_page, word_of
from kernels.test_levels import columns, rebuilt

from pilum.errors import CorruptFileError
from pilum.kernels import Block, MiniBlock, PageReads, Plan, encode_levels, reference

FLAT = Block.flat(16)


def levels_bytes(levels: Sequence[int]) -> bytes:
    return np.array(levels, "<u2").tobytes()


class Chunk:
    """One chunk that holds all rows of a column of bytes."""

    def __init__(self, nesting: str, rows: list[Any], levels: Block = FLAT) -> None:
        self.nesting, self.rows, self.levels = nesting, rows, levels
        self.codes = reference.layer_codes(rows, nesting)
        entries = reference.entries_of(rows, self.codes)
        visible = reference.max_visible(self.codes)
        self.values = [e.value for e in entries if e.def_ <= visible]
        rep, def_ = [e.rep for e in entries], [e.def_ for e in entries]
        self.has_rep, self.has_def = any(rep), any(def_)
        self.data = bytes(value or 0 for value in self.values)
        stored = [rep] * self.has_rep + [def_] * self.has_def
        parts = [encode_levels(np.array(part, np.uint16), levels).tobytes() for part in stored]
        self.bytes = chunk_of([*parts, self.data], num_levels=len(rep) if parts else 0)

    def decode(self, chunk: bytes, rows: list[tuple[int, int]] | None = None) -> Any:
        buffers, count, layers = decode_chunk(
            Plan.flat(8),
            chunk,
            len(self.values),
            rows=rows,
            layers=bytes(self.codes),
            rep=self.levels if self.has_rep else None,
            def_=self.levels if self.has_def else None,
            num_rows=len(self.rows),
        )
        assert count == len(buffers[0])
        return rebuilt(layers, self.nesting, buffers[0].tolist())


@given(columns, st.data())
@pytest.mark.checklist("S4.1")
def test_any_rows_of_a_chunk(column: tuple[str, list[Any]], data: st.DataObject) -> None:
    chunk = Chunk(*column)
    if not chunk.values:
        return
    num_levels, parts = reference.chunk_parts(
        chunk.bytes, has_rep=chunk.has_rep, has_def=chunk.has_def, num_buffers=1
    )
    assert parts[-1] == chunk.data
    assert all(len(part) == 2 * num_levels for part in parts[:-1])
    assert chunk.decode(chunk.bytes) == chunk.rows
    borders = sorted(data.draw(st.sets(st.integers(0, len(chunk.rows)), max_size=8)))
    rows = [(borders[i], borders[i + 1]) for i in range(0, len(borders) - 1, 2)]
    expected = [row for a, b in rows for row in chunk.rows[a:b]]
    assert chunk.decode(chunk.bytes, rows) == expected


@pytest.mark.parametrize(
    "levels", [Block.rle(16), *(Block.out_of_line_bitpacking(16, width) for width in (3, 4))]
)
@pytest.mark.parametrize("nesting", ["", "s", "ss", "l", "sl", "ls", "ll", "lsl"])
@pytest.mark.seeds(1)
@pytest.mark.checklist("S4.1")
def test_any_rows_of_a_large_chunk(levels: Block, nesting: str, seed: int) -> None:
    random = np.random.default_rng([seed, len(nesting)])
    rows = [_row(nesting, random) for _ in range(random.integers(900, 1400))]
    chunk = Chunk(nesting, rows, levels)
    assert chunk.decode(chunk.bytes) == rows
    for count in (1, 5, 200):
        borders = np.sort(random.choice(len(rows) + 1, 2 * count, replace=False)).tolist()
        wanted = list(zip(borders[::2], borders[1::2], strict=True))
        expected = [row for first, end in wanted for row in rows[first:end]]
        assert chunk.decode(chunk.bytes, wanted) == expected
    for part in cuts(chunk.bytes)[::10]:
        with pytest.raises(CorruptFileError):
            chunk.decode(part)


def _row(nesting: str, random: np.random.Generator) -> Any:
    """Returns a row of lists and structs around a number, with nulls and empty lists."""
    if random.random() < 0.1:
        return None
    if not nesting:
        return int(random.integers(0, 256))
    if nesting[0] == "s":
        return (_row(nesting[1:], random),)
    return [_row(nesting[1:], random) for _ in range(random.integers(0, 5))]


@pytest.mark.parametrize("nesting", ["", "s", "l", "ll", "lsl"])
def test_a_cut_chunk_is_corrupt_or_whole(nesting: str) -> None:
    leaf: list[Any] = [1, None, 3]
    rows: list[Any] = {
        "": leaf,
        "s": [(1,), None, (None,)],
        "l": [leaf, [], None, [9]],
        "ll": [[leaf, []], None, [[2]]],
        "lsl": [[(leaf,), None], [], [([],), ([5],)]],
    }[nesting]
    chunk = Chunk(nesting, rows)
    for part in cuts(chunk.bytes):
        try:
            found = chunk.decode(part)
        except CorruptFileError:
            continue
        assert found == rows


@given(st.integers(0, 200), st.integers(0, 255), st.sampled_from(["", "l", "ll"]))
def test_a_wrong_byte_is_corrupt_or_read(at: int, value: int, nesting: str) -> None:
    leaf: list[Any] = [1, None, 3]
    rows: list[Any] = {"": leaf, "l": [leaf, [], None], "ll": [[leaf, []], None, [[2]]]}[nesting]
    chunk = Chunk(nesting, rows)
    damaged = bytearray(chunk.bytes)
    damaged[at % len(damaged)] = value
    for wanted in (None, [(0, 1)], [(1, len(rows))]):
        try:
            buffers, count, layers = decode_chunk(
                Plan.flat(8),
                bytes(damaged),
                len(chunk.values),
                rows=wanted,
                layers=bytes(chunk.codes),
                rep=FLAT if chunk.has_rep else None,
                def_=FLAT if chunk.has_def else None,
                num_rows=len(rows),
            )
        except CorruptFileError:
            continue
        assert count == len(buffers[0])
        assert layers[-1][0] == sum(b - a for a, b in wanted or [(0, len(rows))])


@pytest.mark.checklist("S4.1")
def test_rows_that_span_chunks() -> None:
    # Rows [1, 2, 3] and [4]; two values in each chunk, the first row goes on in the second one.
    first = chunk_of([levels_bytes([1, 0]), b"\1\2"], num_levels=2)
    second = chunk_of([levels_bytes([0, 1]), b"\3\4"], num_levels=2)
    page = MiniBlock(Plan.flat(8), b"\1\2", 1, rep=FLAT)
    words = word_of(first, 1) + word_of(second, 1)
    index = np.array([0, 2, 2, 0], "<u8").tobytes()
    for wanted, expected in (((0, 2), [[1, 2, 3], [4]]), ((0, 1), [[1, 2, 3]]), ((1, 2), [[4]])):
        buffers, _, layers = decode_page(
            page, words, first + second, 4, 2, index=index, rows=[wanted]
        )
        assert rebuilt(layers, "l", buffers[0].tolist()) == expected


@pytest.mark.checklist("S4.1")
def test_large_chunks_have_wider_sizes() -> None:
    header = b"\0\0" + (3).to_bytes(4, "little") + bytes(2)
    body = header + b"\1\2\3" + bytes(5)
    page = MiniBlock(Plan.flat(8), b"\1", 1, large=True)
    buffers, _, _ = decode_page(page, word_of(body, large=True), body, 3, 3)
    assert buffers[0].tobytes() == b"\1\2\3"


@pytest.mark.parametrize("place", [(0, 1000), (1000, 24), (2**62, 2**62), (0, 0)])
def test_chunks_outside_of_the_data_are_corrupt(place: tuple[int, int]) -> None:
    body = chunk_of([b"\1\2\3"])
    data = as_bytes(body + word_of(body))
    page = MiniBlock(Plan.flat(8), b"\1", 1)
    read = (page, [(len(body), 2), place], 3, 3, None, None, None, data, None)
    with pytest.raises(CorruptFileError):
        PageReads([read]).decode([])


def test_what_is_not_a_size_is_refused() -> None:
    page = MiniBlock(Plan.flat(8), b"\1", 1)
    with pytest.raises(ValueError, match="negative"):
        decode_page(page, b"\0\0", bytes(8), 3, 3, rows=[(-1, 3)])


@pytest.mark.checklist("S4.8")
def test_lists_of_fixed_size_with_validity() -> None:
    # Three lists of three items of one bit, of which some are null.
    mask, items = 0b101_111_011, 0b110_000_111
    buffers = [mask.to_bytes(2, "little"), items.to_bytes(2, "little")]
    plan = Plan.fixed_size_list([3], 3)
    [found_mask, found], count, _ = decode_chunk(
        plan, chunk_of(buffers), 3, num_buffers=2, rows=[(1, 3)]
    )
    assert count == 2
    assert found_mask.tobytes() == bytes([0b101_111])
    assert found.tobytes() == bytes([0b110_000])
    for cut in ([buffers[0][:1], buffers[1]], [buffers[0], buffers[1][:1]]):
        with pytest.raises(CorruptFileError):
            decode_chunk(plan, chunk_of(cut), 3, num_buffers=2)
