"""Writing: pages, their sizes and places, and what is refused before anything is written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySink, MemorySource, read_table, write_table

from pilum.container.frame import FOOTER_BYTES, Footer, PageEntry
from pilum.container.reader import FileReader
from pilum.container.writer import FileOptions, FileWriter
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

MEBIBYTE = 2**20


class Metres(pa.ExtensionType):  # type: ignore[misc]
    """A type of somebody else."""

    def __init__(self) -> None:
        super().__init__(pa.float64(), "test.metres")

    def __arrow_ext_serialize__(self) -> bytes:
        return b"SI"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Metres:
        return cls()


def pages_of(data: bytes) -> list[list[PageEntry]]:
    reader = FileReader.open(MemorySource(data))
    return [column.entries for column in reader.columns(range(reader.num_columns))]


def batches_of(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    return list(table.to_batches(max_chunksize=rows))


@pytest.mark.parametrize("rows", [10_000, 2_500_000])
@pytest.mark.checklist("S1.1")
def test_pages_have_about_eight_mebibytes(rows: int) -> None:
    table = pa.table(
        {"wide": np.random.default_rng(1).random(2_500_000), "narrow": [1] * 2_500_000}
    )
    table = table.set_column(1, "narrow", pa.array(np.arange(2_500_000) % 100, pa.int8()))
    data, _ = write_table(table, batches_of(table, rows))
    wide, narrow = pages_of(data)
    sizes = [sum(size for _, size in stored.buffers) for stored, _ in wide]
    assert len(sizes) == 3
    assert all(7 * MEBIBYTE < size < 9 * MEBIBYTE for size in sizes[:-1])
    assert len(narrow) == 1
    assert [stored.first_row for stored, _ in wide] == [
        sum(before.num_rows for before, _ in wide[:number]) for number in range(3)
    ]
    assert read_table(data).equals(table)


@pytest.mark.checklist("S0.1")
def test_buffers_stand_at_multiples_of_64() -> None:
    table = pa.table({"a": [1, None], "b": [["x"], []], "c": [None, None], "d": ["x" * 300, ""]})
    data, _ = write_table(table)
    for column in pages_of(data):
        for stored, _ in column:
            assert all(offset % 64 == 0 for offset, _ in stored.buffers)
    reader = FileReader.open(MemorySource(data))
    assert all(offset % 64 == 0 for offset, _ in reader.global_buffers)


@pytest.mark.checklist("S0.1")
def test_the_tables_touch() -> None:
    data, written = write_table(pa.table({"a": [1], "b": ["x"]}))
    footer = Footer.parse(data[-FOOTER_BYTES:], len(data))
    assert footer.column_table + footer.column_table_bytes == footer.global_table
    assert footer.global_table + footer.global_table_bytes == len(data) - FOOTER_BYTES
    assert (written.num_rows, written.field_ids, written.column_indices) == (1, (0, 1), (0, 1))


def test_one_column_per_leaf() -> None:
    kind = pa.struct([("a", pa.int8()), ("b", pa.list_(pa.struct([("c", pa.string())])))])
    table = pa.table({"s": pa.array([{"a": 1, "b": [{"c": "x"}]}], kind), "t": [2]})
    data, written = write_table(table, version=FileVersion.V2_1)
    assert written.column_indices == (0, 1, 2)
    assert written.field_ids == (1, 4, 5)
    layers = [len(page.mini_block_layout.layers) for [(_, page)] in pages_of(data)]
    assert layers == [2, 4, 1]


def test_a_file_without_rows() -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.list_(pa.string()))])
    for batches in ([], schema.empty_table().to_batches(), [schema.empty_table().to_batches()]):
        flat = [batch for batch in batches if isinstance(batch, pa.RecordBatch)]
        data, written = write_table(schema.empty_table(), flat)
        assert written.num_rows == 0
        assert read_table(data).equals(schema.empty_table())


def test_schema_metadata_and_extension_types_survive() -> None:
    metres = Metres()
    fields = [pa.field("m", metres, metadata={"k": "ü"}), pa.field("n", pa.int8(), nullable=False)]
    schema = pa.schema(fields, metadata={"of": "the schema"})
    lengths = pa.ExtensionArray.from_storage(metres, pa.array([1.5]))
    found = read_table(write_table(pa.table([lengths, pa.array([1], pa.int8())], schema=schema))[0])
    assert found.schema.metadata == {b"of": b"the schema"}
    metadata = found.schema.field("m").metadata
    assert metadata[b"ARROW:extension:name"] == b"test.metres"
    assert metadata[b"ARROW:extension:metadata"] == b"SI"
    assert metadata[b"k"] == "ü".encode()
    assert not found.schema.field("n").nullable
    assert found["m"].to_pylist() == [1.5]


REFUSED: dict[str, tuple[pa.Table, pa.Table, type[Exception], str]] = {
    "other names": (pa.table({"a": [1]}), pa.table({"b": [1]}), SchemaMismatchError, "columns"),
    "another order": (
        pa.table({"a": [1], "b": [1]}),
        pa.table({"b": [1], "a": [1]}),
        SchemaMismatchError,
        "columns",
    ),
    "another type": (pa.table({"a": [1]}), pa.table({"a": ["x"]}), SchemaMismatchError, "int64"),
    "other members": (
        pa.table({"a": [{"x": 1}]}),
        pa.table({"a": [{"y": 1}]}),
        SchemaMismatchError,
        "'a'",
    ),
    "another list size": (
        pa.table({"a": pa.array([[1]], pa.list_(pa.int8(), 1))}),
        pa.table({"a": pa.array([[1, 2]], pa.list_(pa.int8(), 2))}),
        SchemaMismatchError,
        "'a'",
    ),
    "a null": (
        pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)])),
        pa.table({"a": pa.array([None], pa.int64())}),
        InvalidInputError,
        "not nullable",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_batches_that_do_not_fit(name: str) -> None:
    first, second, kind, text = REFUSED[name]
    sink = MemorySink()
    writer = FileWriter(sink, Schema.from_arrow(first.schema))
    writer.write_batch(first.to_batches()[0])
    with pytest.raises(kind, match=text):
        writer.write_batch(second.to_batches()[0])
    writer.abort()
    assert sink.state == "aborted"


def test_nulls_below_are_seen_where_they_count() -> None:
    strict = pa.struct([pa.field("x", pa.int8(), nullable=False)])
    below_null = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int8())], fields=list(strict), mask=pa.array([False, True])
    )
    table = pa.table({"s": below_null})
    assert read_table(write_table(table)[0])["s"].to_pylist() == [{"x": 1}, None]
    visible = pa.StructArray.from_arrays([pa.array([None], pa.int8())], fields=list(strict))
    with pytest.raises(InvalidInputError, match=r"s\.x"):
        write_table(pa.table({"s": visible}))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())),
        pa.array([[{"a": 1}]], pa.list_(pa.struct([("a", pa.int8())]), 1)),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([[1]])),
        pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([1], pa.date32())),
        pa.array([1], pa.decimal32(3, 0)),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([["a"]], pa.list_(pa.string(), 1)),
        pa.array([[True] * 300_000] * 2, pa.list_(pa.bool_(), 300_000)),
        pa.array([{}, None], pa.struct([])),
        pa.array([[{}]], pa.list_(pa.struct([]))),
        pa.array([[[[True] * 3]] + [[]] * 70_000], pa.list_(pa.list_(pa.list_(pa.bool_(), 3)))),
    ],
    ids=lambda array: str(array.type),
)
def test_types_without_a_form_are_refused(array: pa.Array) -> None:
    with pytest.raises(UnsupportedTypeError):
        write_table(pa.table({"a": array}), version=FileVersion.V2_1)


def test_a_failing_sink_is_not_hidden() -> None:
    class Full(MemorySink):
        def write(self, data: Any) -> None:
            raise OSError("no space left")

    table = pa.table({"a": [1]})
    writer = FileWriter(Full(), Schema.from_arrow(table.schema))
    writer.write_batch(table.to_batches()[0])
    with pytest.raises(OSError, match="no space"):
        writer.finish()


def test_bytes_written_grow_with_what_waits() -> None:
    table = pa.table({"a": np.arange(1000)})
    writer = FileWriter(MemorySink(), Schema.from_arrow(table.schema))
    assert writer.bytes_written() == 0
    writer.write_batch(table.to_batches()[0])
    assert writer.bytes_written() == 8000
    writer.finish()
    assert writer.bytes_written() > 0


@pytest.mark.checklist("S0.1")
@pytest.mark.parametrize("alignment", [64, 512, 4096])
def test_buffers_begin_where_asked(alignment: int) -> None:
    """For direct I/O at multiples of 4,096 bytes."""
    table = pa.table({"a": range(5000), "b": ["x" * (i % 9) for i in range(5000)]})
    schema = Schema.from_arrow(table.schema)
    options = FileOptions(buffer_alignment=alignment, max_page_bytes=9000)
    sink = MemorySink()
    writer = FileWriter(sink, schema, options=options)
    for batch in table.to_batches():
        writer.write_batch(batch)
    writer.finish()
    pages = [stored for column in pages_of(bytes(sink.data)) for stored, _ in column]
    assert len(pages) > 6
    assert all(at % alignment == 0 for stored in pages for at, size in stored.buffers if size)
