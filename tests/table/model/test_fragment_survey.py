"""Surveys of the fragments of manifests agree with protobuf, and notice all that is unusual."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError
from pilum.format.pb import table_pb2
from pilum.table.model.fragment_survey import FragmentSurvey, Trait

NUMBERS = st.integers(0, 2**64 - 1) | st.integers(0, 300)
SEQUENCES = ("row_ids", "created_at_versions", "last_updated_at_versions")


@st.composite
def data_files(draw: st.DrawFn) -> table_pb2.DataFile:
    columns = draw(st.lists(st.integers(-2, 300), max_size=3))
    return table_pb2.DataFile(
        path=draw(st.sampled_from(("a.lance", "b.lance", "ä", "", "a\0", "../a"))),
        fields=columns,
        column_indices=columns[::-1],
        file_major_version=draw(st.integers(0, 2)),
        file_size_bytes=draw(NUMBERS),
        base_id=draw(st.none() | st.integers(0, 2**32 - 1)),
    )


@st.composite
def data_fragments(draw: st.DrawFn) -> table_pb2.DataFragment:
    made = table_pb2.DataFragment(
        id=draw(NUMBERS),
        physical_rows=draw(NUMBERS),
        files=draw(st.lists(data_files(), max_size=3)),
    )
    if draw(st.booleans()):
        kind = draw(st.sampled_from((b"", b"\x08\x01", b"\x08\x07")))  # 7: unknown so far
        made.deletion_file.MergeFromString(kind)
        made.deletion_file.MergeFrom(
            table_pb2.DeletionFile(
                read_version=draw(NUMBERS),
                id=draw(NUMBERS),
                num_deleted_rows=draw(NUMBERS),
                base_id=draw(st.none() | st.integers(0, 9)),
            )
        )
    for name in SEQUENCES:
        how = draw(st.sampled_from(("", "inline", "spilled", "external")))
        if how == "inline":
            setattr(made, f"inline_{name}", draw(st.binary(max_size=3)))
        elif how:
            getattr(made, f"{how}_{name}").SetInParent()
    if draw(st.integers(0, 5)) == 0:
        draw(st.sampled_from((_overlay, _metadata, _clustering)))(made)
    return made


def _overlay(made: table_pb2.DataFragment) -> None:
    made.overlays.add()


def _metadata(made: table_pb2.DataFragment) -> None:
    made.metadata["a"] = "b"


def _clustering(made: table_pb2.DataFragment) -> None:
    made.clustering_id = 3


def traits_of(fragment: table_pb2.DataFragment) -> int:
    """Returns what protobuf finds, apart from being odd."""
    found = 0
    if fragment.HasField("deletion_file"):
        found |= Trait.DELETIONS
        if fragment.deletion_file.HasField("base_id"):
            found |= Trait.DELETIONS_ELSEWHERE
    if fragment.overlays:
        found |= Trait.OVERLAYS
    if fragment.WhichOneof("row_id_sequence"):
        found |= Trait.ROW_IDS
    if any(fragment.HasField(f"spilled_{name}") for name in SEQUENCES):
        found |= Trait.HIDDEN_COLUMNS
    return found


def is_odd(fragment: table_pb2.DataFragment) -> bool:
    paths = [(file.path, file.HasField("base_id"), file.base_id) for file in fragment.files]
    return (
        not paths
        or len({*paths}) < len(paths)
        or any(not path or "\0" in path or ".." in path for path, _, _ in paths)
        or fragment.deletion_file.file_type > 1
        or bool(fragment.overlays or fragment.metadata or fragment.clustering_id)
    )


def layout_of(file: table_pb2.DataFile) -> tuple[Any, ...]:
    base = (file.HasField("base_id"), file.base_id)
    return *file.fields, None, *file.column_indices, None, file.file_major_version, base


@given(st.lists(data_fragments(), max_size=4), st.binary(max_size=3), st.booleans())
def test_a_survey_finds_what_protobuf_finds(
    fragments: list[table_pb2.DataFragment], tag: bytes, is_torn: bool
) -> None:
    whole = table_pb2.Manifest(fragments=fragments, version=5)
    data = whole.SerializeToString()
    if is_torn:  # members in any order, and some of them twice
        extra = table_pb2.Manifest(fragments=fragments[:1], index_section=len(tag))
        data += extra.SerializeToString()
        whole.MergeFrom(extra)
    survey = FragmentSurvey.of(data)
    assert survey.ids.tolist() == [one.id for one in whole.fragments]
    assert survey.rows.tolist() == [one.physical_rows for one in whole.fragments]
    deleted = [one.deletion_file.num_deleted_rows for one in whole.fragments]
    assert survey.deleted.tolist() == deleted
    for traits, one in zip(survey.traits.tolist(), whole.fragments, strict=True):
        assert traits & ~Trait.ODD == traits_of(one)
        assert traits & Trait.ODD or not is_odd(one)
    assert survey.parsed() == list(whole.fragments)
    for place, one in enumerate(whole.fragments):
        assert survey.parsed(place, place + 1) == [one]
    layouts = {layout_of(file) for one in whole.fragments for file in one.files}
    samples = [whole.fragments[place] for place in survey.samples.tolist()]
    assert {layout_of(file) for one in samples for file in one.files} == layouts
    whole.ClearField("fragments")
    assert table_pb2.Manifest.FromString(survey.head) == whole


@given(st.lists(data_fragments(), min_size=1, max_size=2), st.data())
def test_a_fragment_that_is_not_odd_is_a_message(
    fragments: list[table_pb2.DataFragment], data: st.DataObject
) -> None:
    damaged = bytearray(table_pb2.Manifest(fragments=fragments).SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        survey = FragmentSurvey.of(bytes(damaged))
    except CorruptFileError:
        with pytest.raises(DecodeError):
            table_pb2.Manifest.FromString(bytes(damaged))
        return
    for place in range(len(survey)):
        if not survey.traits[place] & Trait.ODD:
            [parsed] = survey.parsed(place, place + 1)
            known = table_pb2.DataFragment()
            known.CopyFrom(parsed)
            known.DiscardUnknownFields()
            assert (known.ByteSize(), is_odd(known)) == (parsed.ByteSize(), False)
            assert known.id == survey.ids[place]
            assert known.physical_rows == survey.rows[place]
            assert traits_of(known) == survey.traits[place]


def test_bytes_that_are_cut_short_are_no_manifest() -> None:
    file = table_pb2.DataFile(path="a.lance", fields=[1], column_indices=[0])
    data = table_pb2.Manifest(fragments=[{"id": 1, "files": [file]}]).SerializeToString()
    for end in range(1, len(data)):
        with pytest.raises(CorruptFileError, match="not a Manifest"):
            FragmentSurvey.of(data[:end])
    assert len(FragmentSurvey.of(b"")) == 0
    assert np.array_equal(FragmentSurvey.of(data).samples, [0])
