"""Relations of geometries in all layouts, against shapely shape by shape."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from geometry_columns import LAYOUTS, column_of, field_of, random_shapes

from pilum.errors import FilterError
from pilum.expressions import bind
from pilum.expressions.geometry.layouts import LISTS, named
from pilum.expressions.geometry.relations import RELATIONS

shapely: Any = pytest.importorskip("shapely")

_IN_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import numpy as np, pyarrow as pa, shapely
from pilum.expressions.geometry.relations import RELATIONS

source = np.random.default_rng(1)
constant = pa.scalar(shapely.LineString(source.random((300, 2))).wkb, pa.binary())
lines = [shapely.LineString(source.random((2, 2))).wkb for _ in range(200)]
lines, relate = pa.array(lines, pa.binary()), RELATIONS["st_intersects"]
expected = relate(lines, constant)
with ThreadPoolExecutor(8) as threads:
    for found in threads.map(lambda _: relate(lines, constant), range(200)):
        assert found.equals(expected)
"""

_SHAPELY = {name: name.removeprefix("st_").replace("coveredby", "covered_by") for name in RELATIONS}
_AREAS = [
    "POLYGON((1 1, 6 1, 6 6, 1 6, 1 1))",
    "POLYGON((0 0, 8 0, 8 8, 0 8, 0 0), (2 2, 6 2, 6 6, 2 6, 2 2))",
    "LINESTRING(0 0, 8 8)",
    "MULTIPOINT(1 1, 3 3, 8 8)",
    "POINT(3 3)",
    "GEOMETRYCOLLECTION(POINT(1 1), POLYGON((3 3, 8 3, 8 8, 3 3)))",
    "POLYGON EMPTY",
]


def _geometries(layout: str, shapes: list[Any]) -> pa.Array:
    """Return shapes as values of an expression, of which the first one is cut off."""
    column, (name, _) = column_of(layout, shapes).slice(1), LAYOUTS[layout]
    return named(column, name) if name in LISTS else column


def _expected(name: str, first: list[Any], second: list[Any]) -> list[bool | None]:
    test = getattr(shapely, _SHAPELY[name])
    return [
        None if one is None or other is None else bool(test(one, other))
        for one, other in zip(first, second, strict=True)
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.seeds(1)
def test_with_constants(layout: str, seed: int) -> None:
    """Each relation with each constant, in both orders."""
    shapes = random_shapes(layout, 30, random.Random(f"{seed} {layout}"))
    column = _geometries(layout, shapes)
    for area in _AREAS:
        constant = [shapely.from_wkt(area)] * len(shapes)
        for name, relation in RELATIONS.items():
            expected = _expected(name, shapes, constant)[1:]
            assert relation(column, pa.scalar(area)).to_pylist() == expected, (name, area)
            expected = _expected(name, constant, shapes)[1:]
            assert relation(pa.scalar(area), column).to_pylist() == expected, (name, area)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_columns(layout: str) -> None:
    """Each relation of two columns."""
    source = random.Random(layout)
    first = random_shapes(layout, 40, source)
    for other in ("polygons", layout):
        second = random_shapes(other, 40, source)
        second[:10] = second[:10] if other != layout else first[:10]
        both = _geometries(layout, first), _geometries(other, second)
        for name, relation in RELATIONS.items():
            assert relation(*both).to_pylist() == _expected(name, first, second)[1:], name


def test_constants_alone() -> None:
    """Relations of constants are computed once; with null they are null."""
    schema = pa.schema([field_of("points")])
    batch = pa.RecordBatch.from_arrays([column_of("points", [shapely.Point(1, 2)])], schema=schema)
    for filter, expected in [
        ("st_within('POINT(1 1)', 'POLYGON((0 0, 2 0, 2 2, 0 0))')", False),
        ("st_coveredby('POINT(1 1)', 'POLYGON((0 0, 2 0, 2 2, 0 0))')", True),
        ("st_intersects(p, NULL)", False),
        ("st_intersects(p, NULL) IS NULL", True),
        ("st_intersects(NULL, NULL) IS NULL", True),
        ("st_equals(p, st_point(1, 2))", True),
        ("st_equals(p, X'0101000000000000000000f03f0000000000000040')", True),
        ("st_intersects(p, st_makebox2d(st_point(1.5, 2.5), st_point(0, 0)))", True),
    ]:
        assert bind(filter, schema).mask(batch).to_pylist() == [expected], filter


def test_threads_share_no_constant() -> None:
    """GEOS writes to a prepared shape: with one for all threads, this process crashes."""
    subprocess.run([sys.executable, "-c", _IN_THREADS], check=True)


def test_errors() -> None:
    """What is no geometry is named when the filter is bound; damaged values when they are read."""
    lists = pa.list_(pa.list_(LAYOUTS["points"][1]))
    schema = pa.schema(
        [
            field_of("points"),
            pa.field("n", pa.int64()),
            pa.field("rings", lists),
            pa.field("wrong", lists, metadata={"ARROW:extension:name": "geoarrow.point"}),
            field_of("binary", "b"),
            field_of("lines", "line"),
        ]
    )
    for filter, message in [
        ("st_intersects(p, n)", "st_intersects takes a geometry, not int64"),
        ("st_intersects(p, 5)", "takes a geometry, not int64"),
        ("st_intersects(p, rings)", "is '', not geoarrow.polygon or geoarrow.multilinestring"),
        ("st_intersects(p, wrong)", "column 'wrong' of .* 'geoarrow.point', not"),
        ("st_intersects(p)", "does not take 1 arguments"),
        ("st_intersects(p, 'nonsense')", "no geometry"),
        ("st_intersects(p, st_geomfromwkb(X'00'))", "no geometry"),
    ]:
        with pytest.raises(FilterError, match=message):
            bind(filter, schema).mask(schema.empty_table().to_batches()[0])
    area = "'POLYGON((0 0, 9 0, 9 9, 0 9, 0 0))'"
    for name, values in (
        ("b", pa.array([b"\x01\x00"])),
        ("line", pa.array([[{"x": 1.0, "y": 1.0}]], LAYOUTS["lines"][1])),
    ):
        batch = pa.RecordBatch.from_arrays([values], schema=pa.schema([schema.field(name)]))
        with pytest.raises(FilterError, match="a value is no geometry"):
            bind(f"st_intersects({name}, {area})", batch.schema).mask(batch)


def test_shapes_that_geos_refuses() -> None:
    """Curves, which shapely does not hold, and convex hulls of coordinates that are not finite."""
    batch = pa.record_batch({"t": ["COMPOUNDCURVE(CIRCULARSTRING(0 0, 1 1, 2 0))"]})
    for filter in ("st_isvalid(st_geomfromtext(t))", "st_area(st_geomfromtext(t)) > 1"):
        with pytest.raises(FilterError, match="a value is no geometry"):
            bind(filter, batch.schema).mask(batch)
    points = [0, 0, 1, 1, math.nan, 2, 5, 0]
    line = struct.pack("<BII8d", 1, 2, 4, *points)
    batch = pa.record_batch({"b": pa.array([line], pa.binary())})
    with pytest.raises(FilterError, match="geometries cannot be measured"):
        bind("st_convexhull(st_geomfromwkb(b)) IS NULL", batch.schema).mask(batch)
