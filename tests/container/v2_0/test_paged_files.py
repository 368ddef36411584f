"""Whole files of version 2.0: pages, random access, what is refused, and damage."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource, write_table
from container.paged import HandPage, file_of, open_paged, read_all, read_paged, write_paged

from pilum.container.open import field_reader, open_file
from pilum.container.segments import FilePart
from pilum.container.v2_0.reader import PagedFileReader
from pilum.container.v2_0.writer import require_storable
from pilum.encodings.v2_0.base import Buffer
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.nullable import Nullable
from pilum.encodings.v2_0.struct import Struct
from pilum.errors import (
    CorruptFileError,
    InvalidInputError,
    PilumError,
    UnsupportedFormatError,
    UnsupportedTypeError,
)
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

ROOT = Path(__file__).parents[3]
FILES = 5000
ROWS = 1_300_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Columns of one to four pages, each cut at other rows."""
    numbers = np.random.default_rng(3)
    lengths = numbers.integers(0, 4, ROWS)
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    items = pa.array(numbers.integers(0, 2**40, int(offsets[-1])))
    return pa.table(
        {
            "bits": pa.array(numbers.random(ROWS) < 0.5, mask=numbers.random(ROWS) < 0.1),
            "numbers": np.arange(ROWS) * 7,
            "texts": pa.array(numbers.integers(0, 2**60, ROWS)).cast(pa.string()),
            "lists": pa.ListArray.from_arrays(pa.array(offsets), items),
            "structs": pa.StructArray.from_arrays(
                [pa.array(np.arange(ROWS)), pa.array(numbers.random(ROWS).astype(np.float32))],
                ["a", "b"],
            ),
        }
    )


@pytest.fixture(scope="module")
def data(table: pa.Table) -> bytes:
    return write_paged(table, table.to_batches(max_chunksize=100_000))


def test_columns_have_pages_of_their_own(table: pa.Table, data: bytes) -> None:
    reader = open_paged(data)
    pages = [len(column.bounds) - 1 for column in reader.columns(range(8))]
    #         bits numbers texts lists+items struct+members
    assert pages == [1, 2, 4, 2, 3, 1, 2, 1]
    assert read_all(data).equals(table)


def test_the_members_of_structs_are_cut_apart(data: bytes) -> None:
    reader = open_paged(data)
    field = reader.schema.field("structs")
    fields = field_reader(field, [FilePart(reader, reader.field_columns())], reader.num_rows)
    assert len(list(fields.segments(RowRanges.of((0, ROWS))))) == 2


def test_rows_are_read_alone(table: pa.Table, data: bytes) -> None:
    source = MemorySource(data)
    reader = open_file(source)
    assert isinstance(reader, PagedFileReader)
    wanted = np.array([0, 5, 6, 7, 499_999, 700_000, ROWS - 1])
    read_paged(reader, RowRanges.of((0, 1)))  # metadata
    source.requests.clear()
    found = read_paged(reader, RowRanges.of_rows(wanted))
    assert found.equals(table.take(wanted))
    sizes = [size for request in source.requests for _, size in request]
    assert sum(sizes) < 100 * len(wanted)


def test_neighbours_across_pages(table: pa.Table, data: bytes) -> None:
    reader = open_paged(data)
    for column in reader.columns(range(8)):
        for border in column.bounds[1:-1]:
            if border < ROWS - 9:
                around = RowRanges.of((int(border) - 9, int(border) + 9))
                assert read_paged(reader, around).equals(table.slice(int(border) - 9, 18))


def test_a_footer_may_say_2_0() -> None:
    data = write_paged(pa.table({"x": [1, 2]}))
    other = data[:-8] + struct.pack("<HH", 2, 0) + data[-4:]
    assert read_all(other)["x"].to_pylist() == [1, 2]


def test_files_without_rows() -> None:
    table = pa.table({"x": pa.array([], pa.int8()), "s": pa.array([], pa.struct([("y", "int8")]))})
    reader = open_paged(write_paged(table))
    assert reader.num_rows == 0
    assert [column.num_items for column in reader.columns(range(3))] == [0, 0, 0]


# Files of version 2.0 hold none of these (S0.5 among them).
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (pa.map_(pa.string(), pa.int8()), "since version 2.2"),
        (pa.list_(pa.struct([("a", pa.int8())]), 2), "since version 2.2"),
        (pa.list_(pa.string(), 2), "use a list"),
        (pa.dictionary(pa.int8(), pa.list_(pa.int8())), "dictionaries of nested values"),
        (pa.struct([]), "give the struct a member"),
        (pa.month_day_nano_interval(), "another type"),
    ],
)
def test_types_that_are_refused(kind: pa.DataType, says: str) -> None:
    field = Field("x", FieldId(0), "struct" if pa.types.is_struct(kind) else "", True)
    field.__dict__["arrow_type"] = kind
    with pytest.raises(UnsupportedTypeError, match=says):
        require_storable(Schema((field,)), FileVersion.V2_0, has_sidecars=False)


def test_null_structs_are_refused() -> None:
    table = pa.table({"s": pa.array([{"x": {"y": 1}}, {"x": None}])})
    with pytest.raises(InvalidInputError, match=r"'s\.x'.*version 2\.1 or newer"):
        write_paged(table)


def test_null_structs_below_null_lists_do_not_count() -> None:
    kind = pa.list_(pa.struct([("x", pa.int8())]))
    items = pa.array([{"x": 1}, None], kind.value_type)
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), items, mask=pa.array([False, True])
    )
    table = pa.table({"l": lists})
    assert read_all(write_paged(table))["l"].to_pylist() == [[{"x": 1}], None]


def bytes_page(*values: int) -> HandPage:
    return HandPage(len(values), Nullable(Flat(8, Buffer(0))), [bytes(values)])


def test_columns_that_contradict_the_rows() -> None:
    schema = pa.schema([("s", pa.struct([("x", pa.int8())]))])
    for header, member in ((3, 2), (2, 3)):
        pages = [[HandPage(header, Struct())], [bytes_page(*range(member))]]
        with pytest.raises(CorruptFileError, match="expected 2, found 3"):
            read_all(file_of(schema, pages, 2))


def test_a_description_elsewhere_is_refused() -> None:
    data = write_paged(pa.table({"x": [1]}))
    # The number of the field turns `direct` into `indirect`.
    damaged = data.replace(b"\x0a\x29\x12\x27", b"\x0a\x29\x0a\x27")
    with pytest.raises((UnsupportedFormatError, CorruptFileError)):
        read_all(damaged)


def test_every_beginning_of_a_file_is_refused() -> None:
    data = write_paged(pa.table({"x": ["a", None], "l": [[1], []]}))
    for size in range(len(data)):
        with pytest.raises(PilumError):
            read_all(data[:size])


@pytest.mark.seeds(1)
def test_random_damage(seed: int) -> None:
    """Ends in values or one clear error, soon, and in little memory."""
    paths = [str(ROOT), str(ROOT / "tests")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "container.paged_damage", str(seed), str(FILES)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    found: Any = json.loads(done.stdout.splitlines()[-1])
    assert found["bad"] == {}
    assert {"values", "CorruptFileError"} <= set(found["ends"])


def test_versions_do_not_mix_in_a_column() -> None:
    table = pa.table({"s": [{"x": 1, "y": 2}]})
    old, new = open_paged(write_paged(table)), open_file(MemorySource(write_table(table)[0]))
    parts = [FilePart(old, {FieldId(0): 0, FieldId(1): 1}), FilePart(new, {FieldId(2): 1})]
    with pytest.raises(UnsupportedFormatError, match="versions"):
        field_reader(old.schema.fields[0], parts, 1)


def test_members_of_a_struct_may_be_in_several_files() -> None:
    whole = Schema.from_arrow(pa.table({"s": [{"x": 1, "y": 2}]}).schema)
    files = [open_paged(write_paged(pa.table({"s": [{"n": n}]}))) for n in (1, 2)]
    parts = [
        FilePart(files[0], {FieldId(0): 0, FieldId(1): 1}),
        FilePart(files[1], {FieldId(2): 1}),
    ]
    fields = field_reader(whole.fields[0], parts, 1)
    (segment,) = fields.segments(RowRanges.of((0, 1)))
    assert segment.read().to_pylist() == [{"x": 1, "y": 2}]


def test_items_of_lists_in_several_files_are_refused() -> None:
    whole = Schema.from_arrow(pa.table({"l": [[{"x": 1, "y": 2}]]}).schema)
    files = [open_paged(write_paged(pa.table({"l": [[{"n": n}]]}))) for n in (1, 2)]
    parts = [
        FilePart(files[0], {FieldId(0): 0, FieldId(1): 1, FieldId(2): 2}),
        FilePart(files[1], {FieldId(3): 2}),
    ]
    with pytest.raises(UnsupportedFormatError, match="spread over"):
        field_reader(whole.fields[0], parts, 1)
