"""Bit-packed groups, inline and out of line, against the formula of the format."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import (
    NO_LEVELS,
    as_bytes,
    chunk_of,
    cuts,
    decode_page,
    decode_values,
    word_of,
)
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import Block, Coding, MiniBlock, MiniBlockWriter, PageValues, Plan, reference

WIDTHS = [(bits, width) for bits in (8, 16, 32, 64) for width in range(bits + 1)]
COUNTS = (0, 1, 1023, 1024, 1025, 2500)


def numbers(count: int, bits: int, width: int, seed: int = 0) -> NDArray[np.uint64]:
    """Values of exactly `width` bits: one of them has the highest bit."""
    if width == 0:
        return np.zeros(count, dtype=np.uint64)
    made = np.random.default_rng(seed).integers(0, 2**width, count, dtype=np.uint64)
    made[count // 2 :][:1] = 2**width - 1
    return made


def little_endian(values: NDArray[np.uint64], bits: int) -> bytes:
    return values.astype(f"<u{bits // 8}").tobytes()


def padded(values: NDArray[np.uint64]) -> list[int]:
    return [*values.tolist(), *([0] * (1024 - len(values)))]


def inline(values: NDArray[np.uint64], bits: int, width: int) -> bytes:
    return width.to_bytes(bits // 8, "little") + reference.pack(padded(values), bits, width)


def out_of_line(values: NDArray[np.uint64], bits: int, width: int) -> bytes:
    groups = [values[at : at + 1024] for at in range(0, len(values), 1024)]
    parts = []
    for group in groups:
        raw = little_endian(group, bits)
        fits = len(group) < 1024 and len(raw) <= 128 * width
        parts.append(raw if fits else reference.pack(padded(group), bits, width))
    return b"".join(parts)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.checklist("S4.9")
def test_the_order_of_the_formula_is_a_permutation(bits: int) -> None:
    places = {
        reference.packed_index(row, lane) for row in range(bits) for lane in range(1024 // bits)
    }
    assert places == set(range(1024))


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
@pytest.mark.checklist("S4.9")
def test_every_width_of_inline_groups(bits: int, width: int) -> None:
    for count in COUNTS[:4]:
        values = numbers(count, bits, width, seed=width)
        packed = inline(values, bits, width)
        expected = little_endian(values, bits)
        block = Block.inline_bitpacking(bits)
        assert kernels.decode_block(block, as_bytes(packed), count).tobytes() == expected
        if count:
            assert reference.unpack(packed[bits // 8 :], bits, width) == padded(values)
            plan = Plan.inline_bitpacking(bits)
            assert decode_values(plan, [packed], count) == [expected]


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
@pytest.mark.checklist("S4.9")
def test_every_width_of_groups_out_of_line(bits: int, width: int) -> None:
    for count in COUNTS if width in (1, 3, bits - 1, bits) else (1025,):
        values = numbers(count, bits, width, seed=width)
        data = out_of_line(values, bits, width)
        made = kernels.decode_block(
            Block.out_of_line_bitpacking(bits, width), as_bytes(data), count
        )
        assert made.tobytes() == little_endian(values, bits)


@pytest.mark.parametrize(("bits", "width"), WIDTHS)
def test_the_writer_packs_as_the_formula_says(bits: int, width: int) -> None:
    values = numbers(1500, bits, width, seed=width)
    words, chunks, _ = MiniBlockWriter(Coding.INLINE_BITPACKING).encode(
        PageValues.fixed(as_bytes(little_endian(values, bits)), len(values), bits),
        NO_LEVELS,
        NO_LEVELS,
    )
    sizes = ((words.view("<u2").astype(int) >> 4) + 1) * 8
    first, last = chunks[: sizes[0]].tobytes(), chunks[sizes[0] :].tobytes()
    for chunk, group in ((first, values[:1024]), (last, values[1024:])):
        _, [buffer] = reference.chunk_parts(chunk, has_rep=False, has_def=False, num_buffers=1)
        assert buffer == inline(group, bits, int(group.max()).bit_length())


@given(st.data(), st.sampled_from([8, 16, 32, 64]))
def test_few_values_and_many_are_picked_alike(data: st.DataObject, bits: int) -> None:
    width = data.draw(st.integers(0, bits))
    count = data.draw(st.integers(1, 1024))
    borders = sorted(data.draw(st.sets(st.integers(0, count), max_size=40)))
    rows = [(borders[i], borders[i + 1]) for i in range(0, len(borders) - 1, 2)]
    values = numbers(count, bits, width)
    expected = b"".join(little_endian(values[a:b], bits) for a, b in rows)
    plan = Plan.inline_bitpacking(bits)
    assert decode_values(plan, [inline(values, bits, width)], count, rows) == [expected]


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize(
    ("num_values", "width", "narrow"), [(255, 8, 8), (200, 11, 8), (9000, 14, 16)]
)
@pytest.mark.checklist("S4.6")
def test_indices_have_the_bits_that_their_dictionary_needs(
    bits: int, num_values: int, width: int, narrow: int
) -> None:
    page = MiniBlock(Plan.inline_bitpacking(bits), b"\1", 1, num_indexed=num_values)
    greatest = 2 ** min(narrow, bits) - 1  # no index of the dictionary
    for count in (1, 1000, 1024):
        values = numbers(count, bits, width, seed=count)
        chunk = chunk_of([inline(values, bits, width)])
        for rows in (
            None,
            [(0, count)],
            [(count - 1, count)],
            [(0, count // 2), (count - 1, count)],
        ):
            picked = values if rows is None else np.concatenate([values[a:b] for a, b in rows])
            [buffer], _, _ = decode_page(page, word_of(chunk), chunk, count, count, rows=rows)
            expected = little_endian(np.minimum(picked, greatest), min(narrow, bits))
            assert buffer.tobytes() == expected
        for part in cuts(inline(values, bits, width))[:: 1 if count == 1 else 20]:
            cut = chunk_of([part])
            with pytest.raises(CorruptFileError):
                decode_page(page, word_of(cut), cut, count, count)


@pytest.mark.parametrize(("bits", "width"), [(8, 3), (16, 16), (32, 10), (64, 33)])
def test_a_group_that_was_cut_is_corrupt(bits: int, width: int) -> None:
    values = numbers(1000, bits, width)
    for part in cuts(inline(values, bits, width)):
        with pytest.raises(CorruptFileError):
            kernels.decode_block(Block.inline_bitpacking(bits), as_bytes(part), 1000)
        with pytest.raises(CorruptFileError):
            decode_values(Plan.inline_bitpacking(bits), [part], 1000)
        with pytest.raises(CorruptFileError):
            decode_values(Plan.inline_bitpacking(bits), [part], 1000, [(999, 1000)])
    for count in (1, 1023, 1024, 1025):
        for part in cuts(out_of_line(numbers(count, bits, width), bits, width)):
            with pytest.raises(CorruptFileError):
                kernels.decode_block(
                    Block.out_of_line_bitpacking(bits, width), as_bytes(part), count
                )


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_a_width_above_that_of_the_values_is_corrupt(bits: int) -> None:
    for claim in (bits + 1, 255, 2**bits - 1):
        data = claim.to_bytes(bits // 8, "little") + bytes(128 * bits)
        with pytest.raises(CorruptFileError):
            kernels.decode_block(Block.inline_bitpacking(bits), as_bytes(data), 1024)
        with pytest.raises(CorruptFileError):
            decode_values(Plan.inline_bitpacking(bits), [data], 1024, [(5, 6)])


def test_more_values_than_a_group_has_are_corrupt() -> None:
    data = bytes(4) + bytes(0)
    with pytest.raises(CorruptFileError):
        kernels.decode_block(Block.inline_bitpacking(32), as_bytes(data), 1025)
    with pytest.raises(CorruptFileError):
        decode_values(Plan.inline_bitpacking(32), [data], 1025)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("count", [0, 1, 5, 1023, 1024, 1025, 2900])
def test_blocks_of_any_width_come_back(bits: int, count: int) -> None:
    for width in (0, 1, bits // 2 + 1, bits):
        top = (1 << width) - 1
        values = np.array([top - i % (top + 1) for i in range(count)], f"<u{bits // 8}")
        packed_bits, block = kernels.pack_block(values.view(np.uint8), bits)
        assert packed_bits == (width if count else 0)
        plan = Block.out_of_line_bitpacking(bits, packed_bits)
        assert kernels.decode_block(plan, block, count).tobytes() == values.tobytes()
        assert len(block) <= max(count * bits // 8, 128 * packed_bits * -(-count // 1024))
