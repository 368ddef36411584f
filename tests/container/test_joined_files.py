"""Fields of several files in memory: pages of one form are one array, in the order of the files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
from container.files import MemorySource, write_table

from pilum.container.fields import LeafFieldReader
from pilum.container.joined_files import JoinedFieldReader
from pilum.container.reader import FileReader
from pilum.container.segments import FilePart, Segment, read_segments
from pilum.format.rows import RowRanges
from pilum.format.version import FileVersion


def joined(tables: Sequence[pa.Table]) -> JoinedFieldReader:
    """Return the only column of tables, each in a file."""
    written = [write_table(table, version=FileVersion.V2_2)[0] for table in tables]
    files = [
        FileReader.open(MemorySource(data, f"file {number}")) for number, data in enumerate(written)
    ]
    [field] = files[0].schema.fields
    readers = [
        LeafFieldReader.of(field, [FilePart(file, file.field_columns())], file.num_rows)
        for file in files
    ]
    bounds = np.array(list(accumulate(map(len, tables), initial=0)), np.int64)
    return JoinedFieldReader(readers[0], [(file,) for file in files], bounds, readers.__getitem__)


def whole(field: JoinedFieldReader) -> list[Segment]:
    return list(field.segments(RowRanges.one(0, field.num_rows)))


def test_numbers_become_one_array() -> None:
    tables = [pa.table({"a": pa.array(range(n, 3 * n), pa.int64())}) for n in (5, 7, 40)]
    [segment] = whole(joined(tables))
    [array] = read_segments([segment])
    assert array.to_pylist() == pa.concat_tables(tables)["a"].to_pylist()
    assert array.offset == 0


def test_arrays_end_where_the_form_of_pages_changes() -> None:
    values = (["x"] * 30, ["x"] * 20, ["y"] * 20, [None] * 9, [f"{i}" for i in range(50)])
    tables = [pa.table({"a": pa.array(rows, pa.string())}) for rows in values]
    arrays = read_segments(whole(joined(tables)))
    assert [value for array in arrays for value in array.to_pylist()] == list(chain(*values))
    assert [len(array) for array in arrays] == [50, 20, 9, 50]


def test_members_of_structs_are_joined() -> None:
    kind = pa.struct({"a": pa.int32(), "b": pa.list_(pa.string())})
    rows = [None if i % 5 == 0 else {"a": i, "b": [f"{i}"] * (i % 3)} for i in range(60)]
    tables = [pa.table({"s": pa.array(rows[i : i + 20], kind)}) for i in range(0, 60, 20)]
    found = read_segments(whole(joined(tables)))
    assert [row for array in found for row in array.to_pylist()] == rows
    assert len(found) == 1


def test_selected_rows_are_read_file_by_file() -> None:
    tables = [pa.table({"a": pa.array(range(10 * n, 10 * n + 10))}) for n in range(4)]
    rows = RowRanges.of((3, 5), (8, 12), (35, 40))
    segments = list(joined(tables).segments(rows))
    found = [value for array in read_segments(segments) for value in array.to_pylist()]
    assert found == rows.rows().tolist()


def test_a_segment_may_be_restricted_to_some_rows() -> None:
    tables = [pa.table({"a": pa.array(range(10 * n, 10 * n + 10))}) for n in range(4)]
    [segment] = whole(joined(tables))
    segment.rows = RowRanges.of_rows(np.array([0, 9, 10, 33]))
    assert read_segments([segment])[0].to_pylist() == [0, 9, 10, 33]
