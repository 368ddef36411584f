"""Array encodings of version 2.0: their bytes, and reading forms that nobody writes (S0.4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
import pytest
from container.paged import HandPage, file_of, open_paged, read_all, read_paged, write_paged

from pilum.container.v2_0.reader import Column
from pilum.encodings.v2_0.base import ArrayEncoding, Buffer
from pilum.encodings.v2_0.binary import Binary
from pilum.encodings.v2_0.bitpacked import Bitpacked, BitpackedForNonNeg
from pilum.encodings.v2_0.choose import encode_array
from pilum.encodings.v2_0.dictionary import Dictionary
from pilum.encodings.v2_0.fixed_size import FixedSizeBinary, FixedSizeList
from pilum.encodings.v2_0.flat import Compression, Flat
from pilum.encodings.v2_0.list import List
from pilum.encodings.v2_0.nullable import Nullable
from pilum.encodings.v2_0.registry import ARRAY_ENCODINGS, array_encoding_of
from pilum.encodings.v2_0.struct import PackedStruct, Struct
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedFormatError
from pilum.format.pb import encodings20_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.kernels import reference
from pilum.storage.base import run_plan

FLAT_32 = Flat(32, Buffer(0))
NO_NULLS_32 = Nullable(FLAT_32)
ENDS = Nullable(Flat(64, Buffer(0)))

TREES: list[tuple[ArrayEncoding, str]] = [
    (FLAT_32, "0a04 0820 1200"),
    (NO_NULLS_32, "120a 0a08 0a06 0a04 0820 1200"),
    (
        Nullable(Flat(32, Buffer(1)), Flat(1, Buffer(0))),
        "1214 1212 0a06 0a04 0801 1200 1208 0a06 0820 1202 0801",
    ),
    (Nullable(None), "1202 1a00"),
    (Struct(), "2a00"),
    (
        Binary(ENDS, Flat(8, Buffer(1)), 11),
        "321a 0a0c 120a 0a08 0a06 0a04 0840 1200 1208 0a06 0808 1202 0801 180b",
    ),
    (List(ENDS, 6, 5), "2212 0a0c 120a 0a08 0a06 0a04 0840 1200 1006 1805"),
    (
        Nullable(FixedSizeList(2, NO_NULLS_32)),
        "1216 0a14 0a12 1a10 0802 120c 120a 0a08 0a06 0a04 0820 1200",
    ),
    (
        PackedStruct((NO_NULLS_32, Nullable(Flat(64, Buffer(0)))), Buffer(0)),
        "4a1e 0a0c 120a 0a08 0a06 0a04 0820 1200 0a0c 120a 0a08 0a06 0a04 0840 1200 1200",
    ),
]


@pytest.mark.parametrize(("tree", "text"), TREES)
def test_descriptions_have_the_bytes_of_the_format(tree: ArrayEncoding, text: str) -> None:
    data = bytes.fromhex(text)
    assert tree.to_proto().SerializeToString() == data
    assert array_encoding_of(pb.ArrayEncoding.FromString(data)) == tree


def test_every_encoding_is_registered_by_a_name_of_the_message() -> None:
    known = set(pb.ArrayEncoding.DESCRIPTOR.fields_by_name)
    assert {encoding.arm for encoding in ARRAY_ENCODINGS} <= known


@pytest.mark.parametrize("arm", ["constant", "inline_bitpacking", "rle", "block", "variable"])
def test_encodings_of_later_versions_are_refused_by_name(arm: str) -> None:
    with pytest.raises(UnsupportedFormatError, match=arm):
        array_encoding_of(pb.ArrayEncoding(**{arm: pb.Empty()}))


def test_a_buffer_of_the_file_is_damage() -> None:
    message = pb.Buffer(buffer_type=pb.Buffer.FILE)
    with pytest.raises(CorruptFileError):
        Buffer.from_proto(message)


def words(*values: int) -> bytes:
    return np.array(values, np.uint64).tobytes()


# What the writer makes of values: names of the encodings, and the buffers.
WRITTEN: list[tuple[pa.Array, Sequence[bytes]]] = [
    (pa.array([1, None, 3], pa.int8()), [b"\5", b"\1\0\3"]),
    (pa.array([True, False, True]), [b"\5"]),
    (pa.nulls(7, pa.int64()), []),
    (pa.nulls(7), []),
    (pa.array(["hello", None, "", "world"]), [words(5, 16, 5, 10), b"helloworld"]),
    (pa.nulls(3, pa.string()), [words(1, 1, 1), b""]),
    (pa.array(["", "", ""], pa.large_string()), [words(0, 0, 0), b""]),
    (
        pa.array([[1, None], None, [5, 6]], pa.list_(pa.int8(), 2)),
        [b"\5", b"\x31", b"\1\0\0\0\5\6"],
    ),
    (pa.array([[True, False, True]] * 2, pa.list_(pa.bool_(), 3)), [b"\x2d"]),
    (pa.array(["aa", "b", None, "ccc"] * 25), [b"\1\2\0\3" * 25, words(2, 3, 6), b"aabccc"]),
    (pa.nulls(100, pa.string()), [b"\0" * 100, words(1), b""]),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 0], pa.int8()), ["foo", "bar"]),
        [b"\0\1\2\0", words(3, 6, 13), b"foobar"],
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.uint16()), pa.array([7, 9])),
        [b"\0\0\1\0\2\0", b"\3", words(7, 9, 0)],
    ),
    (
        pa.DictionaryArray.from_arrays(pa.array([0, 2, None], pa.int8()), ["a", None, "c"]),
        [b"\0\2\1", words(1, 4, 2), b"ac"],
    ),
    (
        pa.array(
            [{"a": 1, "b": 2.0, "c": [1, 2, 3]}],
            pa.struct([("a", pa.int32()), ("b", pa.float64()), ("c", pa.list_(pa.int8(), 3))]),
        ),
        [bytes.fromhex("01000000 0000000000000040 010203")],
    ),
]


@pytest.mark.parametrize(("array", "buffers"), WRITTEN, ids=lambda value: str(value)[:30])
def test_writers_make_these_buffers(array: pa.Array, buffers: Sequence[bytes]) -> None:
    for rows in (array, pa.concat_arrays([array, array]).slice(len(array))):
        encoded = encode_array(rows)
        assert [bytes(memoryview(buffer)) for buffer in encoded.buffers] == list(buffers)
        description = encoded.encoding.to_proto().SerializeToString()
        assert array_encoding_of(pb.ArrayEncoding.FromString(description)) == encoded.encoding
        found = _read(encoded.encoding, encoded.buffers, array)
        # The null that dictionaries get stays among their values.
        same = found.to_pylist() == array.to_pylist()
        assert same if pt.is_dictionary(array.type) else found.equals(array)


def _read(encoding: ArrayEncoding, buffers: Sequence[Any], like: pa.Array) -> pa.Array:
    """Reads all values of a page without a schema around it."""
    data = file_of(
        pa.schema([("x", pa.int8())]), [[HandPage(len(like), encoding, buffers)]], len(like)
    )
    reader = open_paged(data)
    (column,) = reader.columns([0])
    return _run(reader, column, RowRanges.of((0, len(like))), like.type)


def _run(reader: Any, column: Column, rows: RowRanges, kind: pa.DataType) -> pa.Array:
    array = run_plan(column.read(rows, kind), reader.source)
    array.validate(full=True)
    return array


def _pack_linear(values: Sequence[int], width: int) -> bytes:
    number = sum((value & ((1 << width) - 1)) << i * width for i, value in enumerate(values))
    return number.to_bytes(-(-len(values) * width // 8), "little")


def _pack_groups(values: np.ndarray[Any, Any], width: int) -> bytes:
    padded = np.append(values, np.zeros(-len(values) % 1024, values.dtype)).reshape(-1, 1024)
    bits = values.itemsize * 8
    return b"".join(reference.pack(group.tolist(), bits, width) for group in padded)


# Pages that the reference reads and never writes: type, encoding, buffers, values.
FOREIGN: dict[str, tuple[pa.DataType, ArrayEncoding, Sequence[bytes], list[Any]]] = {
    "flat without nullable": (
        pa.int32(),
        FLAT_32,
        [np.arange(3, dtype="<i4").tobytes()],
        [0, 1, 2],
    ),
    "nullable in nullable": (
        pa.int8(),
        Nullable(Nullable(Flat(8, Buffer(2)), Flat(1, Buffer(1))), Flat(1, Buffer(0))),
        [b"\x0d", b"\x07", b"\1\2\3\4"],
        [1, None, 3, None],
    ),
    "zstd numbers": (
        pa.int32(),
        Nullable(Flat(32, Buffer(0), Compression("zstd"))),
        [Compression("zstd").compress(np.arange(900, dtype="<i4").view(np.uint8)).tobytes()],
        list(range(900)),
    ),
    "a bare zstd frame": (
        pa.int32(),
        Nullable(Flat(32, Buffer(0), Compression("zstd"))),
        [Compression("zstd").compress(np.arange(900, dtype="<i4").view(np.uint8)).tobytes()[8:]],
        list(range(900)),
    ),
    "lz4 numbers": (
        pa.int32(),
        Flat(32, Buffer(0), Compression("lz4", 1)),
        [Compression("lz4").compress(np.arange(900, dtype="<i4").view(np.uint8)).tobytes()],
        list(range(900)),
    ),
    "bitpacked": (
        pa.int8(),
        Nullable(Bitpacked(3, 8, Buffer(0), False)),
        [_pack_linear([1, 2, 3, 4, 5], 3)],
        [1, 2, 3, 4, 5],
    ),
    "bitpacked, signed": (
        pa.int16(),
        Bitpacked(3, 16, Buffer(0), True),
        [_pack_linear([-1, 2, -3, -4, 3], 3)],
        [-1, 2, -3, -4, 3],
    ),
    **{
        f"groups of {bits} bits": (
            pa.from_numpy_dtype(np.dtype(f"u{bits // 8}")),
            Nullable(BitpackedForNonNeg(3, bits, Buffer(0))),
            [_pack_groups((np.arange(2500) % 7).astype(f"<u{bits // 8}"), 3)],
            (np.arange(2500) % 7).tolist(),
        )
        for bits in (8, 16, 32, 64)
    },
    "strings of one length": (
        pa.string(),
        FixedSizeBinary(Flat(16, Buffer(0)), 2),
        [b"aabbcc"],
        ["aa", "bb", "cc"],
    ),
    "strings of one length, as bytes": (
        pa.large_binary(),
        FixedSizeBinary(Nullable(Flat(8, Buffer(0))), 2),
        [b"aabbcc"],
        [b"aa", b"bb", b"cc"],
    ),
    "null strings": (pa.string(), Nullable(None), [], [None, None]),
    "nullable strings": (
        pa.string(),
        Nullable(Binary(Flat(64, Buffer(1)), Flat(8, Buffer(2)), 4), Flat(1, Buffer(0))),
        [b"\1", words(1, 3), b"abb"],
        ["a", None],
    ),
    "any adjustment that is large enough": (
        pa.string(),
        Binary(ENDS, Nullable(Flat(8, Buffer(1))), 1000),
        [words(1, 1001, 3), b"abb"],
        ["a", None, "bb"],
    ),
    "bytes hidden below a null": (
        pa.binary(),
        Binary(ENDS, Flat(8, Buffer(1)), 7),
        [words(2, 12, 6), b"abXXXc"],
        [b"ab", None, b"c"],
    ),
    "a dictionary with validity": (
        pa.string(),
        Dictionary(
            Nullable(Flat(8, Buffer(1)), Flat(1, Buffer(0))),
            Binary(Flat(64, Buffer(2)), Flat(8, Buffer(3)), 3),
            2,
            8,
        ),
        [b"\3", b"\1\2\1", words(1, 2), b"xy"],
        ["x", "y", None],
    ),
}


def foreign_file(name: str) -> tuple[bytes, pa.Array]:
    kind, encoding, buffers, values = FOREIGN[name]
    page = HandPage(len(values), encoding, buffers)
    return file_of(pa.schema([("x", kind)]), [[page]], len(values)), pa.array(values, kind)


@pytest.mark.parametrize("name", FOREIGN)
def test_forms_that_nobody_writes_are_read(name: str) -> None:
    data, expected = foreign_file(name)
    assert read_all(data)["x"].combine_chunks().equals(expected)
    reader, count = open_paged(data), len(expected)
    for rows in ([0], [count - 1], [0, count - 1], range(1, count), range(0, count, 2)):
        wanted = np.unique(np.array(rows, np.int64))
        found = read_paged(reader, RowRanges.of_rows(wanted))["x"].combine_chunks()
        assert found.equals(expected.take(pa.array(wanted)))


# The reference takes the outer validity alone, so that null values come to light.
READ_ALIKE = sorted(set(FOREIGN) - {"nullable in nullable"})


@pytest.mark.reference
@pytest.mark.parametrize("name", READ_ALIKE)
def test_the_reference_reads_them_the_same(tmp_path: Path, name: str) -> None:
    files = pytest.importorskip("lance.file")
    data, expected = foreign_file(name)
    path = tmp_path / "x.lance"
    path.write_bytes(data)
    found = files.LanceFileReader(str(path)).read_all().to_table()["x"]
    assert found.combine_chunks().equals(expected)


def test_a_buffer_may_belong_to_the_column() -> None:
    page = HandPage(3, Nullable(Flat(8, Buffer(0, of_column=True))))
    data = file_of(pa.schema([("x", pa.int8())]), [[page]], 3, {0: [b"\1\2\3"]})
    assert read_all(data)["x"].to_pylist() == [1, 2, 3]


def test_pages_without_items_are_passed_over() -> None:
    pages = [HandPage(0, Nullable(None)), HandPage(2, Nullable(Flat(8, Buffer(0))), [b"\1\2"])]
    data = file_of(pa.schema([("x", pa.int8())]), [[*pages, pages[0], pages[1]]], 4)
    assert read_all(data)["x"].to_pylist() == [1, 2, 1, 2]


def test_strings_of_the_first_files_are_lists_of_bytes() -> None:
    ends = HandPage(3, List(ENDS, 7, 6), [words(2, 9, 6)])
    letters = HandPage(6, Nullable(Flat(8, Buffer(0))), [b"abcdef"])
    data = file_of(pa.schema([("x", pa.string())]), [[ends], [letters]], 3)
    assert read_all(data)["x"].to_pylist() == ["ab", None, "cdef"]


def test_a_page_of_items_may_serve_two_pages_of_lists() -> None:
    ends = [HandPage(2, List(ENDS, 4, 3), [words(2, 3)]), HandPage(1, List(ENDS, 3, 2), [words(2)])]
    items = [HandPage(5, Nullable(Flat(8, Buffer(0))), [b"\1\2\3\4\5"])]
    data = file_of(pa.schema([("x", pa.list_(pa.int8()))]), [ends, items], 3)
    assert read_all(data)["x"].to_pylist() == [[1, 2], [3], [4, 5]]
    reader = open_paged(data)
    assert read_paged(reader, RowRanges.of((1, 3)))["x"].to_pylist() == [[3], [4, 5]]


STRINGS = Binary(ENDS, Flat(8, Buffer(1)), 9)
DAMAGED: dict[str, tuple[pa.DataType, ArrayEncoding, Sequence[bytes]]] = {
    "too few bytes": (pa.int32(), FLAT_32, [b"\0" * 11]),
    "no such buffer": (pa.int32(), Flat(32, Buffer(3)), [b"\0" * 12]),
    "another width": (pa.int32(), Flat(16, Buffer(0)), [b"\0" * 12]),
    "another kind": (pa.int32(), FixedSizeList(1, FLAT_32), [b"\0" * 12]),
    "another list": (pa.list_(pa.int32(), 2), FixedSizeList(3, FLAT_32), [b"\0" * 36]),
    "huge lists": (pa.list_(pa.int8(), 2**31 - 1), FixedSizeList(2**31 - 1, FLAT_32), [b""]),
    "ends that go back": (pa.string(), STRINGS, [words(3, 2, 5), b"abcde"]),
    "ends beyond the bytes": (pa.string(), STRINGS, [words(1, 2, 8), b"a"]),
    "huge ends": (pa.string(), Binary(ENDS, Flat(8, Buffer(1)), 2**63), [words(1, 2, 2**62), b"a"]),
    "no adjustment": (pa.string(), Binary(ENDS, Flat(8, Buffer(1)), 0), [words(1, 2, 3), b"abc"]),
    "narrow ends": (
        pa.string(),
        Binary(Flat(32, Buffer(0)), Flat(8, Buffer(1)), 9),
        [words(1, 2, 3), b"abc"],
    ),
    "lists for numbers": (pa.int32(), List(ENDS, 9, 3), [words(1, 2, 3)]),
    "a number beyond the dictionary": (
        pa.string(),
        Dictionary(Flat(8, Buffer(0)), Binary(Flat(64, Buffer(1)), Flat(8, Buffer(2)), 3), 2, 8),
        [b"\1\2\3", words(1, 2), b"xy"],
    ),
    "a dictionary of wide numbers": (
        pa.string(),
        Dictionary(Flat(16, Buffer(0)), Binary(Flat(64, Buffer(1)), Flat(8, Buffer(2)), 3), 2, 16),
        [b"\1\0\2\0\1\0", words(1, 2), b"xy"],
    ),
    "compressed rubbish": (pa.int8(), Flat(8, Buffer(0), Compression("zstd")), [b"rubbish!" * 4]),
    "compressed too short": (
        pa.int32(),
        Flat(32, Buffer(0), Compression("lz4")),
        [Compression("lz4").compress(np.zeros(8, np.uint8)).tobytes()],
    ),
    "few packed bytes": (pa.int8(), Bitpacked(3, 8, Buffer(0), False), [b"\0"]),
    "half a group": (pa.int8(), BitpackedForNonNeg(3, 8, Buffer(0)), [b"\0" * 383]),
    "a struct for numbers": (pa.int8(), Struct(), []),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_is_named_with_its_place(name: str) -> None:
    kind, encoding, buffers = DAMAGED[name]
    data = file_of(pa.schema([("x", kind)]), [[HandPage(3, encoding, buffers)]], 3)
    with pytest.raises(CorruptFileError) as caught:
        read_all(data)
    assert caught.value.where[:3] == ["page 0", "column 0", "memory.lance"]


def test_lists_that_end_beyond_their_items() -> None:
    ends = HandPage(1, List(ENDS, 9, 3), [words(4)])
    items = HandPage(9, Nullable(Flat(8, Buffer(0))), [b"\1" * 9])
    data = file_of(pa.schema([("x", pa.list_(pa.int8()))]), [[ends], [items]], 1)
    with pytest.raises(CorruptFileError, match="item 4 of 3"):
        read_all(data)


def test_lists_without_their_items() -> None:
    ends = HandPage(1, List(ENDS, 9, 3), [words(3)])
    items = HandPage(2, Nullable(Flat(8, Buffer(0))), [b"\1" * 2])
    data = file_of(pa.schema([("x", pa.list_(pa.int8()))]), [[ends], [items]], 1)
    with pytest.raises(CorruptFileError, match="expected 3, found 2"):
        read_all(data)


def test_a_full_dictionary_has_no_key_for_null() -> None:
    values = pa.array([f"{i}" for i in range(128)])
    keys = pa.array([*range(127), None], pa.int8())
    with pytest.raises(InvalidInputError, match="int8"):
        encode_array(pa.DictionaryArray.from_arrays(keys, values))


@pytest.mark.parametrize(
    ("scheme", "count"), [("zstd", 300), ("lz4", 300), ("none", 300), ("fsst", 20), ("fsst", 3000)]
)
def test_text_is_compressed_as_asked(scheme: str, count: int) -> None:
    texts = [f"the quick brown fox number {i} " * 2 if i % 9 else None for i in range(count)]
    field = pa.field("x", pa.string(), metadata={"lance-encoding:compression": scheme})
    table = pa.table([pa.array(texts)], schema=pa.schema([field]))
    data = write_paged(table)
    assert scheme.encode() in data or scheme == "fsst"
    assert read_all(data).equals(table)
    reader = open_paged(data)
    assert read_paged(reader, RowRanges.of((3, 5), (9, 11)))["x"].to_pylist() == [
        *texts[3:5],
        *texts[9:11],
    ]
