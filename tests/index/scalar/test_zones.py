"""Indices of zones: the files that pylance writes for the same rows, and no row left out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.indices import IndexConfig

from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.format.version import FileVersion
from pilum.index.base import REFERENCE, VALUE, IndexRows, Part, Span
from pilum.index.files import IndexFolder, IndexFolderWriter
from pilum.index.queries import Between, HasAny, IsIn, IsNull, Query, StartsWith
from pilum.index.scalar.bloom_filter import BLOOM_FILTER
from pilum.index.scalar.zone_map import ZONE_MAP
from pilum.index.scalar.zones import ZoneIndex, ZoneIndexType, cut_zones
from pilum.storage.local import LocalStore

_TYPES: Sequence[ZoneIndexType[Any]] = (ZONE_MAP, BLOOM_FILTER)
_FRAGMENT = 1 << 32
_NAN = math.nan
_FLOATS = [None, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, _NAN, math.copysign(_NAN, -1)]


def _rows(values: pa.Array, addresses: Sequence[int], batch_rows: int = 4) -> IndexRows:
    table = pa.table({VALUE: values, REFERENCE: pa.array(addresses, pa.uint64())})
    return IndexRows(values.type, iter(table.to_batches(batch_rows)), len(values))


def _trained(
    root: Path, kind: ZoneIndexType[Any], rows: IndexRows, given: dict[str, Any], name: str = "x"
) -> ZoneIndex:
    folder = IndexFolderWriter(LocalStore(str(root)), name, FileVersion.V2_1)
    details = kind.train(rows, kind.parameters(given, rows.type), folder)
    index: ZoneIndex = kind.open(folder.written(), details, 0)
    return index


@given(
    sizes=st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9), st.booleans()), max_size=4),
    zone_rows=st.integers(1, 7),
)
def test_adjacent_rows_are_cut_as_rows_with_addresses(
    sizes: list[tuple[int, int, bool]], zone_rows: int
) -> None:
    """Fragments of some rows, in batches of some rows, with or without all addresses."""
    values = [pa.array([None if row % 4 else row for row in range(size)]) for size, *_ in sizes]
    spans: list[Span] = []
    plain: list[Span] = []
    for number, (own, (_, step, is_adjacent)) in enumerate(zip(values, sizes, strict=True)):
        for start in range(0, len(own), step):
            first = number * _FRAGMENT + start
            addresses = np.arange(first, first + len(own[start : start + step]), dtype=np.uint64)
            plain.append((own[start : start + step], addresses))
            spans.append((own[start : start + step], first if is_adjacent else addresses))

    def cut(given: list[Span]) -> list[Any]:
        rows = IndexRows(pa.int64(), iter(()), 0, spans=iter(given))
        return [
            (*zone, values)
            for one in cut_zones(rows, zone_rows)
            for zone, values in zip(
                zip(*(column.to_pylist() for column in one.zones.columns()), strict=True),
                [one.values[slice(*ends)].to_pylist() for ends in pairwise(one.bounds.tolist())],
                strict=True,
            )
        ]

    def nulls(given: list[Span]) -> list[int]:
        rows = IndexRows(pa.int64(), iter(()), 0, spans=iter(given))
        return [row for one in cut_zones(rows, zone_rows) for row in one.null_addresses.tolist()]

    assert cut(spans) == cut(plain)
    assert nulls(spans) == nulls(plain)


_COLUMNS: dict[str, pa.Array] = {
    "int": pa.array([None if row % 7 == 0 else row for row in range(30)], pa.int32()),
    "float": pa.array([_FLOATS[row % 9] for row in range(30)]),
    "nan": pa.array([None] * 3 + [_NAN] * 12 + [1.0] * 15),
    "text": pa.array([None if row == 5 else f"{row % 11} é" for row in range(30)]),
    "bytes": pa.array([b"", b"\xff", b"\0"] * 10),
    "time": pa.array(range(30), pa.timestamp("us", "UTC")),
    "date": pa.array(range(30), pa.date32()),
    "small": pa.array(range(30), pa.uint8()),
}
_ONLYZONE_MAPS: dict[str, pa.Array] = {
    "bool": pa.array([row % 3 == 0 for row in range(30)]),
    "half": pa.array(np.arange(30, dtype=np.float16)),
    "decimal": pa.array(range(30), pa.decimal128(10, 2)),
    "duration": pa.array(range(30), pa.duration("us")),
    "fixed": pa.array([b"%04d" % row for row in range(30)], pa.binary(4)),
}


@pytest.mark.parametrize(
    ("kind", "given", "columns"),
    [
        (ZONE_MAP, {"rows_per_zone": 5}, _COLUMNS | _ONLYZONE_MAPS),
        (BLOOM_FILTER, {"number_of_items": 5, "probability": 0.01}, _COLUMNS),
    ],
    ids=["zone map", "bloom filter"],
)
def test_files_of_the_reference(
    tmp_path: Path,
    kind: ZoneIndexType[Any],
    given: dict[str, Any],
    columns: dict[str, pa.Array],
) -> None:
    """The file has the columns, values and metadata that pylance writes, with deleted rows."""
    table = pa.table(columns)
    dataset = lance.write_dataset(table, tmp_path / "table", max_rows_per_file=13)
    dataset.delete("small in (3, 4)")
    addresses = [row // 13 * _FRAGMENT + row % 13 for row in range(30) if row not in (3, 4)]
    for name, values in columns.items():
        dataset.create_scalar_index(name, IndexConfig(kind.name.lower(), given), name=name)
        [uuid] = [one["uuid"] for one in dataset.list_indices() if one["name"] == name]
        store = LocalStore(str(tmp_path / "table"))
        expected = IndexFolder(store, f"_indices/{uuid}").open(kind.file_name)
        kept = pa.concat_arrays([values[:3], values[5:]])
        index = _trained(tmp_path, kind, _rows(kept, addresses), given, name)
        found = index.file
        assert found.schema.equals(expected.schema), name
        # The reference omits the ends of zones of fixed binary, which is less, but not wrong.
        columns_compared = None if name != "fixed" else found.schema.names[2:]
        assert _shown(found.read(columns_compared)) == _shown(expected.read(columns_compared)), name
        assert {**found.metadata} == {**expected.metadata}, name
        assert found.global_buffer(1) == expected.global_buffer(1), name


def _shown(table: pa.Table) -> list[str]:
    """Return rows as text, in which a NaN equals a NaN and zeros differ."""
    return [repr(row) for row in table.to_pylist()]


_INTEGERS = st.lists(st.none() | st.integers(-5, 5), max_size=40).map(
    lambda values: pa.array(values, pa.int16())
)
_REALS = st.lists(st.sampled_from(_FLOATS), max_size=40).map(
    lambda values: pa.array(values, pa.float32())
)
_TEXTS = st.lists(st.none() | st.text("aé\U0010ffff", max_size=3), max_size=40).map(
    lambda values: pa.array(values, pa.string())
)


@given(st.data(), _INTEGERS | _REALS | _TEXTS, st.integers(1, 6))
def test_no_match_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, values: pa.Array, size: int
) -> None:
    """Every row that matches a query is in the answer, also after a merge of two segments."""
    root = tmp_path_factory.mktemp("zones")
    addresses = [row % 20 + row // 20 * _FRAGMENT for row in range(len(values))]
    query = data.draw(_queries(values.type))
    matches = {
        address for address, value in zip(addresses, values, strict=True) if _is_match(value, query)
    }
    kinds = zip(_TYPES, ("rows_per_zone", "number_of_items"), strict=True)
    for kind, name in kinds:
        cut = data.draw(st.integers(0, len(values)))
        whole = _trained(root, kind, _rows(values, addresses), {name: size}, f"{kind.name} whole")
        first = _trained(
            root, kind, _rows(values[:cut], addresses[:cut]), {name: size}, f"{kind.name} first"
        )
        folder = IndexFolderWriter(LocalStore(str(root)), f"{kind.name} both", FileVersion.V2_0)
        details = kind.merge([Part(first)], _rows(values[cut:], addresses[cut:]), folder)
        merged = kind.open(folder.written(), details, 0)
        for index in (whole, merged):
            answer = index.search(query)
            if answer is None:
                assert index.estimate(query) is None
                continue
            found = set(answer.rows.within(np.array(addresses, np.uint64)).tolist())
            assert matches <= found
            if answer.is_exact:
                assert isinstance(query, IsNull)
                assert matches == found
            estimate = index.estimate(query)
            assert estimate is not None
            assert estimate >= len(found)


def _queries(type: pa.DataType) -> st.SearchStrategy[Query]:
    if pa.types.is_string(type):
        scalars = st.text("aé\U0010ffff", max_size=3).map(lambda value: pa.scalar(value, type))
    elif pa.types.is_integer(type):
        scalars = st.integers(-6, 6).map(lambda value: pa.scalar(value, type))
    else:
        scalars = st.sampled_from(_FLOATS[1:]).map(lambda value: pa.scalar(value, type))
    many = st.lists(scalars, min_size=1, max_size=90).map(
        lambda found: IsIn(pa.array([one.as_py() for one in found], type))
    )
    ranges = st.builds(Between, st.none() | scalars, st.none() | scalars)
    queries = st.just(IsNull()) | many | ranges
    if pa.types.is_string(type):
        prefixes = st.text("aé\U0010ffff", min_size=1, max_size=2)
        return queries | st.builds(StartsWith, prefixes)
    return queries


def _is_match(value: pa.Scalar, query: Query) -> bool:
    if isinstance(query, IsNull):
        return not value.is_valid
    if not value.is_valid:
        return False
    if isinstance(query, StartsWith):
        return bool(value.as_py().startswith(query.prefix))
    own = _rank(value)
    if isinstance(query, IsIn):
        return own in {_rank(one) for one in query.values}
    assert isinstance(query, Between)
    above = query.low is None or _rank(query.low) <= own
    return bool(above and (query.high is None or own <= _rank(query.high)))


def _rank(value: pa.Scalar) -> Any:
    """Return a key in the order of the index: IEEE 754's total order, or the order of bytes."""
    if pa.types.is_floating(value.type):
        bits = int(np.float32(value.as_py()).view(np.int32))
        return bits if bits >= 0 else bits ^ 0x7FFFFFFF
    found = value.as_py()
    return found.encode() if isinstance(found, str) else found


def test_zones_of_lost_fragments_are_left_out(tmp_path: Path) -> None:
    """A merge copies the zones of fragments that still exist, and their null rows."""
    values = pa.array([1, None, 3, None], pa.int64())
    addresses = [0, 1, _FRAGMENT, _FRAGMENT + 1]
    for kind in _TYPES:
        index = _trained(tmp_path, kind, _rows(values, addresses), {}, kind.name)
        folder = IndexFolderWriter(LocalStore(str(tmp_path)), f"{kind.name} 2", FileVersion.V2_1)
        details = kind.merge([Part(index, lambda rows: (rows, rows >= _FRAGMENT))], None, folder)
        merged = kind.open(folder.written(), details, 0)
        answer = merged.search(IsNull())
        assert answer is not None
        assert answer.rows.listed.tolist() == [_FRAGMENT + 1]
        assert merged.zones.fragment_ids.tolist() == [1]


def test_figures(tmp_path: Path) -> None:
    """The figures have the names of the reference; other queries are not answered."""
    rows = [_rows(pa.array(range(10)), range(10)) for _ in _TYPES]
    zone_map = _trained(tmp_path, ZONE_MAP, rows[0], {"rows_per_zone": 4}, "zones")
    bloom = _trained(tmp_path, BLOOM_FILTER, rows[1], {"number_of_items": 3}, "bloom")
    assert zone_map.statistics() == {"num_zones": 3, "rows_per_zone": 4}
    assert bloom.statistics() == {
        "type": "BloomFilter",
        "num_blocks": 4,
        "number_of_items": 3,
        "probability": 0.00057,
    }
    assert bloom.search(Between(pa.scalar(1))) is None
    assert zone_map.search(HasAny(pa.array([1]))) is None


def test_bad_input() -> None:
    """Unknown parameters, impossible values and types are named."""
    for kind in _TYPES:
        with pytest.raises(InvalidInputError, match="batch_size"):
            kind.parameters({"batch_size": 1}, pa.int64())
        with pytest.raises(UnsupportedTypeError, match="column points"):
            kind.require_supported("points", pa.list_(pa.int64()))
    with pytest.raises(InvalidInputError, match="rows_per_zone"):
        ZONE_MAP.parameters({"rows_per_zone": 0}, pa.int64())
    with pytest.raises(InvalidInputError, match="probability"):
        BLOOM_FILTER.parameters({"probability": 1.0}, pa.int64())
    with pytest.raises(UnsupportedTypeError, match="column flag"):
        BLOOM_FILTER.require_supported("flag", pa.bool_())


@pytest.mark.parametrize("kind", _TYPES, ids=["zone map", "bloom filter"])
def test_damaged_columns(tmp_path: Path, kind: ZoneIndexType[Any]) -> None:
    """Missing, null and absurd columns, and metadata that are no numbers, are errors."""
    index = _trained(tmp_path, kind, _rows(pa.array([1, 2, None]), range(3)), {})
    rows, metadata = index.file.read(), dict(index.file.metadata)
    damages: list[tuple[pa.Table, dict[str, str]]] = [
        (rows.drop_columns([name]), metadata) for name in rows.column_names
    ]
    damages += [
        (rows.set_column(place, name, pa.array([2**63], pa.uint64())), metadata)
        for place, name in enumerate(rows.column_names)
        if name in {"fragment_id", "zone_start", "zone_length"}
    ]
    damages += [
        (rows, {**metadata, name: text}) for name in metadata for text in ("", "-1", "9", "x")
    ]
    for number, (damaged, entries) in enumerate(damages):
        folder = IndexFolderWriter(LocalStore(str(tmp_path)), f"damaged {number}", FileVersion.V2_1)
        folder.write(kind.file_name, damaged, entries)
        with suppress(CorruptFileError):
            opened = kind.open(folder.written(), b"", 0)
            opened.prewarm()
            answer = opened.search(IsIn(pa.array([1])))
            assert answer is None or 0 in answer.rows.within(np.arange(3, dtype=np.uint64))
