"""Reading legacy files: few requests, any rows, columns in several files (S2.5)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySink, MemorySource
from container.legacy.damage import columns
from container.legacy.files import field_reader, read_legacy, write_legacy
from hypothesis import given
from hypothesis import strategies as st

from pilum.container.legacy.batches import Grouping
from pilum.container.legacy.fields import LegacyFieldReader
from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.writer import LegacyWriter
from pilum.container.segments import FilePart, read_segments
from pilum.errors import UnsupportedFormatError
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema

TABLE = pa.table(columns())
DATA = {group: write_legacy(TABLE, group) for group in (7, 8, 25, 60)}


@given(group=st.sampled_from(list(DATA)), rows=st.sets(st.integers(0, 59), min_size=1))
def test_any_rows(group: int, rows: set[int]) -> None:
    wanted = np.array(sorted(rows), dtype=np.int64)
    found = read_legacy(DATA[group], RowRanges.of_rows(wanted))
    assert found == TABLE.take(wanted)


@given(group=st.sampled_from(list(DATA)), ends=st.tuples(st.integers(0, 60), st.integers(0, 60)))
def test_any_range(group: int, ends: tuple[int, int]) -> None:
    start, stop = sorted(ends)
    found = read_legacy(DATA[group], RowRanges.of((start, stop)))
    assert found == TABLE.slice(start, stop - start)


def test_batches_of_several_calls_become_groups_of_one_size() -> None:
    sink = MemorySink()
    writer = LegacyWriter(sink, Schema.from_arrow(TABLE.schema), Grouping(25))
    for batch in TABLE.to_batches(max_chunksize=11):
        writer.write_batch(batch)
    writer.finish()
    assert bytes(sink.data) == DATA[25]
    file = LegacyFile.open(MemorySource(bytes(sink.data)))
    assert file.metadata.batch_bounds.tolist() == [0, 25, 50, 60]


def test_opening_takes_one_request_and_fields_one_per_step() -> None:
    source = MemorySource(DATA[7])
    file = LegacyFile.open(source)
    assert len(source.requests) == 1
    steps = {"numbers": 1, "bits": 1, "vectors": 1, "strings": 2, "lists": 3, "large": 3}
    rows = RowRanges.of_rows(np.array([3, 30, 59]))
    for name, expected in steps.items():
        reader = field_reader(file, file.schema.field(name))
        source.requests.clear()
        [segment] = reader.segments(rows)
        assert segment.read().to_pylist() == TABLE[name].take([3, 30, 59]).to_pylist()
        assert len(source.requests) == expected
        assert sum(size for request in source.requests for _, size in request) < 200


def test_all_columns_share_their_requests() -> None:
    source = MemorySource(DATA[25])
    file = LegacyFile.open(source)
    rows = RowRanges.of((20, 40))
    segments = [
        segment
        for field in file.schema.fields
        for segment in field_reader(file, field).segments(rows)
    ]
    source.requests.clear()
    read_segments(segments)
    assert len(source.requests) == 3  # offsets of lists; of strings in them; strings


def test_large_fields_are_cut_between_batches() -> None:
    table = pa.table({"x": np.arange(600_000)})
    data = write_legacy(table, 1000)
    file = LegacyFile.open(MemorySource(data))
    reader = field_reader(file, file.schema.fields[0])
    segments = list(reader.segments(RowRanges.of((5, 599_999))))
    assert len(segments) == 3
    assert all(segment.start % 1000 == 0 for segment in segments)
    read = pa.chunked_array(read_segments(segments))
    assert read.combine_chunks().equals(table["x"].combine_chunks().slice(5, 599_994))
    sparse = RowRanges.of_rows(np.arange(0, 600_000, 1000))
    assert len(list(reader.segments(sparse))) == 1


def written(fields: tuple[Field, ...], table: pa.Table) -> LegacyFile:
    sink = MemorySink()
    writer = LegacyWriter(sink, Schema(fields), Grouping(25))
    for batch in table.to_batches():
        writer.write_batch(batch)
    writer.finish()
    return LegacyFile.open(MemorySource(bytes(sink.data)))


def test_members_of_a_struct_in_several_files() -> None:
    """S2.3: files with batches of different sizes, and a member that no file holds."""
    a, b, c = (Field(name, FieldId(n), "int64") for n, name in ((3, "a"), (9, "b"), (11, "c")))
    whole = Field("s", FieldId(2), "struct", children=(a, c, b))
    values = {name: pa.array(np.arange(60) * n) for n, name in ((1, "a"), (7, "b"))}
    parts: list[FilePart] = []
    for member in (a, b):
        part = Field("s", FieldId(2), "struct", children=(member,))
        column = pa.StructArray.from_arrays([values[member.name]], [member.name])
        file = written((part,), pa.table({"s": column}))
        ids = (FieldId(2), member.id)
        owned = {member.id: -1} if parts else dict.fromkeys(ids, -1)
        parts.append(FilePart(file, owned, ids))
    reader = LegacyFieldReader.of(whole, parts, 60)
    [segment] = reader.segments(RowRanges.of((10, 50)))
    found = segment.read()
    assert found.type == whole.arrow_type
    assert found.field(0).equals(values["a"].slice(10, 40))
    assert found.field(1).null_count == 40
    assert found.field(2).equals(values["b"].slice(10, 40))


def test_a_list_over_several_files_is_refused() -> None:
    item = Field("item", FieldId(1), "int64")
    whole = Field("l", FieldId(0), "list", children=(item,))
    file = written((item,), pa.table({"item": [1, 2]}))
    with pytest.raises(UnsupportedFormatError, match="column 'l': a list spread over several"):
        LegacyFieldReader.of(whole, [FilePart(file, {FieldId(1): -1}, (FieldId(1),))], 2)


def test_ids_that_were_given_up_do_not_move_the_page_table() -> None:
    """The table remembers them as negative; the file still counts from the smallest of its own."""
    fields = tuple(Field(name, FieldId(n), "int8") for n, name in ((4, "x"), (6, "y")))
    file = written(fields, pa.table({"x": pa.array([1], pa.int8()), "y": pa.array([2], pa.int8())}))
    assert file.first_id([FieldId(4), FieldId(6)]) == 4
    assert file.first_id([FieldId(-2), FieldId(6)]) == 4
