"""Test how two geometries lie to each other.

    st_contains(area, place)     boxes overlap ──▶ shapes are compared
                                 otherwise     ──▶ false

Bounding boxes are computed for all rows, shapes are made only where these overlap. All functions
are null where a geometry is null. An empty geometry has no point in common with any other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import filtered
from pilum.errors import FilterError
from pilum.expressions.geometry.bounds import bounds_of, overlap
from pilum.expressions.geometry.layouts import Form, Layout, layout_of
from pilum.expressions.geometry.members import without_empty_members
from pilum.expressions.geometry.shapes import Shapes, import_shapely, shapes_of

__all__ = ["OVERLAPPING", "RELATIONS"]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""

_MIRRORED = {
    "st_intersects": "intersects",
    "st_contains": "within",
    "st_within": "contains",
    "st_covers": "covered_by",
    "st_coveredby": "covers",
    "st_touches": "touches",
    "st_crosses": "crosses",
    "st_overlaps": "overlaps",
    "st_equals": "equals",
    "st_disjoint": "disjoint",
}
"""The function of shapely that gives the same for the exchanged arguments."""

_EXCHANGED = {
    "st_contains": "st_within",
    "st_within": "st_contains",
    "st_covers": "st_coveredby",
    "st_coveredby": "st_covers",
}

_OF_POINTS = {
    "st_within": "contains_xy",
    "st_coveredby": "intersects_xy",
    "st_intersects": "intersects_xy",
}
"""The function that gives the same for the coordinates of points, without a shape of each."""

OVERLAPPING = frozenset(_MIRRORED) - {"st_disjoint"}
"""Functions that are true only if the bounding boxes overlap, unless both geometries are empty."""


def _relation(name: str) -> Callable[[Datum, Datum], Datum]:
    def relate(one: Datum, other: Datum) -> Datum:
        if isinstance(one, pa.Scalar) and isinstance(other, pa.Scalar):
            return relate(pa.repeat(one, 1), other)[0]
        if isinstance(one, pa.Scalar):
            return RELATIONS[_EXCHANGED.get(name, name)](other, one)
        if isinstance(other, pa.Scalar):
            other = pa.repeat(other, 1)
        is_null = _nulls(one) | _nulls(other)
        return pa.array(_related(name, one, other, is_null), pa.bool_(), mask=is_null)

    return relate


def _nulls(geometries: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = geometries.is_null().to_numpy(zero_copy_only=False)
    return found


def _related(
    name: str, one: pa.Array, other: pa.Array, is_null: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Compare geometries with as many others, or with a single one."""
    single = _comparable(other) if len(other) == 1 else None
    boxes = bounds_of(one)
    others = bounds_of(other) if single is None else import_shapely().bounds(single)
    is_compared = overlap(boxes, others)
    if name == "st_equals":  # empty geometries are equal
        is_compared |= np.isnan(boxes).all(axis=1) & np.isnan(others).all(axis=1)
    is_compared &= ~is_null
    found = np.full(len(one), name == "st_disjoint")
    if single is not None and name in _OF_POINTS and _are_points(one):
        x, y = boxes[is_compared, 0], boxes[is_compared, 1]
        found[is_compared] = _compared(_OF_POINTS[name], single, x, y)
    elif is_compared.any():
        mask = pa.array(is_compared)
        right = _comparable(filtered(other, mask)) if single is None else single
        left = _comparable(filtered(one, mask))
        found[is_compared] = _compared(_MIRRORED[name], right, left)
    return found


def _are_points(geometries: pa.Array) -> bool:
    return layout_of(geometries.type) == Layout(Form.POINT)


def _comparable(geometries: pa.Array) -> Shapes:
    return without_empty_members(shapes_of(geometries))


def _compared(name: str, first: Shapes, *second: NDArray[Any]) -> NDArray[np.bool_]:
    """Compare shapes with others, or with points given as x and y."""
    shapely = import_shapely()
    if len(first) < len(second[0]):
        shapely.prepare(first)
    try:
        found: NDArray[np.bool_] = getattr(shapely, name)(first, *second)
    except shapely.errors.ShapelyError as error:
        raise FilterError(f"geometries cannot be compared: {error}") from error
    return found


RELATIONS: dict[str, Callable[[Datum, Datum], Datum]] = {
    name: _relation(name) for name in _MIRRORED
}
"""The functions, by their names in SQL."""
