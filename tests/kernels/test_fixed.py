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
from pilum.kernels import Block, Coding, MiniBlockWriter, PageValues, Plan, reference

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


def encode(
    data: bytes, coding: Coding, bits: int, num_values: int, **asked: Any
) -> list[tuple[int, list[bytes]]]:
    """The chunks that the writer makes: log2 of the number of values, and buffers."""
    words, chunks, _ = MiniBlockWriter(coding, **asked).encode(
        PageValues.fixed(as_bytes(data), num_values, bits), NO_LEVELS, NO_LEVELS
    )
    made, at = [], 0
    for word in words.view("<u2").tolist():
        size = ((word >> 4) + 1) * 8
        _, buffers = reference.chunk_parts(
            chunks[at : at + size].tobytes(),
            has_rep=False,
            has_def=False,
            num_buffers=2 if coding == Coding.RLE else 1,
        )
        made.append((word & 15, buffers))
        at += size
    assert at == len(chunks)
    return made


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.checklist("S4.9")
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
        for log, (items, lengths) in encode(values.tobytes(), Coding.RLE, bits, len(values)):
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
@pytest.mark.checklist("S4.9")
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
    chunks = encode(data, Coding.PLAIN, bits, 5000)
    assert {log for log, _ in chunks[:-1]} == {per_chunk.bit_length() - 1}
    assert b"".join(buffer for _, [buffer] in chunks) == data


@given(st.lists(st.booleans(), min_size=1, max_size=300), st.integers(0, 20), st.data())
def test_bits_from_any_bit(values: list[bool], first: int, data: st.DataObject) -> None:
    bitmap = np.packbits([True] * first + values, bitorder="little")
    words, chunks, _ = MiniBlockWriter(Coding.PLAIN).encode(
        PageValues.bits(bitmap, len(values), first), NO_LEVELS, NO_LEVELS
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
@pytest.mark.checklist("S4.9")
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


@pytest.mark.parametrize(("bits", "per_chunk"), [(32, 1024), (64, 512)])
def test_the_writer_makes_those_streams(bits: int, per_chunk: int) -> None:
    values = np.random.default_rng(bits).integers(0, 2**31, 2500, dtype=f"<u{bits // 8}")
    chunks = encode(values.tobytes(), Coding.BYTE_STREAM_SPLIT, bits, len(values))
    assert len(chunks) == -(-len(values) // per_chunk)
    for at, (_, [buffer]) in enumerate(chunks):
        part = values[at * per_chunk : (at + 1) * per_chunk]
        assert buffer == part.view(np.uint8).reshape(len(part), -1).T.tobytes()


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
@pytest.mark.parametrize(
    "coding",
    [Coding.PLAIN, Coding.RLE, Coding.INLINE_BITPACKING, Coding.BYTE_STREAM_SPLIT],
    ids=str,
)
def test_only_the_first_buffer_of_a_chunk_is_compressed(scheme: str, coding: Coding) -> None:
    values = np.repeat(np.arange(900, dtype="<u4") * 1000, 5).tobytes()
    plain = encode(values, coding, 32, 4500)
    packed = encode(values, coding, 32, 4500, compression=(scheme, 3))
    assert len(packed) == len(plain)
    for (log, [first, *others]), (packed_log, [packed_first, *packed_others]) in zip(
        plain, packed, strict=True
    ):
        assert (packed_log, packed_others) == (log, others)
        assert kernels.decompress(scheme, as_bytes(packed_first)).tobytes() == first


@pytest.mark.parametrize("scheme", ["lz4", "zstd"])
@given(st.binary(max_size=300), st.integers(0, 22))
def test_what_is_compressed_comes_back(scheme: str, data: bytes, level: int) -> None:
    packed = kernels.compress(scheme, as_bytes(data), level)
    assert kernels.decompress(scheme, packed).tobytes() == data


@pytest.mark.parametrize(
    ("asked", "per_chunk"),
    [
        ({"max_values": 64}, 64),
        ({"max_values": 32_768}, 1024),
        ({"max_values": 32_768, "target_bytes": 20_001}, 4096),
        ({"target_bytes": 1000}, 128),
        ({"target_bytes": 1}, 2),
    ],
)
def test_chunks_are_as_large_as_asked(asked: dict[str, int], per_chunk: int) -> None:
    chunks = encode(bytes(4 * 10_000), Coding.PLAIN, 32, 10_000, **asked)
    assert {1 << log for log, _ in chunks[:-1]} == {per_chunk}


@pytest.mark.parametrize("most", [0, 1, 3, 4095, 65_536])
def test_chunks_have_powers_of_two_of_values(most: int) -> None:
    with pytest.raises(ValueError, match=f"chunks of {most} values"):
        encode(bytes(400), Coding.PLAIN, 32, 100, max_values=most)


@given(st.lists(st.integers(0, 3), max_size=300), st.sampled_from(WIDTHS))
def test_runs_are_counted(values: list[int], bits: int) -> None:
    column = np.array(values, f"<u{bits // 8}")
    assert kernels.count_runs(as_bytes(column.tobytes()), bits) == len(list(groupby(values)))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=3000), st.sampled_from(WIDTHS))
def test_costs_are_what_the_encodings_take(values: list[int], bits: int) -> None:
    column = np.array(values, f"<u{bits // 8}")
    _, packed_bytes = kernels.fixed_costs(as_bytes(column.tobytes()), bits)
    groups = [column[at : at + 1024] for at in range(0, len(column), 1024)]
    widths = [int(group.max()).bit_length() for group in groups]
    assert packed_bytes == sum(bits // 8 + 128 * width for width in widths)
    rle_bytes, _ = kernels.fixed_costs(as_bytes(column.tobytes()), bits)
    assert rle_bytes >= sum(map(len, runs(column)))


@given(
    st.lists(st.integers(0, 2**32 - 1) | st.integers(0, 3), max_size=80),
    st.integers(0, 90),
    st.sampled_from([4, 8, 16]),
)
def test_distinct_words_are_numbered_as_they_come(words: list[int], most: int, width: int) -> None:
    data = as_bytes(b"".join(word.to_bytes(width, "little") for word in words))
    known = list(dict.fromkeys(words))
    sampled = kernels.sample_words(data, width, None, 1, len(words))
    assert sampled == (len(words), len(known), len(known))
    found = kernels.distinct_words(data, width, most)
    if len(known) > most:
        assert found is None
        return
    assert found is not None
    assert [known[index] for index in found[0]] == words
    assert [words[place] for place in found[1]] == known


def test_words_of_other_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="words of 2 bytes"):
        kernels.distinct_words(as_bytes(bytes(8)), 2, 9)
    with pytest.raises(ValueError, match="words of 2 bytes"):
        kernels.sample_words(as_bytes(bytes(8)), 2, None, 1, 1)
    with pytest.raises(ValueError, match="2 stretches of 1 of 1"):
        kernels.sample_words(as_bytes(bytes(8)), 8, None, 2, 1)


@given(
    st.lists(st.binary(min_size=20, max_size=20), min_size=1, max_size=200),
    st.data(),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 3, 4, 8, 16, 20]),
)
@pytest.mark.checklist("S4.6")
def test_words_of_a_dictionary(
    drawn: list[bytes], data: st.DataObject, width: int, size: int
) -> None:
    values = [value[:size] for value in drawn]
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=50))
    stored = as_bytes(np.array(indices, f"<u{width}").tobytes())
    found = kernels.look_up_words(stored, width, as_bytes(b"".join(values)), size)
    assert found.tobytes() == b"".join(values[index] for index in indices)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("size", [4, 12])
def test_words_beyond_the_dictionary_are_refused(width: int, size: int) -> None:
    for index in (3, 255, 2 ** (8 * width) - 1):
        stored = as_bytes(np.array([0, index, 1], f"<u{width}").tobytes())
        with pytest.raises(CorruptFileError, match="beyond its 3 values"):
            kernels.look_up_words(stored, width, as_bytes(bytes(3 * size)), size)


@given(
    st.lists(st.booleans(), max_size=200),
    st.integers(0, 20),
    st.sampled_from([1, 2, 3, 4, 8, 16, 20, 32]),
)
def test_nulls_become_zeros(valid: list[bool], first: int, width: int) -> None:
    values = [bytes([1 + place % 200]) * width for place in range(len(valid))]
    bitmap = np.packbits(np.array([True] * first + valid, np.bool_), bitorder="little")
    found = kernels.zero_nulls(as_bytes(b"".join(values)), width, (bitmap, first))
    assert found.tobytes() == b"".join(
        value if is_valid else bytes(width) for value, is_valid in zip(values, valid, strict=True)
    )


def test_a_bitmap_that_is_too_short_is_refused() -> None:
    for width in (4, 5):
        with pytest.raises(ValueError, match="bits of validity"):
            kernels.zero_nulls(as_bytes(bytes(9 * width)), width, (as_bytes(b"\xff"), 0))
