"""Merge and Project against a manifest: what they change, keep and refuse (S2.9)."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.fields import FieldId
from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.changes.schema_changes import with_new_columns, without
from pilum.table.commit.operations.merge import Merge
from pilum.table.commit.operations.project import Project
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest

SCHEMA = Schema.from_arrow(
    pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.int64()), ("y", pa.string())]))])
)
COLUMNS = pa.schema([("b", pa.int8()), ("c", pa.list_(pa.int8()))])


def file(path: str, *fields: int) -> DataFile:
    return DataFile(path, tuple(map(FieldId, fields)), tuple(range(len(fields))), 2, 1, 100)


FRAGMENT = Fragment(FragmentId(0), (file("f", 0, 2), file("g", 3)), 10)


def manifest(*indices: table_pb2.IndexMetadata, fragment: Fragment = FRAGMENT) -> Manifest:
    section = table_pb2.IndexSection(indices=indices).SerializeToString()
    return Manifest(SCHEMA, Fragments([fragment]), 3, index_section=section)


def index(name: str, *fields: int) -> table_pb2.IndexMetadata:
    return table_pb2.IndexMetadata(name=name, fields=fields, dataset_version=3)


def test_files_without_any_column_left_go_and_others_stay_as_they_are() -> None:
    made = Project(without(SCHEMA, ["s.y"])).apply(manifest())
    assert made.fragments == Fragments([replace(FRAGMENT, files=FRAGMENT.files[:1])])
    assert Project(without(SCHEMA, ["a"])).apply(manifest()).fragments == Fragments([FRAGMENT])


def test_a_fragment_never_loses_its_last_file() -> None:
    fragment = replace(FRAGMENT, files=FRAGMENT.files[:1])
    made = Project(without(SCHEMA, ["a", "s.x"])).apply(manifest(fragment=fragment))
    assert made.fragments == Fragments([fragment])


def test_indices_go_with_their_columns() -> None:
    base = manifest(index("on a", 0), index("on y", 3), index("__lance_frag_reuse"))
    made = Project(without(SCHEMA, ["s.y"])).apply(base)
    kept = table_pb2.IndexSection.FromString(made.index_section).indices
    assert [one.name for one in kept] == ["on a", "__lance_frag_reuse"]
    assert Project(SCHEMA).apply(base).index_section == base.index_section
    assert Project(without(SCHEMA, ["a"])).apply(manifest(index("on a", 0))).index_section == b""


def test_new_ids_are_above_those_of_dropped_columns_that_files_still_hold() -> None:
    fragment = replace(FRAGMENT, files=(file("f", 0, 2, 7, -2),))
    _, new = with_new_columns(manifest(fragment=fragment), COLUMNS)
    assert [field.id for field in new.walk()] == [8, 9, 10]
    _, new = with_new_columns(manifest(), COLUMNS)
    assert [field.id for field in new.walk()] == [4, 5, 6]


def test_a_merge_may_only_add() -> None:
    schema, _ = with_new_columns(manifest(), COLUMNS)
    grown = replace(FRAGMENT, files=(*FRAGMENT.files, file("h", 4, 6)))
    assert Merge(schema, (grown,)).apply(manifest()).fragments == Fragments([grown])
    for wrong in (
        replace(grown, files=grown.files[1:]),
        replace(grown, physical_rows=9),
        replace(grown, id=FragmentId(1)),
    ):
        with pytest.raises(InvalidInputError):
            Merge(schema, (wrong,)).apply(manifest())
    for fields in ((4, 9), (0, 4)):
        twice = replace(FRAGMENT, files=(*FRAGMENT.files, file("h", *fields)))
        with pytest.raises(SchemaMismatchError, match="data file h"):
            Merge(schema, (twice,)).apply(manifest())


def test_a_projection_knows_no_other_fields_or_types() -> None:
    with pytest.raises(SchemaMismatchError, match="no field 4"):
        Project(with_new_columns(manifest(), COLUMNS)[0]).apply(manifest())
    with pytest.raises(SchemaMismatchError, match="type"):
        Project(Schema.from_arrow(pa.schema([("a", pa.int64())]))).apply(manifest())
    with pytest.raises(InvalidInputError):
        Project(Schema(())).apply(manifest())
