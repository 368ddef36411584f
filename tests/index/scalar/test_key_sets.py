"""Rows are collected by key as in a dictionary, in memory and in runs that are spilled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.strategies import columns, order_of, rows_of

from pilum.index.row_maps import pack_rows
from pilum.index.scalar.key_sets import SetBlock, sets_of_rows, united


def _stored(blocks: list[SetBlock]) -> list[tuple[Any, bytes]]:
    """Return the keys of blocks, each with the bytes of its set."""
    found: list[tuple[Any, bytes]] = []
    for block in blocks:
        sets = zip(block.ends[:-1].tolist(), block.ends[1:].tolist(), strict=True)
        bytes_of = [block.data[start:stop].tobytes() for start, stop in sets]
        found += zip(map(order_of, block.values), bytes_of, strict=True)
    return found


def _expected(column: pa.Array) -> list[tuple[Any, bytes]]:
    rows: dict[Any, list[int]] = {}
    for row, value in enumerate(column):
        rows.setdefault(order_of(value), []).append(row)
    keys = sorted(rows, key=lambda key: (key is not None, key))
    return [(key, pack_rows(np.array(rows[key], np.uint64))) for key in keys]


@given(columns(60), st.sampled_from([1, 200, 1 << 20]), st.integers(1, 9))
def test_sets(column: pa.Array, run_bytes: int, step: int) -> None:
    """The null key first, then keys in order, each with all of its rows; types are kept."""
    rows = rows_of(column, step=step)
    blocks = list(sets_of_rows(rows.batches, column.type, run_bytes))
    assert _stored(blocks) == _expected(column)
    assert all(block.values.type == column.type for block in blocks)


def test_runs_of_several_blocks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Very many keys; no file is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    values = pa.array(np.random.default_rng(3).integers(0, 40_000, 60_000), pa.int32())
    rows = rows_of(values, step=10_000)
    blocks = list(sets_of_rows(rows.batches, values.type, 1 << 20))
    assert len(blocks) > 2
    assert _stored(blocks) == _expected(values)
    assert list(tmp_path.iterdir()) == []


def test_sources_without_keys() -> None:
    """No source, and empty ones, have no keys."""
    assert list(united([])) == []
    assert list(united([iter(()), iter(())])) == []
