"""Bounding boxes of geometries: the least x and y, then the greatest x and y."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.expressions.geometry.layouts import (
    Form,
    coordinates,
    layout_of,
    points_of,
    unnamed,
)
from pilum.expressions.geometry.shapes import import_shapely, shapes_of

__all__ = ["Boxes", "bounds_of", "overlap"]

Boxes: TypeAlias = "NDArray[np.float64]"
"""Boxes, shape (n, 4); all NaN if a geometry is null, empty or has no place."""


def bounds_of(geometries: pa.Array) -> Boxes:
    """Return the bounding box of each geometry; only those of WKB and WKT need shapely.

    Args:
        geometries: A column or the values of an expression, see `layouts`.

    Raises:
        FilterError: If a text or binary value is no geometry.
        MissingDependencyError: If shapely is needed and not installed.
    """
    values, _ = unnamed(geometries)
    layout = layout_of(values.type)
    assert layout is not None
    if len(values) == 0:
        return np.empty((0, 4))
    match layout.form:
        case Form.POINT:
            boxes = _of_points(*points_of(values))
        case Form.BOX:
            ends = coordinates(values, ("xmin", "ymin", "xmax", "ymax"))
            boxes = np.hstack(
                [np.minimum(ends[:, :2], ends[:, 2:]), np.maximum(ends[:, :2], ends[:, 2:])]
            )
        case _:
            return np.asarray(import_shapely().bounds(shapes_of(values)), np.float64)
    has_no_place = np.isnan(boxes).any(axis=1)
    if values.null_count:
        has_no_place |= values.is_null().to_numpy(zero_copy_only=False)
    boxes[has_no_place] = np.nan
    return boxes


def _of_points(offsets: tuple[NDArray[np.int64], ...], points: NDArray[np.float64]) -> Boxes:
    """Return the bounding box of the points below each of the outermost lists."""
    if not offsets:
        return np.hstack([points, points])
    ends = offsets[0]
    for inner in offsets[1:]:
        ends = inner[ends]
    boxes = np.full((len(ends) - 1, 4), np.nan)
    has_points = ends[:-1] < ends[1:]
    starts = ends[:-1][has_points]
    if len(starts):
        boxes[has_points, :2] = np.fmin.reduceat(points, starts)
        boxes[has_points, 2:] = np.fmax.reduceat(points, starts)
    return boxes


def overlap(boxes: Boxes, others: Boxes) -> NDArray[np.bool_]:
    """Return whether boxes have a point in common with other boxes, shape (n,).

    Args:
        boxes: Boxes; a box of NaN overlaps nothing.
        others: As many boxes, or one.
    """
    low_x, low_y, high_x, high_y = boxes.T
    other_low_x, other_low_y, other_high_x, other_high_y = others.T
    found: NDArray[np.bool_] = (
        (low_x <= other_high_x)
        & (high_x >= other_low_x)
        & (low_y <= other_high_y)
        & (high_y >= other_low_y)
    )
    return found
