"""Arrays without items whose buffers are empty, as writers in Java make them, are written."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.types as pt
import pytest

import pilum

NOTHING = pa.py_buffer(b"\xfe" * 64).slice(8, 0)
"""An empty buffer; offsets that are read from it are negative."""

WORDS = pa.list_(pa.string())
TYPES = [
    pa.string(),
    WORDS,
    pa.large_list(pa.int64()),
    pa.list_(pa.list_(pa.int64())),
    pa.list_(pa.int64(), 3),
    pa.map_(pa.string(), pa.int64()),
    pa.struct([("a", WORDS)]),
    pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))])),
    pa.list_(pa.map_(pa.string(), WORDS)),
]


def _bare(kind: pa.DataType) -> pa.Array:
    """An array without items, whose buffers are empty."""
    if pt.is_map(kind):
        below = [pa.struct([kind.key_field, kind.item_field])]
    else:
        below = [kind.field(place).type for place in range(kind.num_fields)]
    if pt.is_struct(kind) or pt.is_fixed_size_list(kind):
        buffers = [None]
    else:
        buffers = [None, NOTHING, NOTHING] if pt.is_string(kind) else [None, NOTHING]
    return pa.Array.from_buffers(kind, 0, buffers, children=[_bare(one) for one in below])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_lists_without_offsets_are_written(kind: pa.DataType, tmp_path: Path) -> None:
    """Alone, before an array with items, and as the items of lists that are all empty."""
    offsets = pa.py_buffer(bytes(12))
    empty = pa.Array.from_buffers(pa.list_(kind), 2, [None, offsets], children=[_bare(kind)])
    rows = [[], [], [None]]
    columns = {
        "before": pa.chunked_array([_bare(kind), pa.nulls(3, kind)]),
        "below": pa.chunked_array([empty, pa.array([[None]], pa.list_(kind))]),
    }
    table = pilum.write_dataset(pa.table(columns), tmp_path / "t", data_storage_version="2.2")
    found = table.to_table()
    assert found["before"].to_pylist() == [None] * 3
    assert found["below"].to_pylist() == rows
