"""Fragments as messages and as JSON."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.fields import FieldId
from pilum.format.pb import table_pb2
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.stored_sequence import IN_HIDDEN_COLUMN, ExternalSequence, StoredSequence

field_lists = st.lists(st.integers(-5, 2**31 - 1), max_size=5)
data_files = st.builds(
    lambda path, fields, major, minor, size: DataFile(
        path, tuple(map(FieldId, fields)), tuple(range(len(fields))), major, minor, size
    ),
    st.text(),
    field_lists,
    st.integers(0, 3),
    st.integers(0, 3),
    st.none() | st.integers(1, 2**63),
)
fragments = st.builds(
    Fragment,
    st.integers(0, 2**32 - 1).map(FragmentId),
    st.lists(data_files, max_size=3).map(tuple),
    st.integers(0, 2**63),
)
FILE: dict[str, Any] = {"path": "x", "fields": [0], "column_indices": [0]}
FRAGMENT: dict[str, Any] = {"id": 1, "files": [FILE], "physical_rows": 3}
DELETED: dict[str, Any] = {"read_version": 1, "id": 7, "file_type": "array", "num_deleted_rows": 2}


@given(fragments)
@pytest.mark.checklist("S2.3")
def test_a_fragment_survives_every_form(fragment: Fragment) -> None:
    data = fragment.to_proto().SerializeToString()
    assert Fragment.from_proto(table_pb2.DataFragment.FromString(data)) == fragment
    assert Fragment.from_json(json.loads(json.dumps(fragment.to_json()))) == fragment
    assert pickle.loads(pickle.dumps(fragment)) == fragment


@pytest.mark.parametrize(
    "message",
    [
        {"id": 2**32},
        {"files": [{"path": "../../other/data/x.lance"}]},
        {"files": [{"path": "x", "fields": [0, 1], "column_indices": [0]}]},
        {"files": [{"path": "x", "fields": [0], "file_major_version": 2}]},
    ],
)
def test_contradictions_are_damage(message: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError):
        Fragment.from_proto(table_pb2.DataFragment(**message))


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        {},
        {**FRAGMENT, "id": -1},
        {**FRAGMENT, "id": "x"},
        {**FRAGMENT, "physical_rows": -3},
        {**FRAGMENT, "files": None},
        {**FRAGMENT, "files": [None]},
        {**FRAGMENT, "files": [{"path": "x"}]},
        {**FRAGMENT, "files": [{**FILE, "fields": ["a"]}]},
        {**FRAGMENT, "deletion_file": 1},
        {**FRAGMENT, "deletion_file": {"id": 1}},
        {**FRAGMENT, "deletion_file": {**DELETED, "file_type": "list"}},
        {**FRAGMENT, "deletion_file": {**DELETED, "id": -1}},
        {**FRAGMENT, "deletion_file": {**DELETED, "id": 2**64}},
        {**FRAGMENT, "deletion_file": {**DELETED, "base_id": -1}},
        {**FRAGMENT, "files": [{**FILE, "base_id": "x"}]},
        {**FRAGMENT, "files": [{**FILE, "base_id": 2**32}]},
        {**FRAGMENT, "overlays": [{}]},
        {**FRAGMENT, "overlays": [{"data_file": FILE, "offsets": 1}]},
    ],
)
def test_json_that_is_no_fragment(data: Any) -> None:
    with pytest.raises(InvalidInputError, match="not a"):
        Fragment.from_json(data)


SEQUENCES = [
    None,
    b"\x0a\x04\x0a\x02\x10\x05",
    ExternalSequence("sequences/1", 5, 9),
    IN_HIDDEN_COLUMN,
]


@pytest.mark.parametrize("created_at", SEQUENCES)
@pytest.mark.parametrize("row_ids", SEQUENCES)
def test_sequences_of_rows_are_carried(
    row_ids: StoredSequence | None, created_at: StoredSequence | None
) -> None:
    """S2.12: inline or external."""
    fragment = Fragment(FragmentId(1), (), 5, None, row_ids, created_at, row_ids)
    message = fragment.to_proto().SerializeToString()
    assert Fragment.from_proto(table_pb2.DataFragment.FromString(message)) == fragment
    assert Fragment.from_json(json.loads(json.dumps(fragment.to_json()))) == fragment


@pytest.mark.parametrize("value", [{"Inline": 10**12}, {"Inline": [256]}, {"other": []}, "x", {}])
def test_json_of_no_sequence(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="row_id_meta"):
        Fragment.from_json({**FRAGMENT, "row_id_meta": value})
