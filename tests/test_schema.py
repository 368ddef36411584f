"""Schemas in JSON, and schemas with field ids."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.schema import LanceSchema, json_to_schema, schema_to_json

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")

TYPES = [
    *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.binary(3)),
    *(pa.date32(), pa.date64(), pa.time32("ms"), pa.time64("ns"), pa.duration("s")),
    *(pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.decimal128(10, 2), pa.decimal256(40, 3)),
    pa.dictionary(pa.int32(), pa.string()),
    pa.list_(pa.int8()),
    pa.large_list(pa.field("one", pa.string(), nullable=False)),
    pa.list_(pa.float32(), 4),
    pa.struct([pa.field("x", pa.list_(pa.struct([("y", pa.int32())]))), ("z", pa.binary(2))]),
    *(pa.json_(), pa.uuid(), pa.list_(pa.uuid()), pa.fixed_shape_tensor(pa.float32(), [2, 3])),
]
PLAIN = pa.schema(
    [
        pa.field("id", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"}),
        pa.field("s", pa.struct([pa.field("x", pa.string()), pa.field("Y", pa.int32())])),
    ],
    metadata={"owner": "me"},
)


@pytest.mark.reference
@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_json_is_that_of_the_reference(kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("a", kind, metadata={"k": "v"})], metadata={"m": "n"})
    found = schema_to_json(schema)
    assert found == lance.schema.schema_to_json(schema)
    assert json_to_schema(found).equals(schema, check_metadata=True)
    assert lance.schema.json_to_schema(found).equals(schema, check_metadata=True)


def test_what_json_cannot_express_is_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="map"):
        schema_to_json(pa.schema([("m", pa.map_(pa.string(), pa.int32()))]))


@pytest.mark.parametrize(
    "damaged",
    [
        {},
        {"fields": 1},
        {"fields": [{"name": "a"}]},
        {"fields": [{"name": "a", "type": {"type": "float12"}, "nullable": True}]},
        {"fields": [{"name": "a", "type": {"type": "list", "fields": []}, "nullable": True}]},
        [],
    ],
)
def test_other_json_is_refused(damaged: Any) -> None:
    with pytest.raises((InvalidInputError, UnsupportedTypeError)):
        json_to_schema(damaged)


@pytest.mark.reference
def test_fields_are_those_of_the_reference() -> None:
    ours, theirs = LanceSchema.from_pyarrow(PLAIN), lance.schema.LanceSchema.from_pyarrow(PLAIN)
    for name in ("id", "s", "s.x", "s.Y", "s.y", "S.X", "none", "s.none"):
        for find in ("field", "field_case_insensitive"):
            mine, other = getattr(ours, find)(name), getattr(theirs, find)(name)
            assert (mine is None) == (other is None), (name, find)
            if mine is not None:
                assert mine.name() == other.name()
                assert mine.id() == other.id()
                assert [one.id() for one in mine.children()] == [
                    one.id() for one in other.children()
                ]
                assert mine.is_unenforced_primary_key() == other.is_unenforced_primary_key()
                assert mine.metadata == other.metadata
                assert mine.to_arrow() == other.to_arrow()
    assert [one.name() for one in ours.unenforced_primary_key()] == ["id"]
    assert ours.unenforced_clustering_key() == []
    assert ours.to_pyarrow().equals(PLAIN, check_metadata=True)


def test_a_schema_survives_pickling_and_is_text(tmp_path: Any) -> None:
    dataset = pilum.write_dataset(PLAIN.empty_table(), tmp_path / "t")
    found = dataset.lance_schema
    assert pickle.loads(pickle.dumps(found)) == found == LanceSchema.from_pyarrow(PLAIN)
    assert str(found).splitlines() == [
        "id: int64 not null (field 0)",
        "s: struct (field 1)",
        "  x: string (field 2)",
        "  Y: int32 (field 3)",
    ]
