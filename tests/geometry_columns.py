"""Columns of geometries in every layout, made from shapes one by one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import shapely

__all__ = ["LAYOUTS", "column_of", "field_of", "random_shapes"]

_POINT = pa.struct([pa.field(name, pa.float64(), False) for name in "xy"])
_DEEP_POINT = pa.struct([pa.field(name, pa.float64(), False) for name in "xyz"])
_PAIR = pa.list_(pa.field("xy", pa.float64(), False), 2)
_BOX = pa.struct([pa.field(name, pa.float64(), False) for name in ("xmin", "ymin", "xmax", "ymax")])


def _lists(arrow: pa.DataType, *names: str) -> pa.DataType:
    for name in names:
        arrow = pa.list_(pa.field(name, arrow, False))
    return arrow


LAYOUTS: dict[str, tuple[str, pa.DataType]] = {
    "points": ("geoarrow.point", _POINT),
    "points with z": ("geoarrow.point", _DEEP_POINT),
    "pairs": ("geoarrow.point", _PAIR),
    "lines": ("geoarrow.linestring", _lists(_POINT, "vertices")),
    "lines of pairs": ("geoarrow.linestring", pa.large_list(pa.field("vertices", _PAIR, False))),
    "polygons": ("geoarrow.polygon", _lists(_POINT, "vertices", "rings")),
    "several points": ("geoarrow.multipoint", _lists(_POINT, "points")),
    "several lines": ("geoarrow.multilinestring", _lists(_POINT, "vertices", "linestrings")),
    "several polygons": (
        "geoarrow.multipolygon",
        _lists(_POINT, "vertices", "rings", "polygons"),
    ),
    "boxes": ("geoarrow.box", _BOX),
    "binary": ("geoarrow.wkb", pa.binary()),
    "text": ("geoarrow.wkt", pa.string()),
}


def field_of(layout: str, name: str = "p") -> pa.Field:
    extension, arrow = LAYOUTS[layout]
    return pa.field(name, arrow, metadata={"ARROW:extension:name": extension})


def column_of(layout: str, shapes: Sequence[Any]) -> pa.Array:
    """Return shapes of the layout's kind, None for null, as a column."""
    extension, arrow = LAYOUTS[layout]
    values = [None if one is None else _value(extension, one, _place_of(arrow)) for one in shapes]
    return pa.array(values, arrow)


def _place_of(arrow: pa.DataType) -> Callable[[tuple[float, ...]], Any]:
    while pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        arrow = arrow.value_type
    if arrow == _PAIR:
        return list
    return lambda place: dict(zip("xyz", (*place, 7.0), strict=False))


def _value(extension: str, shape: Any, place: Callable[[tuple[float, ...]], Any]) -> Any:
    match extension:
        case "geoarrow.wkb":
            return shapely.to_wkb(shape)
        case "geoarrow.wkt":
            return shapely.to_wkt(shape, rounding_precision=-1)
        case "geoarrow.box":
            return dict(zip(("xmin", "ymin", "xmax", "ymax"), shape.bounds, strict=True))
        case "geoarrow.point":
            return place(shape.coords[0] if shape.coords else (float("nan"),) * 2)
        case "geoarrow.linestring":
            return [place(one) for one in shape.coords]
        case "geoarrow.polygon":
            if shape.is_empty:
                return []
            return [
                [place(one) for one in ring.coords] for ring in (shape.exterior, *shape.interiors)
            ]
        case "geoarrow.multipoint":
            return [_value("geoarrow.point", one, place) for one in shape.geoms]
        case "geoarrow.multilinestring":
            return [_value("geoarrow.linestring", one, place) for one in shape.geoms]
    return [_value("geoarrow.polygon", one, place) for one in shape.geoms]


def random_shapes(layout: str, count: int, source: random.Random) -> list[Any]:
    """Return shapes with corners on a small grid; some are empty or null."""
    make = _MAKERS[LAYOUTS[layout][0]]
    return [None if source.random() < 0.1 else make(source) for _ in range(count)]


def _place(source: random.Random) -> tuple[float, float]:
    return float(source.randrange(9)), float(source.randrange(9))


def _point(source: random.Random) -> Any:
    return shapely.Point(*_place(source)) if source.random() < 0.9 else shapely.Point()


def _line(source: random.Random) -> Any:
    places = {_place(source): None for _ in range(source.randrange(5))}
    return shapely.LineString(list(places)) if len(places) > 1 else shapely.LineString()


def _polygon(source: random.Random) -> Any:
    if source.random() < 0.1:
        return shapely.Polygon()
    (x, y), size = _place(source), source.randrange(1, 6)
    if size == 1:
        return shapely.Polygon([(x, y), (x + 3, y + 1), (x + 1, y + 2)])
    hole = shapely.box(x + 1, y + 1, x + size - 1, y + size - 1).exterior if size > 2 else None
    square = shapely.box(x, y, x + size, y + size).exterior
    return shapely.Polygon(square, [hole] if hole else None)


def _several(make: Callable[[random.Random], Any], kind: Any) -> Callable[[random.Random], Any]:
    def some(source: random.Random) -> Any:
        parts = [
            one for one in (make(source) for _ in range(source.randrange(3))) if not one.is_empty
        ]
        return kind(parts)

    return some


def _apart(source: random.Random) -> Any:
    """Return polygons that do not touch, as those of one shape must not."""
    parts = [_polygon(source), shapely.affinity.translate(_polygon(source), 30.0)]
    return shapely.MultiPolygon([one for one in parts if not one.is_empty][: source.randrange(3)])


def _any(source: random.Random) -> Any:
    makers = [_point, _line, _polygon, _MAKERS["geoarrow.multipoint"], _apart]
    return source.choice(makers)(source)


def _box(source: random.Random) -> Any:
    (x, y), (width, height) = _place(source), _place(source)
    return shapely.box(x, y, x + width + 1, y + height + 1)


_MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "geoarrow.point": _point,
    "geoarrow.linestring": _line,
    "geoarrow.polygon": _polygon,
    "geoarrow.multipoint": _several(
        lambda source: shapely.Point(*_place(source)), shapely.MultiPoint
    ),
    "geoarrow.multilinestring": _several(_line, shapely.MultiLineString),
    "geoarrow.multipolygon": _apart,
    "geoarrow.box": _box,
    "geoarrow.wkb": _any,
    "geoarrow.wkt": _any,
}
