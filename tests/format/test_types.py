"""Names of types, both ways."""

from __future__ import annotations

import pyarrow as pa
import pytest
from container.arrays import LEAVES

from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.types import arrow_of_leaf, logical_type

NAMES = {
    pa.bool_(): "bool",
    pa.float16(): "halffloat",
    pa.float64(): "double",
    pa.date32(): "date32:day",
    pa.date64(): "date64:ms",
    pa.time32("ms"): "time32:ms",
    pa.duration("ns"): "duration:ns",
    pa.timestamp("us"): "timestamp:us:-",
    pa.timestamp("us", "UTC"): "timestamp:us:UTC",
    pa.timestamp("ns", "+05:30"): "timestamp:ns:+05:30",
    pa.decimal128(10, 2): "decimal:128:10:2",
    pa.decimal256(60, -3): "decimal:256:60:-3",
    pa.binary(16): "fixed_size_binary:16",
    pa.list_(pa.float32(), 128): "fixed_size_list:float:128",
    pa.list_(pa.list_(pa.int8(), 2), 3): "fixed_size_list:fixed_size_list:int8:2:3",
    pa.list_(pa.decimal128(9, 1), 4): "fixed_size_list:decimal:128:9:1:4",
    pa.list_(pa.timestamp("s", "+01:00"), 2): "fixed_size_list:timestamp:s:+01:00:2",
    pa.dictionary(pa.int32(), pa.string()): "dict:string:int32:false",
    pa.dictionary(pa.uint8(), pa.float16()): "dict:halffloat:uint8:false",
    pa.dictionary(pa.uint64(), pa.bool_()): "dict:bool:uint64:false",
}


@pytest.mark.parametrize("kind", NAMES, ids=str)
def test_names(kind: pa.DataType) -> None:
    assert logical_type(kind) == NAMES[kind]
    assert arrow_of_leaf(NAMES[kind]) == kind


@pytest.mark.parametrize("kind", LEAVES, ids=str)
def test_every_leaf_there_and_back(kind: pa.DataType) -> None:
    assert arrow_of_leaf(logical_type(kind)) == kind


def test_nested_types_name_their_own_level() -> None:
    structs = pa.struct([("x", pa.int8())])
    assert logical_type(structs) == "struct"
    assert logical_type(pa.list_(structs)) == "list.struct"
    assert logical_type(pa.large_list(structs)) == "large_list.struct"
    assert logical_type(pa.large_list(pa.int8())) == "large_list"
    assert logical_type(pa.map_(pa.string(), structs)) == "map"
    assert logical_type(pa.list_(structs, 7)) == "fixed_size_list:struct:7"


def test_dictionaries_are_never_ordered() -> None:
    assert logical_type(pa.dictionary(pa.int8(), pa.string(), ordered=True)) == (
        "dict:string:int8:false"
    )


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), pa.list_(pa.int8())),
        pa.dictionary(pa.int8(), pa.struct([("x", pa.int8())])),
        pa.dictionary(pa.int8(), pa.dictionary(pa.int8(), pa.string())),
        pa.dictionary(pa.int8(), pa.date32()),
        pa.dictionary(pa.int8(), pa.decimal128(9, 2)),
        pa.dictionary(pa.int8(), pa.binary(3)),
        pa.dictionary(pa.int8(), pa.null()),
        pa.list_(pa.string(), 2),
        pa.list_(pa.list_(pa.int8()), 2),
        pa.list_(pa.list_(pa.struct([("x", pa.int8())]), 2), 2),
        pa.list_(pa.dictionary(pa.int8(), pa.string()), 2),
        pa.map_(pa.string(), pa.int8(), keys_sorted=True),
        pa.list_(pa.int8(), 0),
        pa.list_(pa.uuid(), 2),
        pa.dictionary(pa.int8(), pa.bool8()),
    ],
    ids=str,
)
def test_types_that_no_version_holds(kind: pa.DataType) -> None:
    """S0.5: a dictionary of lists, and what else has no form, is refused with a clear error."""
    with pytest.raises(UnsupportedTypeError, match=r"file version|files"):
        logical_type(kind)


def test_items_of_vectors_may_be_brain_floats() -> None:
    name = "fixed_size_list:lance.bfloat16:3"
    arrow = arrow_of_leaf(name)
    assert arrow == pa.list_(pa.binary(2), 3)
    assert logical_type(arrow) == name


@pytest.mark.parametrize(
    "kind",
    [
        pa.decimal32(5, 1),
        pa.decimal64(12, 1),
        pa.month_day_nano_interval(),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.list_view(pa.int8()),
    ],
    ids=str,
)
def test_types_without_a_name(kind: pa.DataType) -> None:
    with pytest.raises(UnsupportedTypeError, match="no name"):
        logical_type(kind)


@pytest.mark.parametrize(
    "name",
    [
        "timestamp:h:UTC",
        "decimal:128:10",
        "decimal:64:5:1",
        "decimal:128:x:1",
        "decimal:128:99:1",
        "fixed_size_binary:",
        "fixed_size_binary:0",
        "fixed_size_binary:-1",
        "fixed_size_list:int8:0",
        "fixed_size_list:int8:99999999999",
        "dict:string",
        "dict:string:int32",
        "dict:string:float:false",
        "dict:string:string:false",
    ],
)
def test_malformed_names(name: str) -> None:
    with pytest.raises(CorruptFileError):
        arrow_of_leaf(name)


@pytest.mark.parametrize("name", ["", "int7", "strings", "map"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UnsupportedTypeError):
        arrow_of_leaf(name)
