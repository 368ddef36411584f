"""At the borders of pages (8 MiB) and chunks, and columns whose pages end at different rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same
from interop.strategies import Style, array_of

import pilum

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

PAGE_BYTES = 8 * 1024 * 1024
STYLE = Style(seed=7, nulls=0.1, spread="any", length=40)


def write_with_both(table: pa.Table, folder: Path) -> tuple[Any, Any]:
    """The same table twice, each opened by the library that did not write it."""
    ours, theirs = str(folder / "ours"), str(folder / "theirs")
    pilum.write_dataset(table, ours)
    lance.write_dataset(table, theirs, data_storage_version="2.1")
    return lance.dataset(ours), pilum.dataset(theirs)


@pytest.mark.parametrize("rows_more", [-1, 0, 1])
@pytest.mark.parametrize(
    ("kind", "row_bytes"),
    [
        (pa.int64(), 8),
        (pa.binary(512), 512),
        (pa.list_(pa.float32(), 1024), 4096),
        (pa.decimal256(70, 3), 32),
    ],
    ids=str,
)
@pytest.mark.checklist("S1.1")
def test_a_page_that_is_just_full(
    tmp_path: Path, kind: pa.DataType, row_bytes: int, rows_more: int
) -> None:
    rows = PAGE_BYTES // row_bytes + rows_more
    table = pa.table({"c": array_of(pa.field("c", kind, False), rows, STYLE)})
    borders = [rows - 1, 0, rows - 1, rows - 2, rows // 2]
    for found in (*write_with_both(table, tmp_path), pilum.dataset(tmp_path / "ours")):
        assert_same(found.to_table(), table)
        assert_same(found.take(borders), table.take(borders))
        assert_same(found.to_table(offset=rows - 3, limit=9), table.slice(rows - 3))


@pytest.mark.checklist("S1.2")
def test_siblings_whose_pages_end_at_different_rows(tmp_path: Path) -> None:
    wide = pa.list_(pa.float32(), 48)
    inner = pa.struct([("b", pa.list_(pa.int16())), ("v", wide), ("s", pa.large_string())])
    kinds = {"i": pa.int8(), "st": pa.struct([("x", pa.int64()), ("in", inner)]), "s": pa.string()}
    rows = 150_000
    columns = {name: array_of(pa.field(name, kind), rows, STYLE) for name, kind in kinds.items()}
    table = pa.table(columns)
    wanted = np.random.default_rng(1).integers(0, rows, 3000)
    mask = pa.compute.less(pa.compute.fill_null(table["i"], 100), -90)
    for found in (*write_with_both(table, tmp_path), pilum.dataset(tmp_path / "ours")):
        assert_same(found.to_table(), table)
        assert_same(found.take(wanted), table.take(wanted))
    for path in ("ours", "theirs"):
        dataset = pilum.dataset(tmp_path / path)
        assert_same(dataset.to_table(filter="i < -90"), table.filter(mask))
        member = dataset.to_table(["st.in.v"], offset=70_001, limit=50_000)["st.in.v"]
        expected = pa.compute.struct_field(table["st"], ["in", "v"]).slice(70_001, 50_000)
        name = pa.schema([("v", wide)])
        assert_same(pa.table([member], name), pa.table([expected], name))


@pytest.mark.checklist("S1.1")
def test_lists_of_lists_over_several_pages_and_filters(tmp_path: Path) -> None:
    """Filters of Arrow 26 take wrong items of such columns where pages do not end together."""
    kind = pa.list_(pa.list_(pa.float64(), 8), 2)
    rows = 120_000
    table = pa.table(
        {
            "n": pa.array(np.arange(rows, dtype=np.int32)),
            "f": array_of(pa.field("f", kind), rows, STYLE),
            "g": array_of(pa.field("g", pa.list_(kind)), rows, Style(8, 0.1, "any", 3)),
        }
    )
    _, theirs = write_with_both(table, tmp_path)
    for dataset in (theirs, pilum.dataset(tmp_path / "ours")):
        for condition, every in (("n % 2 = 0", 2), ("n % 50 = 0", 50)):
            mask = pa.array(np.arange(rows) % every == 0)
            assert_same(dataset.to_table(filter=condition), table.filter(mask))


@pytest.mark.parametrize("rows", [1, 1023, 1024, 1025, 70_000])
@pytest.mark.parametrize("items", [0, 5000])
def test_rows_of_very_many_items_beside_empty_ones(tmp_path: Path, rows: int, items: int) -> None:
    """A list may be longer than a chunk, and levels more than a chunk has room for."""
    lengths = np.zeros(rows, dtype=np.int32)
    lengths[:: max(rows // 3, 1)] = items
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    values = pa.array(np.arange(offsets[-1], dtype=np.int32) % 1000)
    inner = pa.ListArray.from_arrays(pa.array(offsets), values)
    outer = pa.ListArray.from_arrays(pa.array([0, rows // 2, rows], pa.int32()), inner)
    few = pa.table({"inner": inner, "text": pa.array(["x"] * rows, pa.string())})
    deep = pa.table({"outer": outer})
    for number, table in enumerate((few, deep)):
        folder = tmp_path / str(number)
        last = table.num_rows - 1
        for found in (*write_with_both(table, folder), pilum.dataset(folder / "ours")):
            assert_same(found.to_table(), table)
            assert_same(found.take([last, 0, last]), table.take([last, 0, last]))
