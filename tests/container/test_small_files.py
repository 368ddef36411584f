"""Many small files: what they have in common is parsed once, and their pages become one array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, write_table

from pilum.cache import Descriptions, FileCaches
from pilum.container.column_pages import ColumnPages
from pilum.container.fields import LeafFieldReader
from pilum.container.reader import FileReader
from pilum.container.segments import FilePart, Segment, read_segments
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges

STRUCT = pa.struct({"a": pa.int64(), "b": pa.string()})


def rows(number: int, count: int) -> pa.Table:
    """Rows of all the kinds of pages that can stand in small files, and that differ by file."""
    values = [None if i % 3 == number % 3 else i * number for i in range(count)]
    texts = [None if value is None else str(value) * 3 for value in values]
    members = [{"a": value, "b": text} for value, text in zip(values, texts, strict=True)]
    return pa.table(
        {
            "number": pa.array(values, pa.int32()),
            "flag": [i % 2 == 0 for i in range(count)],
            "text": pa.array(texts, pa.string()),
            "struct": pa.array(members, STRUCT),
            "list": pa.array([[i] * (i % 3) for i in range(count)], pa.list_(pa.int64())),
            "vector": pa.array([[i, number] for i in range(count)], pa.list_(pa.float32(), 2)),
            "word": pa.array(["x" * 9, "y" * 9] * count).slice(0, count),
            "nothing": pa.nulls(count, pa.int8()),
        }
    )


TABLES = [rows(number, count) for number, count in enumerate((20, 20, 1, 300, 20, 7))]
WANTED = [field.name for field in TABLES[0].schema]


@pytest.fixture(scope="module")
def files() -> list[bytes]:
    return [write_table(table)[0] for table in TABLES]


def segments_of(readers: list[dict[str, LeafFieldReader]]) -> list[Segment]:
    """All rows of all columns, file by file."""
    return [
        segment
        for fields in readers
        for name in WANTED
        for segment in fields[name].segments(RowRanges.one(0, fields[name].num_rows))
    ]


def opened(files: list[bytes]) -> list[dict[str, LeafFieldReader]]:
    """The fields of files that are called "file 0", "file 1", ..., as those of one table."""
    readers = [
        FileReader.open(MemorySource(data, f"file {number}")) for number, data in enumerate(files)
    ]
    wanted = readers[0].schema.fields
    columns = readers[0].field_columns()
    return [
        {
            field.name: LeafFieldReader.of(field, [FilePart(reader, columns)], reader.num_rows)
            for field in wanted
        }
        for reader in readers
    ]


def test_all_columns_of_all_files_come_back(files: list[bytes]) -> None:
    found = iter(read_segments(segments_of(opened(files))))
    for table in TABLES:
        for name in WANTED:
            array = next(found)
            array.validate(full=True)
            assert array.equals(table[name].combine_chunks()), name


def test_files_that_say_the_same_share_what_was_parsed(files: list[bytes]) -> None:
    descriptions = Descriptions()
    readers = [
        FileReader.open(MemorySource(files[0], name), caches=FileCaches.private(name, descriptions))
        for name in ("a", "b")
    ]
    first, second = (reader.column(1) for reader in readers)
    assert first.entries is second.entries
    assert (first.path, second.path) == ("a", "b")


def test_pages_of_one_kind_are_decoded_as_one(files: list[bytes]) -> None:
    """They become slices of one array."""
    numbers = [fields["vector"] for fields in opened(files)]
    segments = [next(field.segments(RowRanges.one(0, field.num_rows))) for field in numbers]
    found = read_segments(segments)
    assert len({address_of(array) for array in found}) == 1
    assert [array.offset for array in found] == [0, 20, 40, 41, 341, 361]


def test_rows_of_pages_of_one_kind_are_decoded_as_one(files: list[bytes]) -> None:
    every = [fields["list"] for fields in opened([files[place] for place in (0, 1, 4)])]
    wanted = [RowRanges.of((0, 1), (5, 7)), RowRanges.one(3, 20), RowRanges.one(0, 1)]
    segments = [next(field.segments(rows)) for field, rows in zip(every, wanted, strict=True)]
    found = read_segments(segments)
    assert len({address_of(array.values) for array in found}) == 1
    for array, rows, place in zip(found, wanted, (0, 1, 4), strict=True):
        assert array.equals(TABLES[place]["list"].combine_chunks().take(pa.array(rows.rows())))


def address_of(array: pa.Array) -> int:
    """Where the values of an array are in memory."""
    return array.buffers()[-1].address  # type: ignore[no-any-return]


def test_pages_of_different_dictionaries_stay_apart() -> None:
    words = [["red", "blue"], ["red", "blue"], ["blue", "red"]]
    tables = [pa.table({"word": pa.array(pair * 200, pa.string())}) for pair in words]
    files = opened([write_table(table)[0] for table in tables])
    segments = [next(one["word"].segments(RowRanges.one(0, 400))) for one in files]
    found = read_segments(segments)
    first, second, third = map(address_of, found)
    assert first == second != third
    assert [array.to_pylist() for array in found] == [pair * 200 for pair in words]


def test_single_rows_are_read_alone(files: list[bytes]) -> None:
    fields = [fields["number"] for fields in opened(files)]
    segments = [next(field.segments(RowRanges.of_rows(np.array([0])))) for field in fields]
    found = pa.concat_arrays(read_segments(segments))
    assert found.to_pylist() == [table["number"][0].as_py() for table in TABLES]


def test_the_damaged_one_of_many_is_named(files: list[bytes]) -> None:
    reader = FileReader.open(MemorySource(files[1]))
    (stored, _), *_ = reader.column(0).entries
    damaged = bytearray(files[1])
    start, size = stored.buffers[1]
    damaged[start : start + size] = b"\xff" * size
    segments = segments_of(opened([files[0], bytes(damaged), files[2]]))
    with pytest.raises(CorruptFileError, match="file 1") as raised:
        read_segments(segments)
    assert "column 0" in str(raised.value)


def test_metadata_that_are_known_are_checked_against_each_file(files: list[bytes]) -> None:
    """A page that lies within one file may lie outside of a shorter one."""
    reader = FileReader.open(MemorySource(files[0]))
    [data] = reader.column_metadata([0])
    descriptions = Descriptions()
    known = ColumnPages.parse(data, len(files[0]), reader.version, descriptions)
    assert ColumnPages.parse(data, known.end, reader.version, descriptions) is known
    with pytest.raises(CorruptFileError, match="beyond the end"):
        ColumnPages.parse(data, known.end - 1, reader.version, descriptions)
