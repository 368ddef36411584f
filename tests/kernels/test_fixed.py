"""Flat, run-length, byte-stream-split and bit values against their twins."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import NO_LEVELS, as_bytes, cuts, decode_values
from numpy.typing import NDArray

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import Block, Plan, reference

WIDTHS = [8, 16, 32, 64]
COUNTS = [1, 2, 255, 256, 1023, 1024, 1025, 4096]


def runs(values: NDArray[Any]) -> tuple[bytes, bytes]:
    """Values and lengths of runs of at most 255."""
    items, lengths = [], []
    for value, group in groupby(values.tolist()):
        left = len(list(group))
        while left:
            items.append(value)
            lengths.append(min(left, 255))
            left -= lengths[-1]
    return np.array(items, values.dtype).tobytes(), bytes(lengths)


def columns(bits: int) -> list[NDArray[Any]]:
    """All equal, all different, and runs of all lengths."""
    kind = f"<u{bits // 8}"
    made = []
    for count in COUNTS:
        made += [np.full(count, 7, kind), np.arange(count).astype(kind)]
        made.append(np.repeat(np.arange(90), np.arange(90))[:count].astype(kind))
    return made


def encode(data: bytes, coding: str, bits: int, num_values: int) -> list[tuple[int, list[bytes]]]:
    """The chunks that the writer makes: log2 of the number of values, and buffers."""
    words, chunks, _ = kernels.encode_mini_block(
        "fixed",
        coding,
        as_bytes(data),
        bits,
        0,
        None,
        [],
        num_values,
        NO_LEVELS,
        NO_LEVELS,
        (None, None),
        0,
        0,
        False,
    )
    made, at = [], 0
    for word in words.view("<u2").tolist():
        size = ((word >> 4) + 1) * 8
        _, buffers = reference.chunk_parts(
            chunks[at : at + size].tobytes(),
            has_rep=False,
            has_def=False,
            num_buffers=2 if coding == "rle" else 1,
        )
        made.append((word & 15, buffers))
        at += size
    assert at == len(chunks)
    return made


@pytest.mark.parametrize("bits", WIDTHS)
def test_runs(bits: int) -> None:
    for values in columns(bits):
        items, lengths = runs(values)
        assert reference.rle_decode(items, lengths, bits // 8, len(values)) == values.tobytes()
        assert decode_values(Plan.rle(bits), [items, lengths], len(values)) == [values.tobytes()]
        block = len(items).to_bytes(8, "little") + items + lengths
        made = kernels.decode_block(Block.rle(bits), as_bytes(block), len(values))
        assert made.tobytes() == values.tobytes()


@pytest.mark.parametrize("bits", WIDTHS)
def test_the_writer_makes_those_runs(bits: int) -> None:
    for values in columns(bits):
        done = b""
        for log, (items, lengths) in encode(values.tobytes(), "rle", bits, len(values)):
            left = len(values) - len(done) // (bits // 8)
            count = 1 << log if log else left
            part = values[len(done) // (bits // 8) :][:count]
            assert (items, lengths) == runs(part)
            done += part.tobytes()
        assert done == values.tobytes()


@given(
    st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), min_size=1, max_size=20),
    st.data(),
)
def test_any_runs_decode_like_their_twin(pairs: list[tuple[int, int]], data: st.DataObject) -> None:
    items, lengths = bytes(value for value, _ in pairs), bytes(length for _, length in pairs)
    covered = sum(lengths)
    num_values = data.draw(st.integers(1, covered + 1))
    if num_values > covered:
        with pytest.raises(CorruptFileError, match="run lengths"):
            decode_values(Plan.rle(8), [items, lengths], num_values)
        return
    expected = reference.rle_decode(items, lengths, 1, num_values)
    assert decode_values(Plan.rle(8), [items, lengths], num_values) == [expected]
    start = data.draw(st.integers(0, num_values - 1))
    picked = decode_values(Plan.rle(8), [items, lengths], num_values, [(start, num_values)])
    assert picked == [expected[start:]]


@pytest.mark.parametrize("bits", WIDTHS)
def test_cut_runs_are_corrupt(bits: int) -> None:
    items, lengths = runs(np.repeat([1, 2, 3], [300, 1, 255]).astype(f"<u{bits // 8}"))
    block = len(items).to_bytes(8, "little") + items + lengths
    for part in cuts(block):
        with pytest.raises(CorruptFileError):
            kernels.decode_block(Block.rle(bits), as_bytes(part), 556)
    for part in cuts(items):
        with pytest.raises(CorruptFileError):
            decode_values(Plan.rle(bits), [part, lengths], 556)
    for part in cuts(lengths):
        with pytest.raises(CorruptFileError):
            decode_values(Plan.rle(bits), [items, part], 556)


@pytest.mark.parametrize("claim", [0, 11, 13, 2**31, 2**63, 2**64 - 1])
def test_a_block_of_runs_checks_its_header(claim: int) -> None:
    block = claim.to_bytes(8, "little") + bytes(12) + bytes([200] * 6)
    with pytest.raises(CorruptFileError):
        kernels.decode_block(Block.rle(16), as_bytes(block), 1000)


@pytest.mark.parametrize("bits", [8, 16, 24, 32, 64, 104, 128, 256, 2040])
def test_flat_values_are_themselves(bits: int) -> None:
    for count in (1, 2, 100):
        data = np.random.default_rng(bits).bytes(count * bits // 8)
        assert decode_values(Plan.flat(bits), [data], count) == [data]
        assert kernels.decode_block(Block.flat(bits), as_bytes(data), count).tobytes() == data
        for part in cuts(data):
            with pytest.raises(CorruptFileError):
                decode_values(Plan.flat(bits), [part], count)
            with pytest.raises(CorruptFileError):
                kernels.decode_block(Block.flat(bits), as_bytes(part), count)


@pytest.mark.parametrize(
    ("bits", "per_chunk"),
    [(8, 4096), (16, 2048), (24, 2048), (32, 1024), (64, 512), (104, 512), (128, 256), (256, 128)],
)
def test_flat_chunks_have_the_sizes_of_the_reference(bits: int, per_chunk: int) -> None:
    data = bytes(5000 * bits // 8)
    chunks = encode(data, "plain", bits, 5000)
    assert {log for log, _ in chunks[:-1]} == {per_chunk.bit_length() - 1}
    assert b"".join(buffer for _, [buffer] in chunks) == data


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(0, 20), st.data())
def test_bits_from_any_bit(values: list[bool], first: int, data: st.DataObject) -> None:
    bitmap = np.packbits([True] * first + values, bitorder="little")
    words, chunks, _ = kernels.encode_mini_block(
        "bits",
        "plain",
        bitmap,
        1,
        first,
        None,
        [],
        len(values),
        NO_LEVELS,
        NO_LEVELS,
        (None, None),
        0,
        0,
        False,
    )
    assert len(words) == 2
    _, [buffer] = reference.chunk_parts(
        chunks.tobytes(), has_rep=False, has_def=False, num_buffers=1
    )
    assert buffer == np.packbits(values, bitorder="little").tobytes()
    start = data.draw(st.integers(0, len(values) - 1))
    [made] = decode_values(Plan.flat(1), [buffer], len(values), [(start, len(values))])
    assert made == np.packbits(values[start:], bitorder="little").tobytes()
    for part in cuts(buffer):
        with pytest.raises(CorruptFileError):
            decode_values(Plan.flat(1), [part], len(values))


@pytest.mark.parametrize("bits", [32, 64])
def test_split_streams(bits: int) -> None:
    for count in (1, 2, 511, 1024):
        data = np.random.default_rng(count).bytes(count * bits // 8)
        split = np.frombuffer(data, np.uint8).reshape(count, -1).T.tobytes()
        assert decode_values(Plan.byte_stream_split(bits), [split], count) == [data]
        last = decode_values(Plan.byte_stream_split(bits), [split], count, [(count - 1, count)])
        assert last == [data[-bits // 8 :]]
        for part in cuts(split):
            with pytest.raises(CorruptFileError):
                decode_values(Plan.byte_stream_split(bits), [part], count)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3000), st.sampled_from(WIDTHS))
def test_costs_are_what_the_encodings_take(values: list[int], bits: int) -> None:
    column = np.array(values, f"<u{bits // 8}")
    _, packed_bytes = kernels.fixed_costs(as_bytes(column.tobytes()), bits)
    groups = [column[at : at + 1024] for at in range(0, len(column), 1024)]
    widths = [int(group.max()).bit_length() for group in groups]
    assert packed_bytes == sum(bits // 8 + 128 * width for width in widths)
    rle_bytes, _ = kernels.fixed_costs(as_bytes(column.tobytes()), bits)
    assert rle_bytes >= sum(map(len, runs(column)))
