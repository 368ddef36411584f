"""Few rows of many columns of numbers and booleans, whose pages are made together."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from container.files import MemorySink, MemorySource, read_table
from hypothesis import given
from hypothesis import strategies as st

from pilum import kernels
from pilum.container.few_rows import number_columns
from pilum.container.reader import FileReader
from pilum.container.writer import FileOptions, FileWriter
from pilum.encodings.compressive.bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.options import EncodingOptions
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.kernels import Coding, MiniBlockWriter, PageValues

KINDS = [pa.float64(), pa.int32(), pa.uint8(), pa.timestamp("us", "UTC"), pa.date32(), pa.int16()]
FLAGS = [f"flag{number}" for number in range(4)]
NO_LEVELS = np.empty(0, np.uint16)
Page = tuple[int, bytes, list[bytes]]


def wide(num_rows: int, num_columns: int = 48) -> pa.Table:
    """Numbers and booleans of several distributions, some with nulls, and columns of other types.

    Some have a dictionary, some have one value, with or without nulls, and some nulls are in runs.
    """
    rng = np.random.default_rng(num_rows)
    columns: dict[str, pa.Array] = {}
    for number in range(num_columns):
        kind = KINDS[number % len(KINDS)]
        values = rng.integers(0, [2, 120, 1 << 60, 100][number % 4], num_rows)
        values = np.sort(values) if number % 5 == 0 else values
        values = np.full(num_rows, number) if number % 9 == 0 else values
        array = pa.array(values.astype(f"u{kind.bit_width // 8}")).view(kind)
        columns[f"c{number}"] = array if number % 3 else with_nulls(array, number, rng)
    for number in range(4):
        flags = pa.array(rng.random(num_rows) < [0.0, 0.3][number % 2])
        columns[f"flag{number}"] = flags if number < 2 else with_nulls(flags, number, rng)
    columns["null"] = pa.nulls(num_rows, pa.int32())
    columns["text"] = pa.array([str(value) for value in values])
    columns["struct"] = pa.StructArray.from_arrays([columns["c0"], columns["c1"]], ["x", "y"])
    columns["last"] = columns["c1"]
    return pa.table(columns)


def with_nulls(array: pa.Array, number: int, rng: np.random.Generator) -> pa.Array:
    """Returns the values with nulls, here and there or in runs."""
    length = 1 + 40 * (number % 2)
    mask = np.repeat(rng.random(len(array) // length + 1) < 0.3, length)[: len(array)]
    return pc.if_else(pa.array(mask), pa.scalar(None, array.type), array)


def pages(
    batches: list[pa.RecordBatch],
    version: FileVersion = FileVersion.V2_1,
    options: FileOptions | None = None,
    *,
    alone: bool,
) -> tuple[list[list[Page]], bytes]:
    """Returns the pages of each column of a new file, and its bytes; `alone` is one by one."""
    sink = MemorySink()
    watch = (lambda *page: None) if alone else None
    schema = Schema.from_arrow(batches[0].schema)
    writer = FileWriter(sink, schema, version, options or FileOptions(), on_page=watch)
    for batch in batches:
        writer.write_batch(batch)
        assert writer.bytes_written() > 0
    written = writer.finish()
    assert list(written.field_ids) == [field.id for field in schema.leaves()]
    data = bytes(sink.data)
    reader = FileReader.open(MemorySource(data))
    found = [
        [
            (
                stored.num_rows,
                layout.SerializeToString(),
                [data[offset : offset + size] for offset, size in stored.buffers],
            )
            for stored, layout in column.entries
        ]
        for column in reader.columns(range(reader.num_columns))
    ]
    return found, data


@pytest.mark.parametrize("version", [FileVersion.V2_1, FileVersion.V2_2])
@pytest.mark.parametrize("num_rows", [1, 2, 7, 99, 100, 300, 2000, 8193])
def test_pages_are_the_same_as_of_each_column(num_rows: int, version: FileVersion) -> None:
    table = wide(num_rows)
    together, data = pages(table.to_batches(), version, alone=False)
    assert together == pages(table.to_batches(), version, alone=True)[0]
    assert read_table(data).equals(table)
    assert all(offset % 64 == 0 for offset in offsets(data))


def offsets(data: bytes) -> list[int]:
    """Returns where the buffers of pages begin."""
    reader = FileReader.open(MemorySource(data))
    columns = reader.columns(range(reader.num_columns))
    return [at for one in columns for stored, _ in one.entries for at, _ in stored.buffers]


@pytest.mark.parametrize(
    "options",
    [
        FileOptions(max_page_bytes=64),
        FileOptions(data_cache_bytes=64),
        FileOptions(encoding=EncodingOptions(compression="none")),
        FileOptions(encoding=EncodingOptions(structural_encoding="fullzip")),
        FileOptions(buffer_alignment=512),
    ],
)
def test_options_apply(options: FileOptions) -> None:
    batches = wide(20).to_batches()
    together, data = pages(batches, options=options, alone=False)
    assert together == pages(batches, options=options, alone=True)[0]
    assert all(offset % options.buffer_alignment == 0 for offset in offsets(data))


def test_rows_that_follow_join_the_same_pages() -> None:
    table = wide(30)
    batches = table.to_batches(max_chunksize=10)
    together, data = pages(batches, alone=False)
    assert together == pages(batches, alone=True)[0] == pages([*table.to_batches()], alone=True)[0]
    assert read_table(data).equals(table)


def test_sliced_batches_are_written_from_their_first_row() -> None:
    table = wide(30)
    [batch] = table.to_batches()
    _, data = pages([batch.slice(7, 5)], alone=False)
    assert read_table(data).equals(table.slice(7, 5))


def test_which_columns_are_joined() -> None:
    schema = Schema.from_arrow(wide(1).schema)
    names = {schema.fields[place].name for place in number_columns(schema)}
    assert names == {*(f"c{number}" for number in range(48)), *FLAGS, "null", "last"}
    assert number_columns(
        Schema.from_arrow(wide(1).schema.empty_table().select(range(9)).schema)
    ) == (frozenset())


@given(
    bits=st.sampled_from([1, 8, 16, 32, 64]),
    num_values=st.integers(1, 130),
    num_columns=st.integers(1, 5),
    most=st.sampled_from([1, 3, 200]),
    coding=st.sampled_from([Coding.PLAIN, Coding.RLE, Coding.INLINE_BITPACKING]),
    level=st.sampled_from([None, Flat(16), Rle(16), OutOfLineBitpacking(16, 1)]),
)
def test_kernels_equal_those_of_each_column(
    bits: int, num_values: int, num_columns: int, most: int, coding: Any, level: Any
) -> None:
    rng = np.random.default_rng(num_values)
    values = rng.integers(0, most, (num_columns, num_values)).astype(f"<u{max(bits // 8, 1)}")
    levels = [NO_LEVELS] * num_columns
    if level is not None:
        levels = list(rng.integers(0, 2, (num_columns, num_values)).astype(np.uint16))
    if bits == 1:
        data, coding = np.packbits(values.reshape(-1) & 1, bitorder="little"), Coding.PLAIN
        columns = [PageValues.bits(data, num_values, i * num_values) for i in range(num_columns)]
    else:
        data = values.reshape(-1).view(np.uint8)
        own = [column.view(np.uint8) for column in values]
        columns = [PageValues.fixed(column, num_values, bits) for column in own]
        runs, packed = kernels.fixed_costs_each(data, bits, len(own[0]))
        assert [*zip(runs.tolist(), packed.tolist(), strict=True)] == [
            kernels.fixed_costs(column, bits) for column in own
        ]
    block = None if level is None else level.block()
    writer = MiniBlockWriter(coding, def_=block, max_visible=int(level is not None))
    joined, sizes = writer.encode_each(
        data, bits, num_values, num_columns, np.concatenate(levels), 64, 7
    )
    start = 0
    for found, column, own_levels in zip(sizes.reshape(-1, 2), columns, levels, strict=True):
        made = writer.encode(column, NO_LEVELS, own_levels)
        for size, buffer in zip(found.tolist(), made[:2], strict=True):
            end = start + -(-size // 64) * 64
            assert joined[start : start + size].tobytes() == buffer.tobytes()
            assert set(joined[start + size : end].tolist()) <= {7}
            start = end
    assert start == len(joined)


@given(num_values=st.integers(4, 70), num_columns=st.integers(1, 4), stretches=st.integers(1, 4))
def test_samples_equal_those_of_each_column(
    num_values: int, num_columns: int, stretches: int
) -> None:
    rng = np.random.default_rng(num_values)
    words = rng.integers(0, 50, (num_columns, num_values))
    valid = np.packbits(rng.random(words.size) < 0.7, bitorder="little")
    size = num_values // stretches
    drawn, distinct = kernels.sample_words_each(
        words.reshape(-1).view(np.uint8), 8, (valid, 0), num_values, stretches, size
    )
    for number, column in enumerate(words):
        bits = (valid, number * num_values)
        found = kernels.sample_words(column.view(np.uint8), 8, bits, stretches, size)
        assert (drawn[number], distinct[number]) == (found[0], found[2])


@pytest.mark.parametrize("num_rows", [1, 2000])
def test_a_column_of_numbers_costs_few_calls(num_rows: int) -> None:
    def calls(num_columns: int) -> int:
        numbers = np.arange(num_rows, dtype=np.int32)
        table = pa.table({f"c{i}": numbers + i for i in range(num_columns)})
        [batch] = table.to_batches()
        schema = Schema.from_arrow(table.schema)
        found = 0

        def count(*_: object) -> None:
            nonlocal found
            found += 1

        sys.setprofile(count)
        try:
            writer = FileWriter(MemorySink(), schema, FileVersion.V2_2)
            writer.write_batch(batch)
            writer.finish()
        finally:
            sys.setprofile(None)
        return found

    calls(32)  # what is cached once
    assert (calls(1032) - calls(32)) / 1000 < 60


def test_bytes_that_are_no_whole_columns_are_refused() -> None:
    data = np.zeros(12, np.uint8)
    with pytest.raises(ValueError, match="12 bytes of columns of 8"):
        kernels.fixed_costs_each(data, 32, 8)
    with pytest.raises(ValueError, match="12 bytes and 0 levels of 2 columns of 2 values"):
        MiniBlockWriter(Coding.PLAIN).encode_each(data, 32, 2, 2, NO_LEVELS, 64, 0)
