"""Filters with zone maps: the same rows as without them, fewer of them read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pilum
from pilum.container import zone_writer
from pilum.container.zone_map import pack_zones
from pilum.container.zone_summary import ZoneSummary
from pilum.encodings.options import EncodingOptions
from pilum.errors import CorruptFileError
from pilum.expressions import bind
from pilum.table.read import matching
from pilum.table.read.matching import runs_to_read

ROWS, ZONE = 60_000, 8192


def rows() -> pa.Table:
    """Columns that rise, with nulls, NaN, both zeros, infinities, empty and long texts."""
    draw = np.random.default_rng(5)
    number = np.arange(ROWS)
    floats = number / 1000 - 20.0
    floats[(number % 997 == 0) & (number > 30_000)] = np.nan
    floats[20_000:28_672] = draw.choice([-0.0, 0.0], 8672)
    floats[-3:] = [np.inf, -np.inf, np.nan]
    prefix = "https://example.org/a/long/path/that/every/value/has/" + "é" * 10
    texts = np.array([f"{prefix}{n // 3000:04}" for n in number], object)
    texts[:3000] = ""
    return pa.table(
        {
            "i": pa.array(number, pa.int32()),
            "n": pa.array(number // 100, pa.int64(), mask=(number % 7 == 0) & (number < 30_000)),
            "f": floats,
            "s": pa.array(texts, pa.string(), mask=number > 55_000),
            "d": pa.array(number - 30_000).cast(pa.decimal128(21, 2)),
            "t": pa.array(number // 5000, pa.int32()).cast(pa.date32()),
            "b": pa.array(number > 30_000),
            "r": draw.integers(0, 1 << 60, ROWS),
            "k": pa.array(np.arange(ROWS)),
        }
    )


TABLE = rows()
LAST_TEXT = TABLE["s"][50_000].as_py()
CONDITIONS = [
    *(
        f"i {sign} {value}"
        for sign in ("<", "=", ">=")
        for value in (0, 8191, 8192, 40_000, 60_000)
    ),
    *(
        "i BETWEEN 9000 AND 9010",
        "i IN (5, 59999)",
        "n IS NULL",
        "n IS NOT NULL",
        "n <> 3",
        "n < 50",
    ),
    *(
        "f < -10",
        "f = 0",
        "f >= 0",
        "f > 30",
        "f <> 0",
        "f IS NULL",
        "NOT f < 5",
        "f < CAST('-inf' AS double)",
    ),
    *(
        "f = CAST('nan' AS double)",
        "f >= CAST('inf' AS double)",
        "d < 0",
        "d >= -5.5 AND d < 10",
        "d = 7",
    ),
    *(
        "s = ''",
        "s > ''",
        f"s = '{LAST_TEXT}'",
        f"s < '{LAST_TEXT}'",
        f"s LIKE '{LAST_TEXT[:70]}%'",
    ),
    *("s IS NULL", "s LIKE 'https://%'", "NOT s LIKE 'https://%'", "t = DATE '1970-01-03'"),
    *(
        "t > DATE '1970-01-09'",
        "b",
        "NOT b",
        "b IS TRUE",
        "r > 0",
        "r < 1000000",
        "true",
        "i = NULL",
    ),
]


@pytest.fixture(scope="module", params=["2.1", "2.2"])
def tables(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The rows with and without zones, in two fragments, some of them deleted."""
    found = []
    for has_zones in (True, False):
        path = tmp_path_factory.mktemp(f"{request.param}-{has_zones}") / "t"
        table = pilum.write_dataset(
            TABLE,
            path,
            max_rows_per_file=45_000,
            data_storage_version=request.param,
            encoding_options=EncodingOptions(zones=has_zones),
        )
        table.delete("k % 13 = 5 OR k BETWEEN 16384 AND 24575")
        found.append(table)
    return found


def all_zones(table: Any) -> list[Any]:
    snapshot = table.snapshot
    readers = map(snapshot.reader, snapshot.manifest.fragments)
    return [one.field(field).zones(()) for one in readers for field in snapshot.schema.fields]


def test_zones_are_written(tables: Any) -> None:
    zoned, plain = tables
    assert all(zones is not None for zones in all_zones(zoned))
    assert not any(all_zones(plain))


@settings(max_examples=30)
@given(data=st.data())
def test_the_same_rows_match(tables: Any, data: st.DataObject) -> None:
    """With zones, without them, and by Arrow alone."""
    zoned, plain = tables
    condition = st.sampled_from(CONDITIONS)
    parts = data.draw(st.lists(condition, min_size=1, max_size=3))
    text = data.draw(st.sampled_from([" AND ", " OR "])).join(f"({part})" for part in parts)
    text = data.draw(st.sampled_from([text, f"NOT ({text})", f"({text}) IS NOT TRUE"]))
    columns = data.draw(st.sampled_from([["k"], ["k", "i", "n"], ["s", "k"]]))
    limit = data.draw(st.sampled_from([None, 10, 20_000]))
    sure_rows = data.draw(st.sampled_from([ZONE, matching._SURE_ROWS]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_SURE_ROWS", sure_rows)
        found = zoned.to_table(columns=columns, filter=text, limit=limit, offset=limit and 7)
        count = zoned.count_rows(text)
    assert found.equals(
        plain.to_table(columns=columns, filter=text, limit=limit, offset=limit and 7)
    )
    everything = plain.to_table(columns=TABLE.column_names).combine_chunks()
    mask = bind(text, TABLE.schema).mask(everything.to_batches()[0])
    assert count == plain.count_rows(text) == mask.true_count
    wanted = everything.filter(mask).slice((limit and 7) or 0, limit).select(columns)
    assert found.combine_chunks().to_batches() == wanted.combine_chunks().to_batches()


def test_rows_that_are_left_out_or_sure(tables: Any) -> None:
    snapshot = tables[0].snapshot
    first = snapshot.reader(next(iter(snapshot.manifest.fragments)))

    def runs(text: str) -> list[tuple[list[list[int]], bool]]:
        bound = bind(text, snapshot.schema.arrow)
        found = runs_to_read(first, snapshot.described, bound, 0, 45_000)
        return [(rows.bounds.tolist(), left is None) for rows, left in found]

    assert runs("i < 10") == [([[0, ZONE]], False)]
    assert runs("i IN (5, 44999)") == [([[0, ZONE], [5 * ZONE, 45_000]], False)]
    assert runs("i < 0 OR s IS NULL") == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "_SURE_ROWS", 2 * ZONE)
        middle = [([[0, ZONE]], False), ([[ZONE, 4 * ZONE]], True), ([[4 * ZONE, 5 * ZONE]], False)]
        assert runs("i BETWEEN 8000 AND 32999") == middle
        assert runs("k >= 0") == [([[0, 45_000]], True)]


def test_rows_that_are_sure_are_counted_without_reading(
    tables: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that cannot match are not read, also by a delete."""
    monkeypatch.setattr(matching, "_SURE_ROWS", ZONE)

    def read(text: str) -> int:
        found: list[Any] = []
        table = tables[0]
        table.count_rows(text)  # opens the files, and reads zones
        scanner = table.scanner(columns=["_rowid"], filter=text, scan_stats_callback=found.append)
        scanner.to_table()
        return int(found[0].bytes_read)

    assert read("i >= 0") == 0
    assert read("i < 0") == 0
    assert read("k >= 0 AND r % 2 = 1 AND i >= 0") == read("r % 2 = 1") > 0
    assert 0 < read("r % 2 = 1 AND i < 5") < read("r % 2 = 1") / 3


def test_plans_name_the_rows(tables: Any) -> None:
    zoned, plain = tables
    scanner = zoned.scanner(filter="i < 10000")
    assert "ZoneMaps" not in scanner.explain_plan()
    line = "  ZoneMaps: 43616 rows skipped, 0 match, 16384 tested"
    assert line in scanner.explain_plan(verbose=True)
    assert f"  {line}" in scanner.analyze_plan()
    everything = zoned.scanner(filter="i >= 0", fragments=[zoned.get_fragments()[0]])
    assert "ZoneMaps" not in everything.explain_plan(verbose=True)  # few rows are tested anyway
    assert "ZoneMaps" not in plain.scanner(filter="i < 10000").explain_plan(verbose=True)


def test_a_take_after_a_filter(tables: Any) -> None:
    zoned, plain = tables
    ids = zoned.to_table(columns=[], filter="f > 25", with_row_id=True)["_rowid"].to_numpy()
    places = np.arange(len(ids))[::50]
    assert zoned.take_rows(ids[places].tolist(), ["k", "s"]).equals(
        plain.take_rows(ids[places].tolist(), ["k", "s"])
    )


def test_changes_find_their_rows(tables: Any, tmp_path: Path) -> None:
    zoned, _ = tables
    shutil.copytree(zoned.uri, tmp_path / "t")
    table = pilum.dataset(tmp_path / "t")
    assert table.update({"n": "-1"}, where="i = 40001 OR i = 3")["num_rows_updated"] == 2
    assert table.delete("n = -1")["num_deleted_rows"] == 2
    before = table.count_rows("i < 30000")
    table.optimize.compact_files(target_rows_per_fragment=100_000)
    assert all_zones(table)[0] is not None
    assert table.count_rows("i < 30000") == before


def test_a_damaged_map_stops_filters_only(tables: Any, tmp_path: Path) -> None:
    zoned, _ = tables
    shutil.copytree(zoned.uri, tmp_path / "t")
    [file, *_] = sorted((tmp_path / "t" / "data").iterdir(), key=lambda one: -one.stat().st_size)
    data = bytearray(file.read_bytes())
    place = data.index(b"PILZONES") + 40
    data[place] ^= 1
    file.write_bytes(data)
    table = pilum.dataset(tmp_path / "t")
    with pytest.raises(
        CorruptFileError, match=r"zone map: its checksum does not match\n.*column 0"
    ):
        table.to_table(filter="i < 5")
    assert table.to_table(filter="n < 5").num_rows
    assert table.to_table().num_rows == table.count_rows()
    assert "checksum" in str(table.verify(deep=True).faults)
    assert not zoned.verify(deep=True).faults


def nothing(counts: Any) -> Any:
    return np.zeros_like(counts)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {"most": "least"}) for name in "infsdtr"),
        ("b", {"least": "most"}),
        ("f", {"nans": nothing}),
        ("s", {"nulls": nothing}),
    ],
)
def test_a_map_of_other_values_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: dict[str, Any]
) -> None:
    """A map with a valid checksum and wrong bounds or counts; only a deep check can find it."""

    def wrong(summary: ZoneSummary, *others: Any) -> bytes:
        values = {
            key: getattr(summary, change) if isinstance(change, str) else change(summary.nulls)
            for key, change in changes.items()
        }
        return pack_zones(replace(summary, **values), *others)

    monkeypatch.setattr(zone_writer, "pack_zones", wrong)
    rows = TABLE.select([name]).append_column("q", TABLE["r"])
    options = EncodingOptions(zones=True)
    table = pilum.write_dataset(rows, tmp_path / "t", encoding_options=options)
    monkeypatch.undo()
    assert not table.verify().faults
    [fault] = table.verify(deep=True).faults
    assert fault.kind == "damaged"
    assert "zone map: the values of rows" in fault.what
