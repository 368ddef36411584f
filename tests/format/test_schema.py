"""Damaged schemas are refused where they are parsed."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pilum.errors import CorruptFileError
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema


def test_a_field_of_nulls_only_that_allows_none() -> None:
    """Arrow has no such field; `make explore` found it in a damaged file."""
    field = file_pb2.Field(name="x", id=0, parent_id=-1, logical_type="null", nullable=False)
    with pytest.raises(CorruptFileError, match="field 'x': of type null, but not nullable"):
        Schema.from_proto([field])


def test_marks_are_found_at_any_depth() -> None:
    plain = pa.field("x", pa.int64())
    marked = plain.with_metadata({"ARROW:extension:name": "arrow.json"})
    for field, has_marks in ((plain, False), (marked, True)):
        nested = pa.schema([pa.field("s", pa.struct([pa.field("l", pa.list_(field))]))])
        assert Schema.from_arrow(nested).has_marks is has_marks
