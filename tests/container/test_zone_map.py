"""Zone maps of columns: what they say, their size, and damage."""

from __future__ import annotations

import math
import struct
import zlib
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from container.files import MemorySource, write_table
from hypothesis import given, settings
from hypothesis import strategies as st

from pilum.container.open import field_reader, open_file
from pilum.container.reader import FileReader
from pilum.container.segments import FilePart
from pilum.container.writer import FileOptions
from pilum.container.zone_map import parse_zones
from pilum.encodings.base import StoredPage
from pilum.encodings.options import EncodingOptions
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.expressions.compare import ordinals
from pilum.expressions.prune import Zones

ROWS = 8192
ZONED = FileOptions(encoding=EncodingOptions(zones=True))
NEGATIVE_NAN = struct.unpack("<d", bytes.fromhex("000000000000f8ff"))[0]
FLOATS = [NEGATIVE_NAN, -math.inf, -1.5, -0.0, 0.0, 7.0, math.inf, math.nan]
LONG = "x" * 62
TEXTS = [
    "",
    "a",
    "b\0",
    "b",
    LONG,
    f"{LONG}éa",
    f"{LONG}\ud7ff\u10ffff",
    "\U0010ffff" * 20,
    "\U0010ffff",
]
VALUES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, -1, 0, 5, 127],
    pa.uint16(): [0, 1, 2**16 - 1],
    pa.int64(): [-(2**63), -1, 0, 2**63 - 1],
    pa.uint64(): [0, 2**63, 2**64 - 1],
    pa.float16(): FLOATS,
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.bool_(): [False, True],
    pa.decimal128(38, 2): [Decimal(one) for one in ("-9e35", "-0.01", "0", "9.99", "9e35")],
    pa.date32(): [-1, 0, 20_000],
    pa.date64(): [-86_400_000, 0],
    pa.timestamp("us", "UTC"): [-1, 0, 2**40],
    pa.time64("ns"): [0, 1],
    pa.duration("s"): [-5, 5],
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): [b"", b"\xff" * 64, b"\xff" * 65, b"\xfe" + b"\xff" * 70, b"a" * 70, b"\0"],
}


def column_of(zones: list[list[Any]], kind: pa.DataType) -> pa.Array:
    """A column whose zones repeat some values."""
    parts = []
    for values in zones:
        repeated = pa.array(values, kind).take(pa.array(np.arange(ROWS) % len(values)))
        parts.append(repeated)
    return pa.concat_arrays(parts).slice(0, ROWS * (len(zones) - 1) + len(zones[-1]))


def written(
    column: pa.Array,
    cuts: int = 5000,
    page_bytes: int | None = 100_000,
    zones: bool | None = True,
) -> bytes:
    """A file with the column, and another one that is large enough for its zone map."""
    noise = pa.array(np.random.default_rng(1).random(4 * len(column)))
    table = pa.table({"c": column, "noise": pa.FixedSizeListArray.from_arrays(noise, 4)})
    layout = FileOptions(max_page_bytes=page_bytes, encoding=EncodingOptions(zones=zones))
    data, _ = write_table(table, table.to_batches(max_chunksize=cuts), options=layout)
    return data


def zones_in(data: bytes) -> Zones | None:
    reader = open_file(MemorySource(data))
    part = FilePart(reader, reader.field_columns())
    return field_reader(reader.schema.fields[0], [part], reader.num_rows).zones(())


def ordered(values: pa.Array) -> pa.Array:
    """Values that Arrow compares as filters do."""
    if pa.types.is_floating(values.type):
        is_number = pc.invert(pc.is_nan(values))
        return ordinals(values.filter(is_number, null_selection_behavior="emit_null"))
    return values.view(pa.int64()) if pa.types.is_duration(values.type) else values


@st.composite
def columns(draw: st.DrawFn) -> pa.Array:
    kind = draw(st.sampled_from(list(VALUES)))
    values = st.lists(st.none() | st.sampled_from(VALUES[kind]), min_size=1, max_size=4)
    return column_of(draw(st.lists(values, min_size=2, max_size=4)), kind)


@settings(max_examples=30)
@given(column=columns(), cuts=st.sampled_from([3000, ROWS, 20_000]))
def test_bounds_and_counts(column: pa.Array, cuts: int) -> None:
    zones = zones_in(written(column, cuts))
    assert zones is not None
    assert zones.row_bounds.tolist() == [*range(0, len(column), ROWS), len(column)]
    for number, start in enumerate(range(0, len(column), ROWS)):
        rows = column.slice(start, ROWS)
        values = rows.drop_null()
        assert zones.may_be_null[number] == (rows.null_count > 0)
        assert zones.may_have_value[number] == (len(values) > 0)
        if pa.types.is_floating(column.type):
            assert zones.may_be_nan is not None
            assert zones.may_be_nan[number] == pc.any(pc.is_nan(values), min_count=0).as_py()
        own, least, most = (
            ordered(one)
            for one in (values, zones.least.slice(number, 1), zones.most.slice(number, 1))
        )
        if not len(own):
            assert least.null_count == most.null_count == 1
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            check_bytes(own, least[0].as_py(), most[0].as_py(), "\U0010ffff")
        elif pa.types.is_binary(column.type):
            check_bytes(own, least[0].as_py(), most[0].as_py(), b"\xff")
        else:
            ends = pc.min_max(own)
            assert [least[0], most[0]] == [ends["min"], ends["max"]]


def check_bytes(values: pa.Array, least: Any, most: Any, last: Any) -> None:
    """Short values are their own bounds; a long one has no upper bound if it is the last of all."""
    found = sorted(values.cast(pa.large_binary()).to_pylist())
    low, high = (end.encode() if isinstance(end, str) else end for end in (least, most))
    assert low == found[0] if len(found[0]) <= 64 else found[0].startswith(low)
    if high is None:
        assert found[-1].startswith(last.encode() * 16 if isinstance(last, str) else last * 64)
    else:
        assert high == found[-1] if len(found[-1]) <= 64 else high > found[-1]
        assert len(high) <= 64


def test_text_that_is_not_utf_8_has_no_bounds() -> None:
    """Arrow lets a program make such text."""
    broken = pa.array([b"\xffa", b"b"]).cast(pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, broken.buffers())
    column = texts.take(pa.array(np.arange(ROWS + 1) % 2))
    zones = zones_in(written(column))
    assert zones is not None
    assert (zones.least.to_pylist(), zones.most.to_pylist()) == (["b", None], [None, None])


def test_texts_in_no_order_have_no_bounds() -> None:
    """Their nulls are counted; a zone with a single value is found."""
    draw = np.random.default_rng(3)
    texts = draw.choice(["a", "b", "c"], 20 * ROWS)
    mask = np.arange(len(texts)) == 5
    zones = zones_in(written(pa.array(texts, mask=mask), 20 * ROWS, None))
    assert zones is not None
    assert zones.least.null_count > 10
    assert zones.may_be_null.tolist() == [True] + [False] * 19
    texts[: 3 * ROWS] = "a"
    zones = zones_in(written(pa.array(texts), 20 * ROWS, None))
    assert zones is not None
    assert zones.most.to_pylist() == ["a"] * 3 + ["c"] * 17


@settings(max_examples=30)
@given(column=columns())
def test_maps_are_left_out_where_all_zones_overlap(column: pa.Array) -> None:
    """Unless they are requested; a zone that might be skipped is never without a map."""
    data = written(column, len(column), None, zones=None)
    if zones_in(data) is None:
        zones = zones_in(written(column, len(column), None))
        assert zones is not None
        both = (ordered(ends).to_pylist()[:-1] for ends in (zones.least, zones.most))
        ends = zip(*both, strict=True)
        pairs = [(least, most) for least, most in ends if least is not None]
        assert all(least < most for least, most in pairs)
        assert max(least for least, _ in pairs) <= min(most for _, most in pairs)


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.bool_(), pa.string(), pa.date32()])
def test_maps_are_written_by_default_where_values_are_in_some_order(kind: pa.DataType) -> None:
    random = np.random.default_rng(3)
    mixed = pa.array(random.integers(0, 2, 20 * ROWS).astype(np.int32))
    rare = pa.array((np.arange(20 * ROWS) == 7).astype(np.int32))
    rising = pa.array((np.arange(20 * ROWS) // (10 * ROWS)).astype(np.int32))
    columns = [column.cast(kind) for column in (mixed, rare, rising)]
    files = [written(column, len(column), None, zones=None) for column in columns]
    assert [zones_in(data) is not None for data in files] == [False, True, True]


def test_what_has_no_zones() -> None:
    """Small files, lists, structs, dictionaries, files of which the map would be a large part."""
    numbers = pa.array(np.arange(ROWS + 1))
    assert zones_in(written(numbers)) is not None
    assert zones_in(written(numbers.slice(1))) is None
    assert zones_in(written(numbers, zones=False)) is None
    same = pa.table({"c": pa.array(np.zeros(100_000, np.int64))})
    data, _ = write_table(same, same.to_batches(), options=ZONED)
    assert zones_in(data) is None
    lists = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(2 * (ROWS + 1))), 2)
    for column in (lists, numbers.cast(pa.string()).dictionary_encode()):
        assert zones_in(written(column)) is None
    struct_column = pa.StructArray.from_arrays([numbers], ["x"])
    assert zones_in(written(struct_column)) is None
    with pytest.raises(InvalidInputError, match="zones: expected a bool"):
        EncodingOptions(zones="yes")  # type: ignore[arg-type]


def test_zones_are_larger_where_the_file_is_small() -> None:
    """All maps together take no more than 1/256 of the pages."""
    packed = pa.table({"c": pa.array(np.arange(40 * ROWS, dtype=np.int64) % 8)})
    data, _ = write_table(packed, packed.to_batches(), options=ZONED)
    zones = zones_in(data)
    assert zones is not None
    assert np.diff(zones.row_bounds).tolist() == [2 * ROWS] * 20
    [buffers] = [
        column._known.buffers for column in FileReader.open(MemorySource(data)).columns([0])
    ]
    assert buffers[0][1] <= len(data) / 256


def a_map(kind: pa.DataType) -> tuple[bytes, list[StoredPage]]:
    """The map of a file, and the pages that it belongs to."""
    values: list[list[Any]] = [[1, None, 3], [-5]]
    if kind == pa.string():
        values = [["b", None], ["a"]]
    data = written(column_of(values, kind))
    [column] = FileReader.open(MemorySource(data)).columns([0])
    [(position, size)] = column._known.buffers
    return data[position : position + size], [stored for stored, _ in column.entries]


def resealed(data: bytes) -> bytes:
    """A map with a valid checksum."""
    return data[:12] + struct.pack("<I", zlib.crc32(data[16:])) + data[16:]


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()])
def test_every_flip_and_every_cut(kind: pa.DataType) -> None:
    """A damaged map is an error, or none; only bytes without meaning make no difference."""
    data, pages = a_map(kind)
    parsed = parse_zones(data, kind, ROWS + 1, pages)
    assert parsed is not None
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        if place < 10:
            assert parse_zones(bytes(flipped), kind, ROWS + 1, pages) is None
        elif place >= 12:
            with pytest.raises(CorruptFileError, match="checksum"):
                parse_zones(bytes(flipped), kind, ROWS + 1, pages)
    for size in range(len(data)):
        try:
            assert parse_zones(data[:size], kind, ROWS + 1, pages) is None
        except CorruptFileError:
            assert size >= 32


@pytest.mark.parametrize(
    ("kind", "place", "value", "message"),
    [
        (pa.int64(), 16, struct.pack("<I", 0), "zones of 0 rows"),
        (pa.int64(), 16, struct.pack("<I", 3 * ROWS), "zones of 24576 rows"),
        (pa.int64(), 16, struct.pack("<I", 4096), "zones of 4096 rows"),
        (pa.int64(), 16, struct.pack("<I", 2 * ROWS), "bytes after its end"),
        (pa.int64(), 32, struct.pack("<I", ROWS + 1), "more nulls than rows"),
        (pa.string(), 40, b"\x41", "too long"),
        (pa.string(), 40, b"\x40", "ends too early"),
        (pa.string(), 44, b"\xff", "zone map"),
        (pa.string(), 36, struct.pack("<I", 1), "a bound of nulls"),
    ],
)
def test_hostile_maps(kind: pa.DataType, place: int, value: bytes, message: str) -> None:
    """Maps with a valid checksum, and values that no writer has."""
    data, pages = a_map(kind)
    changed = resealed(data[:place] + value + data[place + len(value) :])
    with pytest.raises(CorruptFileError, match=message):
        parse_zones(changed, kind, ROWS + 1, pages)


def test_maps_of_other_columns() -> None:
    """Maps of other rows, types, pages and versions are ignored, as is any other buffer."""
    data, pages = a_map(pa.int64())
    others = [StoredPage(0, ROWS + 1, ((0, 100),))]
    newer = resealed(data[:8] + b"\2\0" + data[10:])
    for buffer, kind, num_rows, own in (
        (data, pa.int64(), ROWS + 2, pages),
        (data, pa.uint64(), ROWS + 1, pages),
        (data, pa.float64(), ROWS + 1, pages),
        (data, pa.string(), ROWS + 1, pages),
        (data, pa.int64(), ROWS + 1, others),
        (newer, pa.int64(), ROWS + 1, pages),
        (b"LANCEZON" + data[8:], pa.int64(), ROWS + 1, pages),
        (b"", pa.int64(), ROWS + 1, pages),
    ):
        assert parse_zones(buffer, kind, num_rows, own) is None
    assert parse_zones(data, pa.timestamp("s"), ROWS + 1, pages) is not None
