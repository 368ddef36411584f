"""Recognise columns of geometries: the layouts of GeoArrow.

| name of the extension | type |
|---|---|
| `geoarrow.point` | point: struct of the doubles `x`, `y` and more, or their fixed-size list |
| `geoarrow.linestring`, `geoarrow.multipoint` | list of points |
| `geoarrow.polygon`, `geoarrow.multilinestring` | list of lists of points |
| `geoarrow.multipolygon` | list of lists of lists of points |
| `geoarrow.box` | struct of the doubles `xmin`, `ymin`, `xmax`, `ymax` and more |
| `geoarrow.wkb`, `geoarrow.wkt` | binary, text |

Lists alone do not say whether they are lines or several points. So an expression names their
layout: it is a struct whose only member has the name of the extension. All other types say
themselves what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import list_offsets
from pilum.expressions.types import is_text

__all__ = [
    "EXTENSION_NAME",
    "LISTS",
    "Form",
    "Layout",
    "Points",
    "coordinates",
    "is_geometry",
    "layout_of",
    "named",
    "points_of",
    "unnamed",
]

EXTENSION_NAME = b"ARROW:extension:name"

LISTS = {
    "geoarrow.linestring": 1,
    "geoarrow.multipoint": 1,
    "geoarrow.polygon": 2,
    "geoarrow.multilinestring": 2,
    "geoarrow.multipolygon": 3,
}
"""The names of layouts that are lists of points, and how deep these lists are."""

_MOST_DEEP = max(LISTS.values())

Points: TypeAlias = "tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]"
"""Offsets of lists from the outermost on, and the points: x and y, shape (n, 2)."""


class Form(Enum):
    """The form of a geometry, or of the innermost items of its lists; binary is WKB, text WKT."""

    POINT = "point"
    BOX = "box"
    BINARY = "binary"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a type.

    Attributes:
        form: What the innermost values are.
        depth: How many lists are around them.
    """

    form: Form
    depth: int = 0


def layout_of(arrow: pa.DataType) -> Layout | None:
    """Return the layout of a column type; None if it is no geometry."""
    depth = 0
    while pt.is_list(arrow) or pt.is_large_list(arrow):
        arrow, depth = arrow.value_type, depth + 1
    form = _form(arrow)
    if form is None or depth > _MOST_DEEP or (depth and form is not Form.POINT):
        return None
    return Layout(form, depth)


def _form(arrow: pa.DataType) -> Form | None:
    if is_text(arrow):
        return Form.TEXT
    if pt.is_binary(arrow) or pt.is_large_binary(arrow):
        return Form.BINARY
    if pt.is_fixed_size_list(arrow):
        is_point = pt.is_float64(arrow.value_type) and 2 <= arrow.list_size <= 4
        return Form.POINT if is_point else None
    if not pt.is_struct(arrow) or not all(pt.is_float64(member.type) for member in arrow):
        return None
    names = {member.name for member in arrow}
    if len(names) < len(list(arrow)):
        return None
    if {"x", "y"} <= names <= {"x", "y", "z", "m"}:
        return Form.POINT
    return Form.BOX if {"xmin", "ymin", "xmax", "ymax"} <= names else None


def is_geometry(arrow: pa.DataType) -> bool:
    """Return whether values of an expression are geometries whose layout is known."""
    if pt.is_struct(arrow) and arrow.num_fields == 1 and arrow.field(0).name in LISTS:
        return True
    layout = layout_of(arrow)
    return layout is not None and layout.depth == 0


def named(geometries: pa.Array, name: str) -> pa.Array:
    """Return lists with the name of their layout."""
    return pa.StructArray.from_arrays([geometries], names=[name], mask=geometries.is_null())


def unnamed(geometries: pa.Array) -> tuple[pa.Array, str]:
    """Return the values of a column or expression, and the name of their layout; "" if none."""
    arrow = geometries.type
    if pt.is_struct(arrow) and arrow.num_fields == 1:
        return pc.struct_field(geometries, 0), str(arrow.field(0).name)
    return geometries, ""


def points_of(geometries: pa.Array) -> Points:
    """Return the points of geometries with a layout of points, nulls as NaN."""
    offsets = []
    while pt.is_list(geometries.type) or pt.is_large_list(geometries.type):
        ends = list_offsets(geometries).to_numpy().astype(np.int64)
        first = int(ends[0])
        geometries = geometries.values.slice(first, int(ends[-1]) - first)
        offsets.append(ends - first)
    if pt.is_fixed_size_list(geometries.type):
        return tuple(offsets), _interleaved(geometries)
    return tuple(offsets), coordinates(geometries, ("x", "y"))


def coordinates(structs: pa.Array, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Return some members of structs of doubles, nulls as NaN, shape (n, number of names)."""
    found = np.empty((len(structs), len(names)), order="F")
    for place, name in enumerate(names):
        found[:, place] = pc.struct_field(structs, name).to_numpy(zero_copy_only=False)
    return found


def _interleaved(lists: pa.Array) -> NDArray[np.float64]:
    size = lists.type.list_size
    items = lists.values.slice(lists.offset * size, len(lists) * size)
    values: NDArray[Any] = items.to_numpy(zero_copy_only=False).reshape(-1, size)
    found = values[:, :2].astype(np.float64)
    if lists.null_count:
        found[lists.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found
