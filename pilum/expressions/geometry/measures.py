"""Make geometries, and measure them.

Measures are null where a geometry is null; coordinates and distances also where it is empty.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.errors import FilterError
from pilum.expressions.geometry.bounds import bounds_of
from pilum.expressions.geometry.members import without_empty_members
from pilum.expressions.geometry.shapes import Shapes, import_shapely, shapes_of

__all__ = ["CONSTRUCTORS", "MEASURES", "distance", "make_box", "make_point"]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""


_TYPE_NAMES = (
    "ST_Point",
    "ST_LineString",
    "ST_LinearRing",
    "ST_Polygon",
    "ST_MultiPoint",
    "ST_MultiLineString",
    "ST_MultiPolygon",
    "ST_GeometryCollection",
    "",
)
"""The names of types by their numbers in GEOS; null is -1."""


def _by_rows(apply: Callable[..., pa.Array]) -> Callable[..., Datum]:
    """Return a function of arrays, or of constants, which are repeated."""

    def run(*arguments: Datum) -> Datum:
        lengths = [len(one) for one in arguments if isinstance(one, pa.Array)]
        length = lengths[0] if lengths else 1
        found = apply(
            *(pa.repeat(one, length) if isinstance(one, pa.Scalar) else one for one in arguments)
        )
        return found if lengths else found[0]

    return run


def _wkb(shapes: Shapes) -> pa.Array:
    return pa.array(import_shapely().to_wkb(shapes), pa.binary())


def _parsed(geometries: pa.Array) -> pa.Array:
    return _wkb(shapes_of(geometries)) if len(geometries) else pa.nulls(0, pa.binary())


def _make_point(x: pa.Array, y: pa.Array) -> pa.Array:
    """Return points as structs, as columns of points are."""
    mask = pc.or_(x.is_null(), y.is_null())
    return pa.StructArray.from_arrays([x, y], names=["x", "y"], mask=mask)


def _make_box(one: pa.Array, other: pa.Array) -> pa.Array:
    """Return the boxes with two opposite corners, as columns of boxes are."""
    first, second = bounds_of(one), bounds_of(other)
    ends = np.hstack([np.fmin(first, second)[:, :2], np.fmax(first, second)[:, 2:]])
    is_null = np.isnan(first).any(axis=1) | np.isnan(second).any(axis=1)
    names = ["xmin", "ymin", "xmax", "ymax"]
    return pa.StructArray.from_arrays(
        [pa.array(end) for end in ends.T], names=names, mask=pa.array(is_null)
    )


def _measure(apply_to: Callable[..., NDArray[Any]], arrow: pa.DataType) -> Callable[..., Datum]:
    """Return a function that measures shapes."""

    def apply(*geometries: pa.Array) -> pa.Array:
        if len(geometries[0]) == 0:
            return pa.nulls(0, arrow)
        shapely = import_shapely()
        shapes = [shapes_of(one) for one in geometries]
        is_null = np.any([shapely.is_missing(one) for one in shapes], axis=0)
        found = _applied(apply_to, *shapes)
        if pa.types.is_floating(arrow):
            is_null |= np.isnan(found)
        return pa.array(found, arrow, mask=is_null)

    return _by_rows(apply)


def _applied(apply_to: Callable[..., NDArray[Any]], *shapes: Shapes) -> NDArray[Any]:
    """Return what a function of shapely makes of shapes.

    Raises:
        FilterError: If GEOS refuses a shape, such as one with a coordinate that is not finite.
    """
    try:
        return apply_to(*shapes)
    except import_shapely().errors.ShapelyError as error:
        raise FilterError(f"geometries cannot be measured: {error}") from error


def _of_shapely(name: str) -> Callable[..., NDArray[Any]]:
    return lambda *shapes: getattr(import_shapely(), name)(*shapes)


def _length(shapes: Shapes) -> NDArray[np.float64]:
    """Return the length of lines, and 0 for all other shapes: a circumference is no length."""
    shapely = import_shapely()
    kind = shapely.GeometryType
    lines = [kind.LINESTRING, kind.LINEARRING, kind.MULTILINESTRING]
    is_line = np.isin(shapely.get_type_id(shapes), lines)
    return np.where(is_line, shapely.length(shapes), 0.0)


def _type_names(shapes: Shapes) -> NDArray[np.object_]:
    numbers = import_shapely().get_type_id(shapes)
    names: NDArray[np.object_] = np.array(_TYPE_NAMES, np.object_)[numbers]
    return names


def _shape(name: str) -> Callable[..., Datum]:
    """Return a function that makes a shape of each, as WKB."""

    def apply(geometries: pa.Array) -> pa.Array:
        if len(geometries) == 0:
            return pa.nulls(0, pa.binary())
        return _wkb(_applied(_of_shapely(name), shapes_of(geometries)))

    return _by_rows(apply)


def _end(place: int) -> Callable[..., Datum]:
    """Return a function that returns one side of the bounding box."""

    def apply(geometries: pa.Array) -> pa.Array:
        return _with_nulls(bounds_of(geometries)[:, place])

    return _by_rows(apply)


def _coordinate(place: int, name: str) -> Callable[..., Datum]:
    """Return a function that returns a coordinate of points.

    Raises:
        FilterError: If a geometry is no point.
    """

    def apply(geometries: pa.Array) -> pa.Array:
        boxes = bounds_of(geometries)
        has_place = ~np.isnan(boxes).any(axis=1)
        if (boxes[has_place, :2] != boxes[has_place, 2:]).any():
            raise FilterError(f"{name} takes points")
        return _with_nulls(boxes[:, place])

    return _by_rows(apply)


def _with_nulls(values: NDArray[np.float64]) -> pa.Array:
    return pa.array(values, mask=np.isnan(values))


make_point = _by_rows(_make_point)
make_box = _by_rows(_make_box)


def _distance(one: Shapes, other: Shapes) -> NDArray[np.float64]:
    found: NDArray[np.float64] = import_shapely().distance(
        without_empty_members(one), without_empty_members(other)
    )
    return found


distance = _measure(_distance, pa.float64())

CONSTRUCTORS: dict[str, Callable[..., Datum]] = {
    "st_geomfromtext": _by_rows(_parsed),
    "st_geomfromwkb": _by_rows(_parsed),
}
"""Functions of text or binary values, by their names in SQL."""

MEASURES: dict[str, Callable[..., Datum]] = {
    "st_area": _measure(_of_shapely("area"), pa.float64()),
    "st_length": _measure(_length, pa.float64()),
    "st_isempty": _measure(_of_shapely("is_empty"), pa.bool_()),
    "st_isvalid": _measure(_of_shapely("is_valid"), pa.bool_()),
    "st_geometrytype": _measure(_type_names, pa.string()),
    "st_npoints": _measure(_of_shapely("get_num_coordinates"), pa.uint32()),
    "st_centroid": _shape("centroid"),
    "st_convexhull": _shape("convex_hull"),
    "st_asbinary": _by_rows(_parsed),
    "st_x": _coordinate(0, "st_x"),
    "st_y": _coordinate(1, "st_y"),
    "st_xmin": _end(0),
    "st_ymin": _end(1),
    "st_xmax": _end(2),
    "st_ymax": _end(3),
}
"""Functions of one geometry, by their names in SQL."""
