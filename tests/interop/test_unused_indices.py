"""Indices of a type that pilum does not have: never read, and kept so that pylance can use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.errors import UnsupportedFeatureError
from pilum.index import registry

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated")

_AREA = "POLYGON((0 -9, 9 -9, 9 0, 0 0, 0 -9))"
_WITHIN = f"st_intersects(place, st_geomfromtext('{_AREA}'))"


def rows(first: int, count: int) -> pa.Table:
    """Returns rows with a point on a diagonal, of which ten lie in the area."""
    members = [pa.field(name, pa.float64(), nullable=False) for name in "xy"]
    metadata = {"ARROW:extension:name": "geoarrow.point", "ARROW:extension:metadata": "{}"}
    point = pa.struct(members)
    numbers = range(first, first + count)
    schema = pa.schema(
        [
            pa.field("key", pa.int64()),
            pa.field("place", point, metadata=metadata),
            pa.field("text", pa.string()),
        ]
    )
    places = pa.array([{"x": float(one), "y": float(-one)} for one in numbers], point)
    return pa.table(
        [list(numbers), places, [f"a quick fox {one % 5}" for one in numbers]], schema=schema
    )


@pytest.fixture(autouse=True)
def _earlier_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove a type that the reference has, as it was before it was supported."""
    types = tuple(one for one in registry._TYPES if one.name != "RTREE")
    monkeypatch.setattr(registry, "_TYPES", types)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table of the reference with such an index."""
    dataset: Any = lance.write_dataset(rows(0, 30), str(tmp_path / "t"), max_rows_per_file=15)
    dataset.create_scalar_index("place", "RTREE")
    return str(tmp_path / "t")


def keys(uri: str, **scan: Any) -> list[int]:
    found = lance.dataset(uri).to_table(columns=["key"], filter=_WITHIN, **scan)["key"]
    answer: list[int] = sorted(found.to_pylist())
    return answer


def test_they_are_kept(uri: str) -> None:
    """After changes, the reference finds the same with its index and without."""
    assert "@place_idx(RTree)" in lance.dataset(uri).scanner(filter=_WITHIN).explain_plan()
    before = lance.dataset(uri).describe_indices()
    pilum.write_dataset(rows(30, 5), uri, mode="append")
    dataset = pilum.dataset(uri)
    dataset.delete("key = 4")
    dataset.update({"text": "'other'"}, "key = 6")
    dataset.optimize.optimize_indices()
    after = lance.dataset(uri).describe_indices()
    assert [one.segments[0].uuid for one in after] == [one.segments[0].uuid for one in before]
    assert keys(uri) == keys(uri, use_scalar_index=False) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    pilum.dataset(uri).optimize.compact_files()
    assert keys(uri) == keys(uri, use_scalar_index=False) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    pilum.dataset(uri).drop_index("place_idx")
    names = {one.name for one in lance.dataset(uri).describe_indices()}
    assert "place_idx" not in names


def test_they_are_described_and_refused(uri: str) -> None:
    """What the table records about them is shown; all else names the type."""
    dataset = pilum.dataset(uri)
    shown = [(one.name, one.index_type, one.num_rows_indexed) for one in dataset.describe_indices()]
    assert shown == [("place_idx", "RTree", 30)]
    plan = dataset.scanner(filter="key < 4 AND text = 'a quick fox 1'").explain_plan()
    assert "_idx" not in plan
    assert dataset.to_table(filter="text = 'a quick fox 1'").num_rows == 6
    for ask in (dataset.stats.index_stats, dataset.prewarm_index):
        with pytest.raises(UnsupportedFeatureError, match=r"place_idx.*RTree cannot be read"):
            ask("place_idx")
    with pytest.raises(UnsupportedFeatureError, match="no type of index 'RTREE'"):
        dataset.create_scalar_index("place", "RTREE", name="own")
