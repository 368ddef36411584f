"""Convert geometries to shapes of the package shapely, which compares and measures them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from threading import get_ident
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.errors import FilterError, MissingDependencyError
from pilum.expressions.geometry.layouts import Form, coordinates, layout_of, points_of, unnamed
from pilum.expressions.geometry.nesting import require_shallow

__all__ = ["Shapes", "import_shapely", "shapes_of"]

Shapes: TypeAlias = "NDArray[np.object_]"
"""Shapes, None for null."""

_TYPES = {
    "geoarrow.linestring": "LINESTRING",
    "geoarrow.multipoint": "MULTIPOINT",
    "geoarrow.polygon": "POLYGON",
    "geoarrow.multilinestring": "MULTILINESTRING",
    "geoarrow.multipolygon": "MULTIPOLYGON",
}


_BYTE_ORDERS = (b"\0", b"\1")
"""The first byte of WKB."""


def import_shapely() -> ModuleType:
    """Import the package.

    Raises:
        MissingDependencyError: If it is not installed.
    """
    try:
        shapely = import_module("shapely")
    except ImportError as error:
        raise MissingDependencyError("geometries need shapely: pip install 'pilum[geo]'") from error
    return shapely


def shapes_of(geometries: pa.Array) -> Shapes:
    """Return the shapes of geometries; points that have no place are empty.

    Args:
        geometries: A column or the values of an expression, see `layouts`.

    Raises:
        FilterError: If a text or binary value is no geometry, or the points of one make no shape.
        MissingDependencyError: If shapely is not installed.
    """
    shapely = import_shapely()
    values, name = unnamed(geometries)
    layout = layout_of(values.type)
    assert layout is not None
    try:
        if layout.form in {Form.BINARY, Form.TEXT}:
            require_shallow(values, layout.form)
            if layout.form is Form.BINARY:
                if len(values) == 1 and values.null_count == 0:
                    return np.array([_shape_of(values[0].as_py(), get_ident())], np.object_)
                _require_byte_order(values)
            parse = shapely.from_wkb if layout.form is Form.BINARY else shapely.from_wkt
            found = _parsed(parse, values.to_numpy(zero_copy_only=False))
            return np.asarray(found, np.object_)
        shapes = _boxes(values) if layout.form is Form.BOX else _of_points(values, name)
    except (shapely.errors.ShapelyError, ValueError, TypeError, NotImplementedError) as error:
        raise FilterError(f"a value is no geometry: {error}") from error
    if values.null_count:
        shapes[values.is_null().to_numpy(zero_copy_only=False)] = None
    return shapes


@lru_cache(maxsize=64)
def _shape_of(value: bytes, thread: int) -> Any:
    """Return the shape of WKB, such as a constant, which a filter needs several times.

    Each thread has its own: GEOS writes to a prepared shape whenever it compares it.
    """
    if value[:1] not in _BYTE_ORDERS:
        raise _without_byte_order()
    return _parsed(import_shapely().from_wkb, value)


def _parsed(parse: Callable[[Any], Any], values: Any) -> Any:
    """Parse values; NumPy would warn of coordinates that are no numbers."""
    with np.errstate(invalid="ignore"):
        return parse(values)


def _require_byte_order(values: pa.Array) -> None:
    """Raise ValueError if a value does not begin as WKB; shapely also takes hexadecimal text."""
    begins = pc.is_in(pc.binary_slice(values, 0, 1), pa.array(_BYTE_ORDERS, values.type))
    if not pc.all(pc.or_(begins, values.is_null())).as_py():
        raise _without_byte_order()


def _without_byte_order() -> ValueError:
    return ValueError("binary values without a byte order")


def _boxes(values: pa.Array) -> Shapes:
    shapely = import_shapely()
    ends = coordinates(values, ("xmin", "ymin", "xmax", "ymax"))
    shapes = np.full(len(ends), shapely.Polygon(), np.object_)
    has_place = ~np.isnan(ends).any(axis=1)
    shapes[has_place] = shapely.box(*ends[has_place].T)
    return shapes


def _of_points(values: pa.Array, name: str) -> Shapes:
    shapely = import_shapely()
    offsets, points = points_of(values)
    if not offsets:
        shapes = np.full(len(points), shapely.Point(), np.object_)
        has_place = ~np.isnan(points).any(axis=1)
        shapes[has_place] = shapely.points(points[has_place])
        return shapes
    kind: Any = shapely.GeometryType[_TYPES[name]]
    if len(points) == 0:  # which shapely 2.2 refuses
        return np.full(len(values), shapely.from_wkt(f"{_TYPES[name]} EMPTY"), np.object_)
    points = np.ascontiguousarray(points)  # x and y by turns, as shapely needs them
    return np.asarray(shapely.from_ragged_array(kind, points, offsets[::-1]), np.object_)
