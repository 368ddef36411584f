"""Measures of geometries in all layouts, against shapely shape by shape."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
import shapely
from geometry_columns import LAYOUTS, column_of, field_of, random_shapes

from pilum.errors import FilterError, MissingDependencyError
from pilum.expressions import bind, bind_projection


def _values(text: str, layout: str, shapes: list[Any]) -> list[Any]:
    schema = pa.schema([field_of(layout)])
    batch = pa.RecordBatch.from_arrays([column_of(layout, shapes)], schema=schema)
    found: list[Any] = bind_projection(text, schema).evaluate(batch).to_pylist()
    return found


def _length(shape: Any) -> float:
    return float(shape.length) if "Line" in shape.geom_type else 0.0


def _end(place: int) -> Any:
    return lambda shape: None if shape.is_empty else shape.bounds[place]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_of_one_geometry(layout: str) -> None:
    """Each measure is null for null; the ends of empty geometries are null, too."""
    shapes = random_shapes(layout, 40, random.Random(layout))
    for text, measure in {
        "st_area(p)": lambda shape: shape.area,
        "st_length(p)": _length,
        "st_isempty(p)": lambda shape: shape.is_empty,
        "st_isvalid(p)": lambda shape: shape.is_valid,
        "st_geometrytype(p)": lambda shape: f"ST_{shape.geom_type}",
        "st_npoints(p)": shapely.get_num_coordinates,
        "st_area(st_convexhull(p))": lambda shape: shape.convex_hull.area,
        "st_xmin(st_centroid(p))": lambda shape: _end(0)(shape.centroid),
        "st_asbinary(st_asbinary(p))": shapely.to_wkb,
        "st_xmin(p)": _end(0),
        "st_ymin(p)": _end(1),
        "st_xmax(p)": _end(2),
        "st_ymax(p)": _end(3),
    }.items():
        expected = [None if one is None else measure(one) for one in shapes]
        assert _values(text, layout, shapes) == expected, text


def test_points_and_distances() -> None:
    """Coordinates are those of points only; a distance from nothing is unknown."""
    shapes = [shapely.Point(3, 4), None, shapely.Point()]
    assert _values("st_x(p)", "points", shapes) == [3.0, None, None]
    assert _values("st_y(p)", "binary", shapes) == [4.0, None, None]
    assert _values("st_distance(st_point(0, 0), p)", "text", shapes) == [5.0, None, None]
    assert _values("st_distance(p, 'LINESTRING(0 0, 0 9)')", "pairs", shapes) == [3.0, None, None]
    assert _values("st_xmax(st_makebox2d(p, st_point(1, 9)))", "points", shapes)[:2] == [3.0, None]
    assert (
        _values("st_x(st_geomfromwkb(st_geomfromtext('POINT(7 8)')))", "points", shapes)
        == [7.0] * 3
    )
    assert _values("st_y(st_makepoint(st_x(p), 2))", "points", shapes) == [2.0, None, None]
    with pytest.raises(FilterError, match="st_x takes points"):
        _values("st_x(p)", "lines", [shapely.LineString([(0, 0), (1, 1)])])


def test_constants() -> None:
    """Functions of constants alone are computed when they are bound."""
    shapes = [shapely.Point(3, 4)]
    assert _values("st_geometrytype('LINESTRING(0 0, 1 1)')", "points", shapes) == ["ST_LineString"]
    assert _values("st_area(NULL)", "points", shapes) == [None]


def test_without_shapely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the package, the error names the extra; ends of coordinates do not need it."""
    monkeypatch.setitem(__import__("sys").modules, "shapely", None)
    assert _values("st_xmin(p)", "points", [shapely.Point(3, 4)]) == [3.0]
    with pytest.raises(MissingDependencyError, match=r"pip install 'pilum\[geo\]'"):
        bind("st_intersects(p, st_geomfromtext('POINT(1 1)'))", pa.schema([field_of("points")]))
