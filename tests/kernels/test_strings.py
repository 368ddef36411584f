"""Strings in chunks: offsets, FSST and compression, against their twins."""

from __future__ import annotations

import itertools
import lzma
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernels.chunks import NO_LEVELS, as_bytes, chunk_of, cuts, decode_chunk, decode_values

from pilum import kernels
from pilum.errors import CorruptFileError
from pilum.kernels import Block, Coding, MiniBlockWriter, PageValues, Plan, reference

Strings = list[bytes]
strings = st.lists(st.binary(max_size=20), min_size=1, max_size=60)


def chunk_buffer(values: Strings, width: int) -> bytes:
    """The one value buffer of a chunk of strings."""
    sizes = [0, *map(len, values)]
    ends = np.cumsum(sizes) + (len(values) + 1) * width
    data = ends.astype(f"<u{width}").tobytes() + b"".join(values)
    return data + b"\x48" * (-len(data) % width)


def offsets_of(values: Strings, kind: Any = np.int32, first: int = 0) -> Any:
    return np.cumsum([first, *map(len, values)]).astype(kind)


def back(buffers: list[bytes], kind: Any) -> Strings:
    """Strings of Arrow's buffers."""
    offsets, data = np.frombuffer(buffers[0], kind), buffers[1]
    assert offsets[0] == 0
    assert offsets[-1] == len(data)
    return [data[a:b] for a, b in itertools.pairwise(offsets)]


@given(strings, st.sampled_from([(4, np.int32), (8, np.int64)]), st.data())
@pytest.mark.checklist("S4.9")
def test_strings_by_offsets(values: Strings, kind: Any, data: st.DataObject) -> None:
    width, offset = kind
    buffer = chunk_buffer(values, width)
    assert reference.strings_of_chunk(buffer, width, len(values)) == values
    made = decode_values(Plan.variable(8 * width), [buffer], len(values))
    assert back(made, offset) == values
    borders = sorted(data.draw(st.sets(st.integers(0, len(values)), max_size=9)))
    rows = [(borders[i], borders[i + 1]) for i in range(0, len(borders) - 1, 2)]
    made = decode_values(Plan.variable(8 * width), [buffer], len(values), rows)
    assert back(made, offset) == [value for a, b in rows for value in values[a:b]]


@given(strings, st.sampled_from([np.int32, np.int64]))
def test_the_writer_makes_those_offsets(values: Strings, kind: Any) -> None:
    # The first byte belongs to no string: offsets may start anywhere.
    words, chunks, _ = MiniBlockWriter(Coding.PLAIN).encode(
        PageValues.strings(
            as_bytes(b"?" + b"".join(values)), len(values), offsets_of(values, kind) + kind(1)
        ),
        NO_LEVELS,
        NO_LEVELS,
    )
    assert len(words) == 2
    width = np.dtype(kind).itemsize
    assert chunks.tobytes() == chunk_of([chunk_buffer(values, width)])


@pytest.mark.parametrize(
    ("size", "per_chunk"), [(0, 512), (4, 256), (60, 32), (1000, 4), (9000, 2)]
)
def test_chunks_of_strings_keep_to_four_kilobytes(size: int, per_chunk: int) -> None:
    values = [b"x" * size] * 1500
    words, _, _ = MiniBlockWriter(Coding.PLAIN).encode(
        PageValues.strings(as_bytes(b"".join(values)), len(values), offsets_of(values)),
        NO_LEVELS,
        NO_LEVELS,
    )
    assert {1 << (word & 15) for word in words.view("<u2")[:-1].tolist()} == {per_chunk}


@pytest.mark.parametrize("width", [4, 8])
def test_cut_strings_are_corrupt_or_whole(width: int) -> None:
    values = [b"ab", b"", b"cde", b"f" * 9]
    buffer = chunk_buffer(values, width)
    kind = np.int32 if width == 4 else np.int64
    for part in cuts(buffer):
        try:
            made = decode_values(Plan.variable(8 * width), [part], len(values))
        except CorruptFileError:
            continue
        assert len(part) >= len(buffer.rstrip(b"\x48"))
        assert back(made, kind) == values


@given(st.integers(0, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_wrong_offsets_are_corrupt_or_change_the_strings_only(
    index: int, value: int, large: bool
) -> None:
    width, kind = (8, np.int64) if large else (4, np.int32)
    values = [b"ab", b"", b"cde", b"", b"f"]
    buffer = bytearray(chunk_buffer(values, width))
    buffer[index * width : (index + 1) * width] = value.to_bytes(width, "little")
    for rows in (None, [(1, 3)], [(0, 1), (4, 5)]):
        try:
            made = decode_values(Plan.variable(8 * width), [bytes(buffer)], 5, rows)
        except CorruptFileError:
            continue
        back(made, kind)


def fsst_of(values: Strings) -> tuple[bytes, Strings]:
    table, offsets, data = kernels.compress_fsst(offsets_of(values), as_bytes(b"".join(values)))
    codes = data.tobytes()
    return table.tobytes(), [codes[a:b] for a, b in itertools.pairwise(offsets)]


@given(st.lists(st.sampled_from([b"", b"abcabc", b"hello ", b"\xff\0"]) | st.binary(max_size=30)))
@pytest.mark.checklist("S4.9")
def test_fsst_codes_mean_what_their_twin_says(values: Strings) -> None:
    values = [*values, b"a tale of two tails, a tale of two tales" * 3]
    table, codes = fsst_of(values)
    assert len(table) == 2312
    assert [reference.fsst_decode(table, code) for code in codes] == values
    made = decode_values(Plan.fsst(table, 32), [chunk_buffer(codes, 4)], len(values))
    assert back(made, np.int32) == values
    last = len(values) - 1
    picked = decode_values(
        Plan.fsst(table, 64), [chunk_buffer(codes, 8)], len(values), [(last, last + 1)]
    )
    assert back(picked, np.int64) == values[-1:]


def table_of(*symbols: bytes, flags: int = 1) -> bytes:
    head = bytes([len(symbols), 0, 0, flags]) + b"TSSF"
    body = b"".join(symbol.ljust(8, b"\0") for symbol in symbols)
    return (head + body + bytes(map(len, symbols))).ljust(2312, b"\0")


@given(st.lists(st.lists(st.integers(0, 255), max_size=12).map(bytes), min_size=1, max_size=12))
def test_any_codes_decode_like_their_twin_or_not_at_all(codes: Strings) -> None:
    table = table_of(b"a", b"bc", b"defghijk")
    try:
        expected = [reference.fsst_decode(table, code) for code in codes]
        known = all(reference_codes(code) for code in codes)
    except (IndexError, StopIteration):
        known = False
    buffer = chunk_buffer(codes, 4)
    if known:
        made = decode_values(Plan.fsst(table, 32), [buffer], len(codes))
        assert back(made, np.int32) == expected
    else:
        with pytest.raises(CorruptFileError):
            decode_values(Plan.fsst(table, 32), [buffer], len(codes))


def reference_codes(code: bytes) -> bool:
    """Whether all codes are symbols of a table of three, or escaped."""
    rest = iter(code)
    return all(next(rest, None) is not None if number == 255 else number < 3 for number in rest)


def test_tables_by_hand() -> None:
    codes = [b"\0\1\2", b"\xff\0\xff\xff", b""]
    made = decode_values(
        Plan.fsst(table_of(b"a", b"bc", b"12345678"), 32), [chunk_buffer(codes, 4)], 3
    )
    assert back(made, np.int32) == [b"abc12345678", b"\0\xff", b""]
    identity = bytes(2312)
    made = decode_values(Plan.fsst(identity, 32), [chunk_buffer(codes, 4)], 3)
    assert back(made, np.int32) == codes


@pytest.mark.parametrize(
    "table",
    [
        b"",
        table_of(b"a")[:-1],
        table_of(b"a") + b"\0",
        table_of(b"a").replace(b"TSSF", b"LZ4F"),
        table_of(b"a", b""),
        table_of(b"a", b"123456789"),
    ],
)
def test_damaged_tables_are_corrupt(table: bytes) -> None:
    with pytest.raises(CorruptFileError):
        Plan.fsst(table, 32)


def zstd(data: bytes, level: int = 3) -> bytes:
    _, out = kernels.compress_zstd(np.array([0, len(data)], np.int64), as_bytes(data), level)
    return out.tobytes()


def lz4(data: bytes) -> bytes:
    block: bytes = pa.compress(data, codec="lz4_raw", asbytes=True)
    return len(data).to_bytes(4, "little") + block


@pytest.mark.parametrize(("scheme", "compress"), [("zstd", zstd), ("lz4", lz4)])
@pytest.mark.checklist("S4.9")
def test_compressed_chunks(scheme: str, compress: Any) -> None:
    data = np.arange(1000, dtype="<i4").tobytes()
    plan = Plan.general(scheme, Plan.flat(32))
    packed = compress(data)
    assert decode_values(plan, [packed], 1000) == [data]
    assert decode_values(plan, [packed], 1000, [(3, 5)]) == [data[12:20]]
    block = Block.general(scheme, Block.flat(32))
    assert kernels.decode_block(block, as_bytes(packed), 1000).tobytes() == data
    for part in cuts(packed):
        with pytest.raises(CorruptFileError):
            decode_values(plan, [part], 1000)
        with pytest.raises(CorruptFileError):
            kernels.decode_block(block, as_bytes(part), 1000)


@pytest.mark.checklist("S4.9")
def test_only_the_first_buffer_of_a_chunk_is_compressed() -> None:
    values, lengths = np.arange(500, dtype="<u4").tobytes(), bytes([2] * 500)
    plan = Plan.general("zstd", Plan.rle(32))
    made = decode_values(plan, [zstd(values), lengths], 1000)
    assert made == [np.repeat(np.arange(500, dtype="<u4"), 2).tobytes()]


def test_frames_without_a_size_in_front() -> None:
    data = b"bare frames were written by old releases" * 9
    bare = pa.compress(data, codec="zstd", asbytes=True)
    framed = len(data).to_bytes(8, "little") + bare
    plan = Plan.general("zstd", Plan.flat(8))
    assert decode_values(plan, [framed], len(data)) == [data]
    if not bare[4] & 0x10:
        assert decode_values(plan, [bare], len(data)) == [data]


@pytest.mark.parametrize("claim", [0, 1, 3999, 4001, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1])
def test_claims_of_compressed_sizes_are_checked(claim: int) -> None:
    data = bytes(4000)
    for scheme, packed, width in (("zstd", zstd(data), 8), ("lz4", lz4(data), 4)):
        if claim >= 2 ** (8 * width):
            continue
        lie = claim.to_bytes(width, "little") + packed[width:]
        with pytest.raises(CorruptFileError):
            decode_values(Plan.general(scheme, Plan.flat(8)), [lie], 4000)


@given(st.binary(max_size=80))
def test_noise_is_not_compressed_data(data: bytes) -> None:
    noise = lzma.compress(data, lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2}]) + data
    for scheme in ("zstd", "lz4"):
        with pytest.raises(CorruptFileError):
            decode_values(Plan.general(scheme, Plan.flat(8)), [noise], 3)


@given(strings, st.data(), st.sampled_from([1, 2, 4, 8]))
@pytest.mark.checklist("S4.6")
def test_strings_of_a_dictionary(values: Strings, data: st.DataObject, width: int) -> None:
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), min_size=1, max_size=50))
    valid = data.draw(st.lists(st.booleans(), min_size=len(indices), max_size=len(indices)))
    stored = [i if ok else 255 for i, ok in zip(indices, valid, strict=True)]
    bitmap = np.packbits(valid, bitorder="little")
    made = kernels.look_up_strings(
        as_bytes(np.array(stored, f"<u{width}").tobytes()),
        width,
        bitmap,
        offsets_of(values),
        as_bytes(b"".join(values)),
    )
    found = back([buffer.tobytes() for buffer in made], np.int32)
    expected = [values[i] if ok else b"" for i, ok in zip(indices, valid, strict=True)]
    assert found == expected
    views = kernels.look_up_views(
        as_bytes(np.array(stored, f"<u{width}").tobytes()),
        width,
        bitmap,
        offsets_of(values),
        as_bytes(b"".join(values)),
    )
    assert viewed(views, b"".join(values)) == expected


def viewed(views: Any, data: bytes) -> Strings:
    """Strings of Arrow's views, which Arrow checks."""
    buffers = [None, pa.py_buffer(views), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary_view(), len(views) // 16, buffers)
    array.validate(full=True)
    found: Strings = array.to_pylist()
    return found


@given(strings, st.sampled_from([np.int32, np.int64]), st.integers(0, 3))
def test_views_of_strings(values: Strings, kind: Any, first: int) -> None:
    data = bytes(first) + b"".join(values)
    made = kernels.views_of_strings(offsets_of(values, kind, first), as_bytes(data))
    assert viewed(made, data) == values


def test_few_views_of_a_large_dictionary() -> None:
    values = [b"x" * (i % 30) for i in range(1000)]
    indices = as_bytes(np.array([999, 0, 29], "<u2").tobytes())
    data = b"".join(values)
    views = kernels.look_up_views(indices, 2, None, offsets_of(values), as_bytes(data))
    assert viewed(views, data) == [values[999], values[0], values[29]]


@pytest.mark.parametrize("offsets", [[0, 2, 1, 3], [0, 1, 2, 4], [-1, 1, 2, 3], [4, 4, 4, 4]])
def test_views_are_checked(offsets: list[int]) -> None:
    for kind in (np.int32, np.int64):
        given_offsets: Any = np.array(offsets, kind)
        with pytest.raises(CorruptFileError):
            kernels.views_of_strings(given_offsets, as_bytes(b"abc"))


@pytest.mark.parametrize(
    ("index", "offsets"),
    [(3, [0, 1, 2, 3]), (2**64 - 1, [0, 1, 2, 3]), (0, [0, 2, 1, 3]), (0, [0, 1, 2, 4])],
)
@pytest.mark.checklist("S4.6")
def test_dictionaries_are_checked(index: int, offsets: list[int]) -> None:
    indices = as_bytes(np.array([index], "<u8").tobytes())
    with pytest.raises(CorruptFileError):
        kernels.look_up_strings(indices, 8, None, np.array(offsets, np.int32), as_bytes(b"abc"))
    with pytest.raises(CorruptFileError):
        kernels.look_up_views(indices, 8, None, np.array(offsets, np.int32), as_bytes(b"abc"))


def test_a_dictionary_column_may_have_no_value() -> None:
    chunk = chunk_of([bytes(4)])
    made, num_values, _ = decode_chunk(Plan.flat(32), chunk, 1, rows=[])
    assert (num_values, [buffer.tobytes() for buffer in made]) == (0, [b""])


@given(
    st.lists(st.none() | st.sampled_from([b"", b"a", b"ab", b"b", b"a" * 15, b"a" * 16]))
    | st.lists(st.binary(max_size=17)),
    st.integers(0, 9),
    st.integers(0, 8),
    st.sampled_from([np.int32, np.int64]),
)
def test_distinct_strings_are_numbered_as_they_come(
    values: list[bytes | None], first: int, most: int, kind: Any
) -> None:
    known: dict[bytes, int] = {}
    for value in values:
        if value is not None:
            known.setdefault(value, len(known))
    bits = np.array([True] * first + [value is not None for value in values], dtype=np.bool_)
    validity = (np.packbits(bits, bitorder="little"), first) if None in values else None
    texts = [value or b"" for value in values]
    offsets, data = offsets_of(texts, kind), as_bytes(b"".join(texts))
    sampled = kernels.sample_strings(offsets, data, validity, 2, len(values) // 2)
    assert sampled == drawn(values, 2)
    found = kernels.distinct_strings(offsets, data, validity, most)
    if len(known) > most:
        assert found is None
        return
    assert found is not None
    assert found[0].tolist() == [0 if value is None else known[value] for value in values]
    assert [values[place] for place in found[1]] == list(known)


def drawn(values: list[bytes | None], stretches: int) -> tuple[int, int, int]:
    """Returns what a sample of all values, without nulls, shows."""
    size = len(values) // stretches
    parts = [values[at * size : (at + 1) * size] for at in range(stretches)]
    valid = [[value for value in part if value is not None] for part in parts]
    distinct = [set(part) for part in valid]
    return sum(map(len, valid)), sum(map(len, distinct)), len(set().union(*distinct))


def test_distinct_strings_outside_of_their_data_are_refused() -> None:
    for offsets in ([0, 4], [2, 1], [-1, 2]):
        with pytest.raises(ValueError, match="string 0"):
            kernels.distinct_strings(np.array(offsets, np.int32), as_bytes(b"abc"), None, 9)
    with pytest.raises(ValueError, match="validity: 5 bits"):
        kernels.distinct_strings(np.zeros(8, np.int32), as_bytes(b""), (as_bytes(b"\xff"), 3), 9)
