"""Collections that are nested deeply: they are refused, and no other long value is."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from pilum.errors import FilterError
from pilum.expressions.geometry.shapes import shapes_of

_POINT: bytes = shapely.to_wkb(shapely.Point(1, 1))


def _nested(depth: int, code: int = 7, order: str = "<", before: bytes = b"") -> bytes:
    """Return collections, each with a part before the next one, around a point."""
    one = struct.pack(f"{order}BII", order == "<", code, 1 + bool(before)) + before
    return one * depth + _POINT


@pytest.mark.parametrize("code", [4, 5, 6, 7, 9, 10, 11, 12, 1007, 3007, 64007, 0x80000007])
@pytest.mark.parametrize("order", ["<", ">"])
def test_deep_binary(code: int, order: str) -> None:
    """Any kind of collection, also one that is no geometry."""
    for before in (b"", _POINT):
        data = _nested(100_000, code, order, before)
        with pytest.raises(FilterError, match="more than 1000 nested collections"):
            shapes_of(pa.array([None, data]))


def test_other_forms() -> None:
    """A system of coordinates in each header, an order of bytes that there is not, and text."""
    with_system = struct.pack("<BIII", 1, 0x20000007, 4326, 1) * 100_000
    unknown = _POINT[:1] + _nested(1)[1:9] + (b"\x05" + _nested(1)[1:9]) * 100_000
    for data in (with_system, unknown):
        with pytest.raises(FilterError, match="nested collections"):
            shapes_of(pa.array([data]))
    for name in ("GeometryCollection", "MULTICURVE", "multisurface", "COMPOUNDCURVE"):
        with pytest.raises(FilterError, match="nested collections"):
            shapes_of(pa.array([f"{name}(" * 200_000]))


def test_binary_values_in_disguise() -> None:
    """Hexadecimal text, which shapely reads as well, and arcs, which are points."""
    deep = _nested(100_000)
    for data in (deep.hex().encode(), b""):
        with pytest.raises(FilterError, match="byte order"):
            shapes_of(pa.array([data]))
    arc = struct.pack("<BII4d", 1, 8, 2, 0, 0, 1, 1)
    with pytest.raises(FilterError, match="nested collections"):
        shapes_of(pa.array([struct.pack("<BII", 1, 7, 2) + arc + deep]))


def test_long_values() -> None:
    """Long geometries of many parts, and collections that are nested less deeply, are parsed."""
    random = np.random.default_rng(1)
    squares = [shapely.box(x, y, x + 0.1, y + 0.1) for x, y in random.uniform(0, 9e4, (3000, 2))]
    ring = [(x, y, 5.0) for x, y in shapely.Point(0, 0).buffer(9, 500).exterior.coords]
    shapes: list[Any] = [
        shapely.MultiPolygon(squares),
        shapely.MultiPoint(random.uniform(0, 9, (5000, 2))),
        shapely.GeometryCollection([*squares, shapely.MultiPoint(), shapely.Point(1, 2)]),
        shapely.GeometryCollection([shapely.MultiLineString([ring] * 3)] * 4),
        shapely.Polygon(ring),
    ]
    for order in (0, 1):
        data = [shapely.to_wkb(one, byte_order=order, include_srid=True) for one in shapes]
        assert shapely.equals_identical(shapes_of(pa.array(data)), shapes).all()
    texts = [shapely.to_wkt(one, rounding_precision=-1) for one in shapes]
    assert shapely.equals_exact(shapes_of(pa.array(texts)), shapes, 1e-9).all()
    assert shapely.bounds(shapes_of(pa.array([_nested(900, before=_POINT)]))).tolist() == [
        [1.0] * 4
    ]
    with pytest.raises(FilterError, match="no geometry"):
        shapes_of(pa.array([data[0][:-5]]))
