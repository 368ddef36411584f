"""Which types a column may change to: the table of the reference, release 14.0.2 (S2.9)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import SchemaMismatchError
from pilum.table.changes.cast import is_castable

TYPES: dict[str, pa.DataType] = {
    "i8": pa.int8(),
    "i64": pa.int64(),
    "u32": pa.uint32(),
    "f16": pa.float16(),
    "f64": pa.float64(),
    "text": pa.string(),
    "large_text": pa.large_string(),
    "bytes": pa.binary(),
    "large_bytes": pa.large_binary(),
    "fixed_bytes": pa.binary(2),
    "bool": pa.bool_(),
    "null": pa.null(),
    "day": pa.date32(),
    "day_ms": pa.date64(),
    "time_s": pa.time32("s"),
    "time_us": pa.time64("us"),
    "moment": pa.timestamp("us"),
    "zoned": pa.timestamp("ns", "UTC"),
    "span": pa.duration("s"),
    "span_ns": pa.duration("ns"),
    "cents": pa.decimal128(10, 2),
    "wide": pa.decimal256(30, 3),
    "fine": pa.decimal128(12, 4),
    "list_i": pa.list_(pa.int32()),
    "large_list_i": pa.large_list(pa.int64()),
    "list_text": pa.list_(pa.string()),
    "vector_2": pa.list_(pa.float32(), 2),
    "vector_3": pa.list_(pa.float32(), 3),
    "pair_i": pa.list_(pa.int8(), 2),
    "coded": pa.dictionary(pa.int8(), pa.string()),
    "coded_large": pa.dictionary(pa.int32(), pa.large_string()),
    "coded_i": pa.dictionary(pa.int8(), pa.int64()),
    "struct": pa.struct([("x", pa.int8())]),
    "map": pa.map_(pa.string(), pa.int8()),
    "list_struct": pa.list_(pa.struct([("x", pa.int8())])),
}
GOLDEN = """
i8            i64 u32 coded_i
i64           i8 u32 coded_i
u32           i8 i64 coded_i
f16           f64
f64           f16
text          large_text coded coded_large
large_text    text coded coded_large
bytes         large_bytes
large_bytes   bytes
fixed_bytes
bool
null
day           day_ms moment zoned
day_ms        day moment zoned
time_s        time_us
time_us       time_s
moment        day day_ms time_s time_us zoned
zoned         day day_ms time_s time_us moment
span          span_ns
span_ns       span
cents         wide fine
wide          cents fine
fine          cents wide
list_i        large_list_i pair_i
large_list_i  list_i pair_i
list_text
vector_2
vector_3
pair_i        list_i large_list_i
coded         text large_text coded_large
coded_large   text large_text coded
coded_i       i8 i64 u32
struct
map
list_struct
"""


@pytest.mark.checklist("S2.9")
def test_types_change_where_the_reference_lets_them() -> None:
    lines = [
        [old, *(new for new in TYPES if new != old and is_castable(TYPES[old], TYPES[new]))]
        for old in TYPES
    ]
    assert lines == [line.split() for line in GOLDEN.strip().split("\n")]


@pytest.mark.parametrize(("number", "zone"), [(2**63 - 1, "-11:30"), (-(2**63), "+14:00")])
def test_times_whose_moment_the_type_does_not_hold(tmp_path: Path, number: int, zone: str) -> None:
    rows = pa.table({"a": pa.array([number], pa.int64()).cast(pa.timestamp("us"))})
    dataset = pilum.write_dataset(rows, tmp_path / "t")
    with pytest.raises(SchemaMismatchError, match="too far from 1970"):
        dataset.alter_columns({"path": "a", "data_type": pa.timestamp("us", zone)})
    assert dataset.to_table() == rows
