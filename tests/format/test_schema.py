"""Damaged schemas are refused where they are parsed."""

from __future__ import annotations

import pytest

from pilum.errors import CorruptFileError
from pilum.format.pb import file_pb2
from pilum.format.schema import Schema


def test_a_field_of_nulls_only_that_allows_none() -> None:
    """Arrow has no such field; `make explore` found it in a damaged file."""
    field = file_pb2.Field(name="x", id=0, parent_id=-1, logical_type="null", nullable=False)
    with pytest.raises(CorruptFileError, match="field 'x': of type null, but not nullable"):
        Schema.from_proto([field])
