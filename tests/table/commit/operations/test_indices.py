"""What operations do to the index section (S14.2, S21)."""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
import pytest
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.commit.operations.indices import (
    retained_indices,
    with_moved_rows,
    with_rewritten_fragments,
    without_fragments,
)
from pilum.table.model.coverage import related_fields
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.index_segments import covered_fragments

SCHEMA = Schema.from_arrow(
    pa.schema(
        [
            pa.field("a", pa.int32()),
            pa.field("s", pa.struct([pa.field("x", pa.int8()), pa.field("y", pa.int8())])),
        ]
    )
)
A, S, X, Y = range(4)


def entry(
    name: str,
    fields: list[int],
    covers: list[int] | None,
    *,
    version: int = 1,
    details: str = "/lance.table.BitmapIndexDetails",
) -> table_pb2.IndexMetadata:
    index = table_pb2.IndexMetadata(name=name, fields=fields, dataset_version=version)
    index.uuid.uuid = uuid4().bytes
    index.index_details.type_url = details
    if covers is not None:
        bitmap = BitMap(covers)
        bitmap.run_optimize()
        index.fragment_bitmap = bitmap.serialize()
    return index


def section(*indices: table_pb2.IndexMetadata) -> bytes:
    # Members 13 of the index and 9 of the section are from the future.
    data: bytes = table_pb2.IndexSection(indices=indices).SerializeToString() + b"\x4a\x02hi"
    return data


def covers(data: bytes) -> list[tuple[str, list[int] | None]]:
    found = table_pb2.IndexSection.FromString(data).indices
    bitmaps = [(index.name, covered_fragments(index)) for index in found]
    return [(name, None if bitmap is None else list(bitmap)) for name, bitmap in bitmaps]


def fragments(*ids: int) -> Fragments:
    return Fragments(Fragment(FragmentId(number), (), 1) for number in ids)


def test_an_index_goes_with_its_column_and_system_indices_stay() -> None:
    data = section(entry("a", [A], [0]), entry("x", [X], [0]), entry("__lance_mem_wal", [], None))
    left = Schema(SCHEMA.fields[1:])
    assert covers(retained_indices(data, left, fragments(0))) == [
        ("x", [0]),
        ("__lance_mem_wal", None),
    ]
    assert retained_indices(data, SCHEMA, fragments(0)) is data
    assert retained_indices(b"", SCHEMA, fragments(0)) == b""


def test_members_of_newer_writers_stay() -> None:
    newer = entry("a", [A], [0, 1]).SerializeToString() + b"\x6a\x05later"
    data = section(table_pb2.IndexMetadata.FromString(newer), entry("x", [X], [0]))
    for changed in (
        retained_indices(data, Schema(SCHEMA.fields[:1]), fragments(0)),
        without_fragments(data, [1], [A]),
    ):
        assert b"\x6a\x05later" in changed
        assert b"\x4a\x02hi" in changed


@pytest.mark.parametrize(
    ("segments", "existing", "kept"),
    [
        ([([0, 1], 3), ([2], 9)], [2], [9]),
        ([([0, 1], 3), ([2], 9)], [0, 2], [3, 9]),
        ([([0, 1], 9), ([2], 3)], [7], [3]),
        ([(None, 5), ([2], 3)], [7], [5]),
        ([([0], 5)], [7], [5]),
    ],
)
def test_of_several_segments_those_stay_that_cover_something(
    segments: list[tuple[list[int] | None, int]], existing: list[int], kept: list[int]
) -> None:
    data = section(*(entry("a", [A], ids, version=version) for ids, version in segments))
    found = retained_indices(data, SCHEMA, fragments(*existing))
    indices = table_pb2.IndexSection.FromString(found).indices
    assert [index.dataset_version for index in indices] == kept


def test_segments_stay_where_ids_may_have_been_renamed() -> None:
    reuse = entry("__lance_frag_reuse", [], [9])
    data = section(entry("a", [A], [0]), entry("a", [A], [1]), reuse)
    assert retained_indices(data, SCHEMA, fragments(9)) is data


def test_new_values_take_a_fragment_out_of_indices_on_them() -> None:
    data = section(entry("a", [A], [0, 1]), entry("s", [S], [0, 1]), entry("u", [X], None))
    assert covers(without_fragments(data, [1, 5], related_fields(SCHEMA, [X]))) == [
        ("a", [0, 1]),
        ("s", [0]),
        ("u", None),
    ]
    assert without_fragments(data, [5], [A]) is data


def test_related_fields_are_those_above_and_below() -> None:
    assert related_fields(SCHEMA, [X]) == {S, X}
    assert related_fields(SCHEMA, [S]) == {S, X, Y}
    assert related_fields(SCHEMA, [A, 77]) == {A, 77}


def test_rewritten_fragments_take_the_place_of_the_old_ones_if_rows_have_ids() -> None:
    zones = "/lance.table.BTreeIndexDetails"
    data = section(
        entry("a", [A], [0, 1, 2]),
        entry("x", [X], [2]),
        entry("z", [Y], [0, 1, 2], details=zones),
        entry("u", [Y], None),
    )
    groups = [([0, 1], [3])]
    assert covers(with_rewritten_fragments(data, groups, stable_row_ids=True)) == [
        ("a", [2, 3]),
        ("x", [2]),
        ("z", [2]),
        ("u", None),
    ]
    assert with_rewritten_fragments(data, groups, stable_row_ids=False) is data
    with pytest.raises(InvalidInputError, match=r"index 'x' covers the fragments \[2\]"):
        with_rewritten_fragments(data, [([1, 2], [3])], stable_row_ids=True)


def test_moved_rows_are_still_known_to_indices_on_other_columns() -> None:
    zones = "/lance.table.BTreeIndexDetails"
    data = section(
        entry("a", [A], [0, 1]),
        entry("x", [X], [0, 1]),
        entry("part", [Y], [0]),
        entry("z", [Y], [0, 1], details=zones),
    )
    assert covers(with_moved_rows(data, [0, 1], [2], related_fields(SCHEMA, [A]))) == [
        ("a", [0, 1]),
        ("x", [0, 1, 2]),
        ("part", [0]),
        ("z", [0, 1]),
    ]


def test_a_damaged_bitmap_is_refused() -> None:
    broken = entry("a", [A], [0, 1])
    broken.fragment_bitmap = broken.fragment_bitmap[:-1]
    with pytest.raises(CorruptFileError, match="index 'a'"):
        without_fragments(section(broken), [0], [A])
