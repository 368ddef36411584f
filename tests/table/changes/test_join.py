"""Keys that are looked up where those of the table ascend: all pairs, or none of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.table.changes.join import FewKeys, join_keys

TYPES = st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64])


def keys_of(values: Any, kind: Any = np.int64) -> pa.Table:
    return pa.table({"key": np.array(values, kind), "row": np.arange(len(values))})


def rows_of(values: Any, kind: Any = np.int64) -> pa.RecordBatch:
    numbers = np.arange(len(values), dtype=np.uint64) + np.uint64(7 << 32)
    return pa.record_batch({"key": np.array(values, kind), "address": numbers})


@given(
    kind=TYPES,
    source=st.lists(st.integers(0, 100), max_size=6),
    table=st.lists(st.integers(0, 100), max_size=120),
    is_sorted=st.booleans(),
)
def test_pairs_are_those_of_a_naive_join(
    kind: Any, source: list[int], table: list[int], is_sorted: bool
) -> None:
    table = sorted(table) if is_sorted else table
    rows = rows_of(table, kind)
    found = FewKeys(keys_of(source, kind)).pairs(rows)
    ascends = table == sorted(table) and len(table) > 0
    within = [key for key in source if ascends and table[0] <= key <= table[-1]]
    is_told = ascends and len(set(source)) == len(source) and len(within) * 8 <= len(table)
    assert (found is not None) == is_told
    if found is not None:
        addresses = rows.column(1).to_numpy()
        expected = [
            (addresses[i], source.index(key)) for i, key in enumerate(table) if key in source
        ]
        assert list(zip(*found, strict=True)) == expected
        assert [part.dtype for part in found] == [np.uint64, np.int64]


def test_keys_at_the_ends_of_their_type() -> None:
    ends = [0, 2**64 - 1]
    found = FewKeys(keys_of(ends[::-1], np.uint64)).pairs(
        rows_of([ends[0], *range(5, 40), ends[1], ends[1]], np.uint64)
    )
    assert found is not None
    assert (found[0] - np.uint64(7 << 32)).tolist() == [0, 36, 37]
    assert found[1].tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    ("keys", "num_rows", "expected"),
    [
        (keys_of([1, 2]), 16, True),
        (keys_of([1, 2]), 15, False),
        (pa.table({"key": ["a"], "row": [0]}), 100, False),
        (pa.table({"key": [1.5], "row": [0]}), 100, False),
        (pa.table({"key": [1], "other": [1], "row": [0]}), 100, False),
    ],
)
def test_what_is_looked_up(keys: pa.Table, num_rows: int, expected: bool) -> None:
    assert FewKeys.are_in(keys, num_rows) is expected


def test_tables_of_which_parts_ascend(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    up, wild = np.arange(1000), random.integers(0, 1000, 1000)
    twice = np.repeat(np.arange(0, 1000, 2), 2)
    values = np.concatenate([wild, up, twice, wild[::-1], up])
    path = tmp_path / "t"
    table = pa.table({"key": pa.array(values, mask=np.arange(len(values)) % 700 == 699)})
    dataset = pilum.write_dataset(table, path, max_rows_per_file=1000)
    wanted = random.permutation(1200)[:90]
    found = join_keys(dataset.snapshot, ["key"], [pa.record_batch({"key": wanted})])
    addresses = [(row // 1000 << 32) + row % 1000 for row in range(len(values))]
    rows = {key: row for row, key in enumerate(wanted.tolist())}
    expected = [
        (address, rows[key])
        for address, key in zip(addresses, table["key"].to_pylist(), strict=True)
        if key in rows
    ]
    assert list(zip(found.addresses.tolist(), found.rows.tolist(), strict=True)) == expected
