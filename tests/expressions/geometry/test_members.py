"""Empty members of collections: GEOS would end the process when it compares such shapes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import FilterError

shapely = pytest.importorskip("shapely")
members = pytest.importorskip("pilum.expressions.geometry.members")

SQUARE = "st_geomfromtext('POLYGON((0 0,3 0,3 3,0 3,0 0))')"
SHAPES = [
    "GEOMETRYCOLLECTION (POINT EMPTY, POINT (1 1))",
    "GEOMETRYCOLLECTION (LINESTRING EMPTY, GEOMETRYCOLLECTION (POLYGON EMPTY, POINT (1 1)))",
    "MULTILINESTRING (EMPTY, (1 1, 2 2))",
    "MULTIPOINT (EMPTY, (1 1))",
    "MULTIPOLYGON (EMPTY, ((1 1, 2 1, 2 2, 1 1)))",
]


@pytest.mark.parametrize("relation", ["st_within", "st_intersects", "st_coveredby"])
def test_shapes_are_compared_without_them(tmp_path: Path, relation: str) -> None:
    shapes = [*SHAPES, "GEOMETRYCOLLECTION (POINT EMPTY)", "POINT (9 9)"]
    wkb = pa.array([shapely.to_wkb(shapely.from_wkt(text)) for text in shapes] * 3)
    rows = pilum.write_dataset(pa.table({"g": wkb}), tmp_path / "t")
    assert rows.count_rows(f"{relation}(g, {SQUARE})") == 3 * len(SHAPES)
    assert rows.count_rows(f"st_distance(g, {SQUARE}) = 0") == 3 * len(SHAPES)


def test_members_that_are_nested_too_deeply_are_refused() -> None:
    import numpy as np

    one = shapely.Point(1, 1)
    for _ in range(5000):
        one = shapely.GeometryCollection([one])
    with pytest.raises(FilterError, match="nested"):
        members.without_empty_members(np.array([one], np.object_))


def test_other_members_are_kept() -> None:
    import numpy as np

    texts = ["GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 1 1))", "MULTIPOINT EMPTY"]
    given = np.array([*map(shapely.from_wkt, [*SHAPES, *texts]), None], np.object_)
    found = members.without_empty_members(given)
    assert shapely.equals(found[:-1], given[:-1]).all()
    assert found[-1] is None
    assert not any("EMPTY" in shapely.to_wkt(shape) for shape in found[: len(SHAPES)])
