"""Fragments of a manifest: counted and found without building all of them."""

from __future__ import annotations

import gc
import pickle
import weakref
from dataclasses import replace

import pytest
from stored_manifests import read_manifest

from pilum.errors import CorruptFileError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest


def message(fragments: list[table_pb2.DataFragment]) -> table_pb2.Manifest:
    schema = Schema((Field("a", FieldId(0), "int64"),))
    whole = Manifest(schema, Fragments(), version=1).to_proto()
    whole.fragments.extend(fragments)
    return whole


def test_fragments_are_counted_without_building_them_and_damage_shows_when_they_are() -> None:
    whole = message(fragments=[table_pb2.DataFragment(id=1, physical_rows=5)])
    manifest = read_manifest(whole, where="here")
    assert (manifest.num_rows, manifest.fragments.are_counted) == (5, True)
    with pytest.raises(CorruptFileError, match="5 rows, but no data files") as caught:
        manifest.fragments.all()
    assert "here" in str(caught.value)
    whole.fragments[0].files.add(path="a.lance")
    assert read_manifest(whole) == read_manifest(whole)
    other = replace(read_manifest(whole), fragments=Fragments())
    assert (other.fragments, other.num_rows) == (Fragments(), 0)


def test_a_manifest_that_is_dropped_is_freed_without_the_garbage_collector() -> None:
    """Its message may be large, and opening a table many times would pile them up."""
    file = table_pb2.DataFile(path="a.lance", fields=[0], column_indices=[0])
    whole = message(fragments=[table_pb2.DataFragment(physical_rows=5, files=[file])])
    gc.disable()
    try:
        fragments = read_manifest(whole).fragments
        assert len(fragments.all()) == fragments.bounds.size - 1
        freed = weakref.ref(fragments)
        del fragments
        assert freed() is None
    finally:
        gc.enable()


def test_fragments_are_found_without_building_the_others() -> None:
    files = [
        table_pb2.DataFile(path="a.lance", file_major_version=2, fields=[0], column_indices=[0])
    ]
    deleted = table_pb2.DeletionFile(num_deleted_rows=3, id=1, read_version=1)
    fragments = [
        table_pb2.DataFragment(id=4, files=files, physical_rows=10),
        table_pb2.DataFragment(id=2, files=files, physical_rows=7, deletion_file=deleted),
        table_pb2.DataFragment(id=2**32 - 1, physical_rows=1),
    ]
    manifest = read_manifest(message(fragments=fragments), where="somewhere")
    places = manifest.fragments
    assert (places.ids.tolist(), places.bounds.tolist()) == ([4, 2, 2**32 - 1], [0, 10, 14, 15])
    found = places.find(2)
    assert found is not None
    assert (found.id, found.num_rows) == (2, 4)
    assert places[1] is found
    assert places.find(3) is None
    assert places.are_distinct
    with pytest.raises(CorruptFileError, match=r"no data files\n  somewhere"):
        places.find(2**32 - 1)


def test_fragments_are_found_among_those_that_are_built() -> None:
    fragments = [
        table_pb2.DataFragment(id=number, physical_rows=2, files=[{"path": path}])
        for number, path in ((3, "a.lance"), (1, "b.lance"), (3, "c.lance"))
    ]
    manifest = read_manifest(message(fragments=fragments))
    places = Fragments(manifest.fragments)
    assert (places.ids.tolist(), places.bounds.tolist()) == ([3, 1, 3], [0, 2, 4, 6])
    assert not places.are_distinct


def test_fragments_are_a_sequence_however_they_are_made() -> None:
    stored = [
        table_pb2.DataFragment(id=number, physical_rows=2, files=[{"path": f"{number}.lance"}])
        for number in range(3)
    ]
    lazy = read_manifest(message(stored)).fragments
    listed = Fragments(read_manifest(message(stored)).fragments)
    later = Fragments(lambda: listed)
    for fragments in (lazy, listed, later):
        assert [int(one.id) for one in fragments] == [0, 1, 2]
        assert (len(fragments), fragments[1], fragments[-1]) == (3, listed[1], listed[2])
        assert fragments[1:] == listed.all()[1:]
        assert fragments == listed
        assert fragments != Fragments(listed[:2])
    for fragments in (lazy, listed):
        assert pickle.loads(pickle.dumps(fragments)) == listed
