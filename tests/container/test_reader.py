"""Reading: how many requests, which bytes, and which rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, field_readers, read_rows, write_table
from hypothesis import given
from hypothesis import strategies as st

from pilum.container.fields import LeafFieldReader
from pilum.container.reader import FileReader
from pilum.container.segments import Segment, read_segments
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges

NUMBERS = np.random.default_rng(3)
ROWS = 60_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    texts = pa.array([f"{i:x}" * 80 for i in range(10_000, 10_000 + ROWS)])
    return pa.table(
        {
            "number": NUMBERS.random(ROWS),
            "packed": NUMBERS.integers(0, 1000, ROWS),
            "vector": pa.FixedSizeListArray.from_arrays(
                NUMBERS.random(ROWS * 64).astype(np.float32), 64
            ),
            "text": texts,
            "list": pa.array([[i] * (i % 5) if i % 3 else None for i in range(ROWS)]),
            "word": pa.array([f"w{i % 50}" for i in range(ROWS)]),
        }
    )


@pytest.fixture(scope="module")
def data(table: pa.Table) -> bytes:
    return write_table(table)[0]


@pytest.fixture
def source(data: bytes) -> MemorySource:
    return MemorySource(data)


@pytest.fixture
def fields(source: MemorySource) -> dict[str, LeafFieldReader]:
    return {reader.field.name: reader for reader in field_readers(FileReader.open(source))}


def one_row(field: LeafFieldReader, row: int) -> pa.Array:
    [segment] = field.segments(RowRanges.of((row, row + 1)))
    return segment.read()


@pytest.mark.checklist("S1.4")
def test_opening_a_file_is_one_request(source: MemorySource) -> None:
    reader = FileReader.open(source)
    assert (reader.num_rows, reader.num_columns) == (ROWS, 6)
    reader.columns(range(6))
    assert len(source.requests) == 1


@pytest.mark.checklist("S1.4")
def test_more_schema_than_the_tail_holds_is_one_request_more() -> None:
    names = [f"{i}-" + "x" * 200 for i in range(400)]
    wide = pa.table({name: [1] for name in names})
    source = MemorySource(write_table(wide)[0])
    reader = FileReader.open(source)
    assert reader.schema.names == names
    assert len(source.requests) == 2
    assert reader.columns([0])[0].num_rows == 1
    assert len(source.requests) <= 3


@pytest.mark.parametrize(
    ("name", "first", "later"),
    [
        ("vector", 1, 1),  # full-zip of fixed width: its place is a product
        ("text", 2, 2),  # full-zip of varying width: the index, then the row
        ("number", 2, 1),  # mini-block: the chunk words, once, then a chunk
        ("packed", 2, 1),
        ("list", 2, 1),
        ("word", 2, 1),
    ],
)
@pytest.mark.checklist("S4.2")
def test_requests_for_one_value(
    fields: dict[str, LeafFieldReader],
    source: MemorySource,
    table: pa.Table,
    name: str,
    first: int,
    later: int,
) -> None:
    for row, expected in ((5, first), (7, later), (ROWS // 3, later)):
        page = fields[name]
        if row > 7 and len(list(page.segments(RowRanges.of((0, ROWS))))) > 1:
            continue  # another page has words of its own
        source.requests.clear()
        assert one_row(page, row).equals(table[name].chunk(0).slice(row, 1))
        assert len(source.requests) == expected


@pytest.mark.checklist("S1.1")
def test_a_value_costs_its_bytes(fields: dict[str, LeafFieldReader], source: MemorySource) -> None:
    one_row(fields["vector"], 0)
    one_row(fields["packed"], 0)
    source.requests.clear()
    one_row(fields["vector"], 77)
    one_row(fields["packed"], 5000)
    [[(_, vector)], [(_, chunk)]] = source.requests
    assert vector == 64 * 4
    assert chunk <= 8 * (2 + 160)


@pytest.mark.checklist("S1.5")
def test_many_rows_of_many_columns_are_one_request(
    fields: dict[str, LeafFieldReader], source: MemorySource
) -> None:
    rows = RowRanges.of_rows(np.arange(10, 20_000, 97))
    wanted = [fields[name] for name in ("number", "packed", "list")]
    for field in wanted:
        one_row(field, 0)
    source.requests.clear()
    segments: list[Segment] = [next(field.segments(rows)) for field in wanted]
    read_segments(segments)
    assert len(source.requests) == 1


@pytest.mark.checklist("S1.5")
def test_a_scan_reads_no_byte_twice(table: pa.Table, source: MemorySource) -> None:
    reader = FileReader.open(source)
    source.requests.clear()
    assert read_rows(reader, RowRanges.of((0, ROWS))).equals(table)
    ranges = sorted(pair for request in source.requests for pair in request if pair[1])
    for (offset, size), (following, _) in pairwise(ranges):
        assert offset + size <= following
    # Full-zip pages are read without their index; everything else is read whole.
    read = sum(size for _, size in ranges)
    assert 0.95 * source.size < read < source.size


@pytest.mark.checklist("S1.4")
def test_only_wanted_columns_are_read(
    fields: dict[str, LeafFieldReader], source: MemorySource
) -> None:
    source.requests.clear()
    for segment in fields["packed"].segments(RowRanges.of((0, ROWS))):
        segment.read()
    assert sum(size for request in source.requests for _, size in request) < ROWS * 2


@given(st.data())
@pytest.mark.checklist("S1.2")
def test_any_rows(table: pa.Table, data: bytes, draw: st.DataObject) -> None:
    reader = FileReader.open(MemorySource(data))
    near = draw.draw(st.integers(0, ROWS - 1))
    window = st.integers(max(near - 1500, 0), min(near + 1500, ROWS - 1))
    rows = sorted(draw.draw(st.sets(st.integers(0, ROWS - 1) | window, min_size=1, max_size=60)))
    found = read_rows(reader, RowRanges.of_rows(np.array(rows)))
    assert found.equals(table.take(rows))


def test_a_column_that_does_not_exist(source: MemorySource) -> None:
    reader = FileReader.open(source)
    for index in (-1, 6):
        with pytest.raises(CorruptFileError, match=r"of a file with 6"):
            reader.columns([index])


@pytest.mark.checklist("S1.3")
def test_global_buffers(source: MemorySource, table: pa.Table) -> None:
    reader = FileReader.open(source)
    assert b"vector" in reader.global_buffer(0)
    assert reader.schema.arrow.equals(table.schema)
    with pytest.raises(IndexError):
        reader.global_buffer(1)


def test_a_column_with_other_rows_than_the_file_is_corrupt(data: bytes) -> None:
    reader = FileReader.open(MemorySource(data))
    reader.num_rows += 1
    with pytest.raises(CorruptFileError, match=r"rows: expected .*\n.*column 0"):
        list(field_readers(reader))
