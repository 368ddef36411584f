"""Geometries: filters and R-trees give the same rows in both libraries, whoever made the index."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely
from geometry_columns import LAYOUTS, column_of, field_of, random_shapes

import pilum
from pilum.index.files import IndexFolder
from pilum.storage.local import LocalStore
from pilum.table.indices import selecting

lance: Any = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [
    pytest.mark.reference,
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

_RELATIONS = [
    "st_intersects", "st_contains", "st_within", "st_covers", "st_coveredby", "st_touches",
    "st_crosses", "st_overlaps", "st_equals", "st_disjoint",
]  # fmt: skip
_AREAS = [
    "POLYGON((1 1, 6 1, 6 6, 1 6, 1 1))",
    "LINESTRING(0 0, 8 8)",
    "POINT(3 3)",
]
_CHANGES = ["append", "delete", "update", "merge", "optimise", "compact", "restore"]
_MIRRORED = {
    "st_contains": "st_within",
    "st_within": "st_contains",
    "st_covers": "st_coveredby",
    "st_coveredby": "st_covers",
}
_WITHIN = f"st_intersects(p, st_geomfromtext('{_AREAS[0]}'))"
_OF_BOTH = [name for name in LAYOUTS if "pairs" not in name]
"""Layouts that the reference reads; it refuses pairs."""


@pytest.fixture(autouse=True)
def _use_indices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use indices of small tables, too."""
    monkeypatch.setattr(selecting, "_is_worth_it", lambda *_: True)


def _table(layout: str, shapes: list[Any], first: int = 0) -> pa.Table:
    schema = pa.schema([pa.field("key", pa.int64()), field_of(layout)])
    keys = pa.array(range(first, first + len(shapes)), pa.int64())
    return pa.table([keys, column_of(layout, shapes)], schema=schema)


def _shapes(layout: str, count: int, source: random.Random) -> list[Any]:
    """Return shapes without empty points, for which the reference has no relations."""
    shapes = random_shapes(layout, count, source)
    return [
        None if one is not None and one.is_empty and one.geom_type == "Point" else one
        for one in shapes
    ]


def _index(library: Any, dataset: Any) -> None:
    config = (lance if library is lance else pilum).indices.IndexConfig("rtree", {"page_size": 4})
    dataset.create_scalar_index("p", config, name="places", replace=True)


def _keys(library: Any, uri: str, filter: str, **scan: Any) -> list[int]:
    found = library.dataset(uri).to_table(columns=["key"], filter=filter, **scan)["key"]
    keys: list[int] = sorted(found.to_pylist())
    return keys


@pytest.mark.parametrize("layout", _OF_BOTH)
def test_relations(tmp_path: Path, layout: str) -> None:
    """With the index of either library, and without one.

    The reference exchanges the arguments if the constant is the first one.
    """
    uri = str(tmp_path / "t")
    table = _table(layout, _shapes(layout, 60, random.Random(layout)))
    lance.write_dataset(table, uri, max_rows_per_file=25, data_storage_version="2.2")
    expected = {}
    for number, name in enumerate(_RELATIONS):
        constant = f"st_geomfromtext('{_AREAS[(number + len(layout)) % len(_AREAS)]}')"
        found = _keys(lance, uri, f"{name}(p, {constant})")
        expected[f"{name}(p, {constant})"] = found
        expected[f"{_MIRRORED.get(name, name)}({constant}, p)"] = found
    without = f"NOT {_WITHIN}"
    expected[without] = _keys(lance, uri, without)
    assert {one: _keys(pilum, uri, one) for one in expected} == expected
    for owner in (lance, pilum):
        _index(owner, owner.dataset(uri))
        plan = pilum.dataset(uri).scanner(filter=_WITHIN).explain_plan()
        assert "@places(RTree)" in plan
        assert {one: _keys(pilum, uri, one) for one in expected} == expected
        for one in expected:
            if "(p, " in one:
                assert _keys(lance, uri, one) == expected[one]


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_files(tmp_path: Path, version: str) -> None:
    """Both libraries write the same rows, metadata, types and statistics."""
    source = random.Random(5)
    places = [shapely.Point(source.random(), source.random()) for _ in range(300)]
    shapes = [
        None if number % 11 == 0 and version != "2.0" else place  # 2.0 has no structs that are null
        for number, place in enumerate(places)
    ]
    for count in (300, 3, 0):
        made = []
        for library in (lance, pilum):
            uri = str(tmp_path / f"{library.__name__}{count}")
            table = _table("points", shapes[:count])
            dataset = library.write_dataset(
                table, uri, data_storage_version=version, max_rows_per_file=120
            )
            _index(library, dataset)
            [entry] = lance.dataset(uri).list_indices()
            folder = IndexFolder(LocalStore(uri), f"_indices/{entry['uuid']}")
            files = [folder.open(name) for name in ("page_data.lance", "nulls.lance")]
            content = [
                (
                    one.read().to_pylist(),
                    {key: json.loads(value) for key, value in one.metadata.items()},
                    one.schema.types,
                )
                for one in files
            ]
            [described] = lance.dataset(uri).describe_indices()
            figures = library.dataset(uri).stats.index_stats("places")["indices"][0]
            if count:  # otherwise, the reference has no figures
                assert figures.pop("bbox") == pytest.approx(content[0][1]["bbox"], rel=1e-12)
            else:
                figures = None
            made.append((content, described.type_url, described.num_rows_indexed, figures))
        assert made[0] == made[1]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("owner", [lance, pilum])
@pytest.mark.seeds(2)
def test_upkeep(tmp_path: Path, owner: Any, stable: bool, seed: int) -> None:
    """After any changes by either library, filters return the same rows as a look at each row."""
    source = random.Random(f"{seed} {stable} {owner.__name__}")
    uri, layout = str(tmp_path / "t"), source.choice(["points", "polygons", "binary"])
    shapes: dict[int, Any] = {}

    def new(count: int) -> pa.Table:
        made, first = _shapes(layout, count, source), max(shapes, default=-1) + 1
        shapes.update(enumerate(made, first))
        return _table(layout, made, first)

    owner.write_dataset(new(60), uri, max_rows_per_file=20, enable_stable_row_ids=stable)
    _index(owner, owner.dataset(uri))
    versions = {owner.dataset(uri).version: dict(shapes)}
    for _ in range(9):
        library = source.choice([lance, pilum])
        dataset = library.dataset(uri)
        some = [key for key in shapes if source.random() < 0.1]
        keys = ", ".join(map(str, some)) or "-1"
        match source.choice(_CHANGES):
            case "append":
                library.write_dataset(new(source.randrange(1, 30)), uri, mode="append")
            case "delete":
                dataset.delete(f"key IN ({keys})")
                for key in some:
                    del shapes[key]
            case "update":
                dataset.update({"key": "key + 0"}, f"key IN ({keys})")
            case "merge" if some:
                changed = dict(zip(some, _shapes(layout, len(some), source), strict=True))
                table = _table(layout, list(changed.values()))
                table = table.set_column(0, table.schema.field(0), pa.array(list(changed)))
                dataset.merge_insert("key").when_matched_update_all().execute(table)
                shapes.update(changed)
            case "optimise":
                dataset.optimize.optimize_indices(num_indices_to_merge=source.choice([0, 1, 5]))
            case "compact":
                is_deferred = not stable and source.random() < 0.5
                dataset.optimize.compact_files(
                    target_rows_per_fragment=50, defer_index_remap=is_deferred
                )
            case "restore":
                version = source.choice(list(versions))
                library.dataset(uri, version=version).restore()
                shapes = dict(versions[version])
        versions[pilum.dataset(uri).version] = dict(shapes)
        for name in source.sample(_RELATIONS[:8], 3):
            area = source.choice(_AREAS)
            test = getattr(shapely, name[3:].replace("coveredby", "covered_by"))
            area_shape = shapely.from_wkt(area)
            expected = sorted(
                key for key, one in shapes.items() if one is not None and test(one, area_shape)
            )
            filter = f"{name}(p, st_geomfromtext('{area}'))"
            assert _keys(pilum, uri, filter) == expected
            assert _keys(pilum, uri, filter, use_scalar_index=False) == expected
        nulls = sorted(key for key, one in shapes.items() if one is None)
        assert _keys(pilum, uri, "p IS NULL") == nulls
        assert len(_keys(pilum, uri, "p IS NOT NULL")) == len(shapes) - len(nulls)


def test_measures(tmp_path: Path) -> None:
    """Measures have the same values."""
    source, uri = random.Random(3), str(tmp_path / "t")
    shapes = [one for one in _shapes("binary", 80, source) if one is None or not one.is_empty]
    lance.write_dataset(_table("binary", shapes), uri)
    for text in (
        "st_area(p)", "st_length(p)", "st_isempty(p)", "st_isvalid(p)", "st_xmin(p)",
        "st_ymin(p)", "st_xmax(p)", "st_ymax(p)", "st_npoints(p)", "st_geometrytype(p)",
        "st_distance(p, st_geomfromtext('LINESTRING(0 0, 3 9)'))", "st_area(st_convexhull(p))",
        "st_xmax(st_centroid(p))", "st_distance(st_point(1.0, 2.0), p)", "st_asbinary(p)",
    ):  # fmt: skip
        ours, theirs = (
            library.dataset(uri).to_table(columns={"r": text})["r"].to_pylist()
            for library in (pilum, lance)
        )
        assert [one is None for one in ours] == [one is None for one in shapes]
        if isinstance(ours[0], float):
            theirs = [one if one is None else pytest.approx(one, rel=1e-12) for one in theirs]
        assert ours == theirs, text


@pytest.mark.parametrize("layout", ["points", "polygons"])
def test_distances(tmp_path: Path, layout: str) -> None:
    """A limit of the distance from a constant uses the index, of which no row is left out."""
    uri = str(tmp_path / "t")
    lance.write_dataset(_table(layout, _shapes(layout, 200, random.Random(2))), uri)
    _index(lance, lance.dataset(uri))
    for limit in ("0", "1", "1.0", "2.8284271247461903", "-1", "1e400"):
        for form in ("st_distance(p, 'POINT(3 3)') <= {}", "{} > st_distance(st_point(3, 3), p)"):
            filter = form.format(limit)
            expected = _keys(pilum, uri, filter, use_scalar_index=False)
            assert _keys(pilum, uri, filter) == expected
            if limit not in {"-1", "1e400"}:
                assert "(RTree)" in pilum.dataset(uri).scanner(filter=filter).explain_plan()
    assert len(_keys(pilum, uri, "st_distance(p, 'POINT(3 3)') <= 1.0")) > 2


def test_dropped_and_described(tmp_path: Path) -> None:
    """An index that pilum made is described by both, used by plans, prewarmed and dropped."""
    uri = str(tmp_path / "t")
    pilum.write_dataset(_table("points", _shapes("points", 400, random.Random(1))), uri)
    _index(pilum, pilum.dataset(uri))
    for library in (lance, pilum):
        dataset = library.dataset(uri)
        assert "places(RTree)" in dataset.scanner(filter=_WITHIN).explain_plan()
        [described] = dataset.describe_indices()
        assert (described.name, described.num_rows_indexed) == ("places", 400)
        dataset.prewarm_index("places")
    pilum.dataset(uri).drop_index("places")
    assert lance.dataset(uri).describe_indices() == []
    assert _keys(lance, uri, _WITHIN) == _keys(pilum, uri, _WITHIN) != []


def test_distances_that_are_rounded_to_nothing_are_found_by_an_index(tmp_path: Path) -> None:
    """The square of 1e-170 is 0."""
    points = pa.array([{"x": 0.0, "y": 0.0}, {"x": 1e-170, "y": 0.0}, {"x": 1.0, "y": 0.0}])
    field = pa.field("g", points.type, metadata={"ARROW:extension:name": "geoarrow.point"})
    rows = pilum.write_dataset(pa.table([points], schema=pa.schema([field])), tmp_path / "t")
    near = "st_distance(g, st_geomfromtext('POINT(0 0)')) <= 0"
    assert rows.count_rows(near) == 2
    rows.create_scalar_index("g", "RTREE")
    assert pilum.dataset(tmp_path / "t").count_rows(near) == 2
