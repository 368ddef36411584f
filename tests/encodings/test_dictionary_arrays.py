"""Arrow dictionary arrays: what becomes of their keys, their values and several dictionaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, read_rows, read_table, write_table
from container.pages import from_hex, read_page

from pilum.arrays import join_arrays, without_null_values
from pilum.container.reader import Column, FileReader
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion

VERSIONS = [FileVersion.V2_1, FileVersion.V2_2]


def dictionary(keys: list[Any], values: pa.Array, kind: pa.DataType | None = None) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(keys, kind or pa.int8()), values)


def written(*batches: pa.Array, version: FileVersion = FileVersion.V2_1) -> FileReader:
    table = pa.table({"d": pa.chunked_array(list(batches))})
    data, _ = write_table(table, version=version)
    return FileReader.open(MemorySource(data))


def read(reader: FileReader) -> pa.ChunkedArray:
    return read_rows(reader, RowRanges.of((0, reader.num_rows)))["d"]


def column(reader: FileReader) -> Column:
    return reader.columns([0])[0]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_the_dictionary_stays_as_it_is(version: FileVersion) -> None:
    """S0.4: order, repeated values and those that no key names are kept."""
    array = dictionary([3, None, 0, 3], pa.array(["b", "not used", "b", "a"]))
    found = read(written(array, version=version)).combine_chunks()
    assert found.equals(array)
    assert found.dictionary.equals(array.dictionary)


def test_a_dictionary_larger_than_its_page_is_reduced_to_what_is_used() -> None:
    array = dictionary([70, None, 9], pa.array([str(i) for i in range(100)]))
    found = read(written(array)).combine_chunks()
    assert found.dictionary.to_pylist() == ["9", "70"]
    assert found.to_pylist() == ["70", None, "9"]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
def test_nulls_in_the_dictionary_become_nulls_of_the_column(version: FileVersion) -> None:
    array = dictionary([0, 1, None, 2, 1] * 50, pa.array(["x", None, "y"]), pa.uint16())
    found = read(written(array, version=version)).combine_chunks()
    assert found.to_pylist() == array.to_pylist()
    assert found.null_count == 150
    assert found.dictionary.to_pylist() == ["x", "y"]
    assert without_null_values(array.slice(1, 2)).null_count == 2


def test_dictionaries_of_several_batches_are_united() -> None:
    batches = [
        dictionary([0, 1], pa.array(["a", "b"])),
        dictionary([0, None, 1], pa.array(["b", "c"])),
    ]
    reader = written(*batches)
    assert column(reader).num_pages == 1
    found = read(reader)
    assert found.to_pylist() == ["a", "b", "b", None, "c"]
    assert found.chunk(0).dictionary.to_pylist() == ["a", "b", "c"]


def half_floats(start: int) -> pa.Array:
    """Some that are no numbers, or the same but for their sign."""
    bits = np.arange(start, start + 90, dtype=np.uint16) * 719
    bits[:3] = 0x7E00, 0x8000, 0
    return pa.array(bits.view(np.float16))


@pytest.mark.parametrize("start", [0, 13])
def test_dictionaries_of_half_floats_are_united_by_their_bits(start: int) -> None:
    """Arrow 26 unites them to other values."""
    batches = [
        dictionary([i % 90 for i in range(200)], half_floats(first), pa.int16())
        for first in (0, start)
    ]
    lists = [pa.ListArray.from_arrays(pa.array([0, 5, 200], pa.int32()), b) for b in batches]
    for parts in (batches, lists):
        found = read(written(*parts))
        assert found.num_chunks == 1
        items = found.chunk(0) if parts is batches else found.chunk(0).values
        expected = [np.array(batch.cast(pa.float16())).view(np.uint16) for batch in batches]
        assert np.array_equal(
            np.array(items.cast(pa.float16())).view(np.uint16), np.concatenate(expected)
        )


def test_dictionaries_that_do_not_go_together_get_pages_of_their_own() -> None:
    batches = [
        dictionary(list(range(100)), pa.array([f"{number} {i}" for i in range(100)]))
        for number in range(4)
    ]
    reader = written(*batches)
    assert column(reader).num_pages == 4
    assert read(reader).to_pylist() == [value for batch in batches for value in batch.to_pylist()]
    with pytest.raises(UnsupportedTypeError, match=r"column 'd': .* too narrow"):
        join_arrays(read(reader).chunks, "column 'd'")


def test_dictionaries_with_nulls_are_joined_or_refused() -> None:
    """As files of version 2.0 may hold them; Arrow 26 does not unite them."""
    first, second, large = (
        dictionary(list(range(size)), pa.array([*(f"{start + i}" for i in range(size - 1)), None]))
        for start, size in ((0, 3), (1, 3), (10, 128))
    )
    joined = join_arrays([first, second], "column 'd'")
    assert joined.type == first.type
    assert joined.to_pylist() == ["0", "1", None, "1", "2", None]
    with pytest.raises(UnsupportedTypeError, match=r"column 'd': .* too narrow"):
        join_arrays([first, large], "column 'd'")
    lists = [pa.ListArray.from_arrays([0, 3], array) for array in (first, second)]
    joined = join_arrays(lists, "column 'd'")
    assert joined.type == lists[0].type
    assert joined.to_pylist() == [["0", "1", None], ["1", "2", None]]


@pytest.mark.parametrize("first", [pa.array([], pa.int64()), pa.array([7])])
@pytest.mark.parametrize("second", [pa.array([], pa.int64()), pa.array([8])])
def test_dictionaries_without_bytes(first: pa.Array, second: pa.Array) -> None:
    """An empty buffer of Arrow is false."""
    batches = [
        dictionary([None, 0 if len(values) else None], values) for values in (first, second, first)
    ]
    expected = [value for batch in batches for value in batch.to_pylist()]
    assert read(written(*batches)).to_pylist() == expected
    lists = [pa.ListArray.from_arrays([0, 1, 2], batch) for batch in batches]
    assert read(written(*lists)).to_pylist() == [[value] for value in expected]


def test_a_large_dictionary_is_stored_once_and_not_per_batch() -> None:
    values = pa.array(["x" * 1000 + str(i) for i in range(20_000)])
    keys = np.arange(60_000, dtype=np.int32) * 7 % 20_000
    array = pa.DictionaryArray.from_arrays(pa.array(keys), values)
    reader = written(*(array.slice(start, 4000) for start in range(0, 60_000, 4000)))
    assert column(reader).num_pages == 1
    assert read(reader).combine_chunks().equals(array)


def test_dictionaries_that_differ_end_pages_before_memory_does() -> None:
    text = "y" * 2**20
    batches = [
        dictionary(list(range(9)), pa.array([f"{b}{i}{text}" for i in range(9)]))
        for b in "pqrstuvw"
    ]
    reader = written(*batches)
    assert column(reader).num_pages == 2
    assert read(reader).to_pylist() == [value for batch in batches for value in batch.to_pylist()]


@pytest.mark.parametrize("version", VERSIONS, ids=str)
@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, True]),
        pa.array([1, -2, 3], pa.int8()),
        pa.array([1, 2, 2**63], pa.uint64()),
        pa.array([1.5, -0.0, 2], pa.float16()),
        pa.array(["a", "", "é"], pa.large_string()),
        pa.array([b"\xff", b"", b"\0"]),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize(
    "key", [pa.int8(), pa.uint8(), pa.int16(), pa.uint32(), pa.uint64()], ids=str
)
def test_every_key_and_value(values: pa.Array, key: pa.DataType, version: FileVersion) -> None:
    array = dictionary([2, 0, None, 1, 2] * 300, values, key).slice(3, 1111)
    table = pa.table(
        {"d": array, "l": pa.ListArray.from_arrays([0, 0, 5, 1111], array).take([0] * 1111)}
    )
    data, _ = write_table(table, version=version)
    found = read_table(data)
    assert found.schema == table.schema
    assert found.to_pylist() == table.to_pylist()


def test_no_value_at_all() -> None:
    nothing = dictionary([None] * 5, pa.array([], pa.string()))
    assert read(written(nothing)).combine_chunks().equals(nothing)
    nulls = dictionary([0, 0], pa.array([None], pa.string()))
    assert read(written(nulls)).to_pylist() == [None, None]


def page(bits: int, *, items: int, dictionary: str, count: int = 2) -> pb.PageLayout:
    layout = pb.MiniBlockLayout(layers=["ALL_VALID_ITEM"], num_buffers=1, num_items=count)
    layout.value_compression.flat.bits_per_value = bits
    if dictionary == "strings":
        layout.dictionary.variable.offsets.flat.bits_per_value = 32
    else:
        layout.dictionary.flat.bits_per_value = 1
    layout.num_dictionary_items = items
    return pb.PageLayout(mini_block_layout=layout)


STRINGS = from_hex("20000000 14000000 00000000 01000000 02000000") + b"ab"
CHUNK = "0000 0200 fefefefe {} fefefefefefe"


def test_keys_take_the_width_of_their_type() -> None:
    chunk = from_hex(CHUNK.format("01 00"))
    layout = page(8, items=2, dictionary="strings")
    kind = pa.dictionary(pa.int32(), pa.string())
    made = read_page(kind, layout, [from_hex("1000"), chunk, STRINGS], 2)
    assert made.type == kind
    assert made.to_pylist() == ["b", "a"]


def test_plain_values_are_read_as_dictionaries_too() -> None:
    layout = pb.MiniBlockLayout(layers=["ALL_VALID_ITEM"], num_buffers=1, num_items=2)
    layout.value_compression.flat.bits_per_value = 8
    chunk = from_hex(CHUNK.format("07 07"))
    kind = pa.dictionary(pa.int16(), pa.uint8())
    made = read_page(kind, pb.PageLayout(mini_block_layout=layout), [from_hex("1000"), chunk], 2)
    assert made.type == kind
    assert made.dictionary.to_pylist() == [7]


@pytest.mark.parametrize("key", ["02", "80", "ff"])
def test_keys_beyond_the_dictionary_are_damage(key: str) -> None:
    buffers = [from_hex("1000"), from_hex(CHUNK.format(f"00 {key}")), STRINGS]
    with pytest.raises(CorruptFileError, match="beyond its 2 values"):
        read_page(
            pa.dictionary(pa.int8(), pa.string()),
            page(8, items=2, dictionary="strings"),
            buffers,
            2,
        )


def test_keys_beyond_their_type_are_damage() -> None:
    buffers = [from_hex("1000"), from_hex(CHUNK.format("00 80")), from_hex("00*25;")]
    with pytest.raises(CorruptFileError, match="no int8"):
        read_page(
            pa.dictionary(pa.int8(), pa.bool_()), page(8, items=200, dictionary="bits"), buffers, 2
        )


@pytest.mark.parametrize("size", [0, 1, 3])
def test_bitmaps_of_another_size_are_damage(size: int) -> None:
    buffers = [from_hex("1000"), from_hex(CHUNK.format("00 01")), bytes(size)]
    with pytest.raises(CorruptFileError, match="9 bits in"):
        read_page(
            pa.dictionary(pa.int8(), pa.bool_()), page(8, items=9, dictionary="bits"), buffers, 2
        )
