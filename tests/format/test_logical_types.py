"""Names of types, both ways."""

from __future__ import annotations

import pyarrow as pa
import pytest
from container.arrays import LEAVES

from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.logical_types import arrow_of_leaf, logical_type

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


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.string()),
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
    ],
)
def test_malformed_names(name: str) -> None:
    with pytest.raises(CorruptFileError):
        arrow_of_leaf(name)


@pytest.mark.parametrize("name", ["", "int7", "strings", "map"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UnsupportedTypeError):
        arrow_of_leaf(name)
