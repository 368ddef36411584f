"""Fragments of the next version: checked and written without building those that stay."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored_manifests import read_manifest, stored_fragments, with_fragments

from pilum.errors import CorruptFileError
from pilum.format.fields import Field, FieldId
from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.commit.operations.base import all_by_id
from pilum.table.commit.operations.delete import Delete
from pilum.table.model.features import Feature
from pilum.table.model.fragment import DeletionFile, DeletionFileType, Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.next_fragments import ChangedFragments, GrownFragments
from pilum.table.model.stored_fragments import StoredFragments

PROPERTIES = (
    *("num_rows", "are_counted", "are_distinct", "highest_id"),
    *("formats", "have_deletions", "have_row_ids", "have_hidden_columns"),
)


@st.composite
def fragment_messages(draw: st.DrawFn, fragment_id: int) -> table_pb2.DataFragment:
    message = table_pb2.DataFragment(id=fragment_id, physical_rows=draw(st.integers(5, 9)))
    for number in range(draw(st.integers(1, 2))):
        message.files.add(
            path=f"{fragment_id}-{number}.lance",
            fields=[2 * number, 2 * number + 1],
            column_indices=[0, 1],
            file_major_version=2,
            file_minor_version=draw(st.integers(0, 2)),
        )
    if draw(st.booleans()):
        deleted = draw(st.integers(1, 5))
        message.deletion_file.MergeFrom(table_pb2.DeletionFile(id=1, num_deleted_rows=deleted))
    sequence = draw(st.sampled_from(("", "inline", "column")))
    if sequence == "inline":
        message.inline_row_ids = b"\x0a\x02\x10\x05"
    elif sequence == "column":
        message.spilled_row_ids.SetInParent()
    return message


@st.composite
def manifest_messages(draw: st.DrawFn, most: int = 5) -> table_pb2.Manifest:
    schema = Schema((Field("a", FieldId(0), "int64"),))
    whole = Manifest(schema, Fragments(), version=1).to_proto()
    whole.writer_feature_flags = whole.reader_feature_flags = int(Feature.STABLE_ROW_IDS)
    ids = sorted(draw(st.sets(st.integers(0, 50), max_size=most)))
    whole.fragments.extend([draw(fragment_messages(number)) for number in ids])
    return whole


@given(manifest_messages(), st.data())
def test_grown_fragments_are_those_of_the_version_and_the_new_ones(
    whole: table_pb2.Manifest, data: st.DataObject
) -> None:
    stored = read_manifest(whole).fragments
    first = stored.highest_id + 1
    messages = [
        data.draw(fragment_messages(first + n)) for n in range(data.draw(st.integers(0, 3)))
    ]
    new = [Fragment.from_proto(message) for message in messages]
    grown = all_by_id(stored, new)
    plain = Fragments((*map(Fragment.from_proto, whole.fragments), *new))
    assert isinstance(grown, GrownFragments)
    assert grown.ids.tolist() == plain.ids.tolist()
    assert grown.bounds.tolist() == plain.bounds.tolist()
    for name in PROPERTIES:
        assert getattr(grown, name) == getattr(plain, name), name
    assert [grown[place] for place in range(len(grown))] == list(plain)
    assert grown == plain
    assert with_fragments(grown) == with_fragments(plain)
    assert pickle.loads(pickle.dumps(grown)) == plain


@given(manifest_messages(), st.data())
def test_changed_fragments_are_those_of_the_version_except_for_some(
    whole: table_pb2.Manifest, data: st.DataObject
) -> None:
    stored = stored_fragments(whole)
    before = [*map(Fragment.from_proto, whole.fragments)]
    ids = [one.id for one in before]
    chosen = st.sets(st.sampled_from(ids)) if ids else st.just(set())
    updated, removed = data.draw(chosen), data.draw(chosen)
    deleted = DeletionFile(DeletionFileType.ARROW, 2, 7, 1)
    changed = {one.id: replace(one, deletion_file=deleted) for one in before if one.id in updated}
    found = ChangedFragments(stored, changed, removed)
    plain = Fragments(changed.get(one.id, one) for one in before if one.id not in removed)
    same_as(found, plain)
    new = Fragment.from_proto(data.draw(fragment_messages(60)))
    same_as(all_by_id(found, [new]), Fragments((*plain, new)))


def same_as(found: Fragments, plain: Fragments) -> None:
    """Asserts that fragments are equal, whichever of them are built."""
    assert len(found) == len(plain)
    assert found.ids.tolist() == plain.ids.tolist()
    assert found.bounds.tolist() == plain.bounds.tolist()
    assert with_fragments(found) == with_fragments(plain)
    assert [found[place] for place in range(len(found))] == list(plain)
    for name in PROPERTIES:
        assert getattr(found, name) == getattr(plain, name), name
    assert found == plain
    assert pickle.loads(pickle.dumps(found)) == plain


def test_a_delete_builds_only_the_fragments_that_it_changes() -> None:
    schema = Schema((Field("a", FieldId(0), "int64"),))
    whole = Manifest(schema, Fragments(), version=1).to_proto()
    rows = [table_pb2.DataFragment(id=n, physical_rows=5, files=[file()]) for n in range(50)]
    whole.fragments.extend(rows)
    manifest = read_manifest(whole)
    stored = manifest.fragments
    assert isinstance(stored, StoredFragments)
    image = Fragment(FragmentId(7), (), 0, DeletionFile(DeletionFileType.ARROW, 2, 7, 1))
    made = Delete(updated=(image,), removed=(FragmentId(9),)).apply(manifest).with_flags()
    written = with_fragments(made.fragments)
    assert stored._all is None
    assert list(stored._built) == [7]
    assert [one.id for one in written.fragments] == [n for n in range(50) if n != 9]
    assert made.fragments.num_rows == 49 * 5 - 1
    assert made.reader_flags & Feature.DELETION_FILES


@given(manifest_messages(most=3), st.integers(0, 60))
def test_a_new_fragment_may_have_an_id_between_the_others(
    whole: table_pb2.Manifest, number: int
) -> None:
    stored = read_manifest(whole).fragments
    ids = stored.ids.tolist()
    new = Fragment.from_proto(table_pb2.DataFragment(id=number, physical_rows=5))
    if number in ids:
        with pytest.raises(ValueError, match="taken"):
            all_by_id(stored, [new])
    else:
        assert all_by_id(stored, [new]).ids.tolist() == sorted([*ids, number])


def file(**changed: Any) -> table_pb2.DataFile:
    given = {"path": "a.lance", "fields": [0], "column_indices": [0], "file_major_version": 2}
    return table_pb2.DataFile(**{**given, **changed})


DAMAGED = {
    "no data files": [],
    "no file has this name": [file(path="")],
    "outside of the table": [file(path="../a.lance")],
    "2 fields have 1 columns": [file(fields=[0, 1])],
    "no field has the id": [file(fields=[-9])],
    "field 0 is listed twice": [file(fields=[0, 0], column_indices=[0, 1])],
    "^listed twice": [file(), file()],
}


@pytest.mark.parametrize("text", DAMAGED)
def test_damage_to_any_fragment_shows_before_a_commit(text: str) -> None:
    schema = Schema((Field("a", FieldId(0), "int64"),))
    whole = Manifest(schema, Fragments(), version=1).to_proto()
    sound = [table_pb2.DataFragment(id=n, physical_rows=5, files=[file()]) for n in range(3)]
    damaged = table_pb2.DataFragment(id=3, physical_rows=5, files=DAMAGED[text])
    whole.fragments.extend([*sound, damaged])
    fragments = read_manifest(whole, where="here").fragments
    with pytest.raises(CorruptFileError, match=text):
        fragments.require_sound()
    with pytest.raises(CorruptFileError, match=text):
        fragments.all()
    del whole.fragments[3]
    stored_fragments(whole).require_sound()
