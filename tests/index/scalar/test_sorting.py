"""Rows are sorted in pieces that are spilled to files as in one piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from index.scalar.strategies import columns, order_of, rows_of

from pilum.index.scalar.keys import keys_of, stable_order
from pilum.index.scalar.sorting import sorted_rows


@given(columns(60), st.sampled_from([1, 200, 1 << 20]), st.integers(1, 9))
def test_order(column: pa.Array, run_bytes: int, step: int) -> None:
    """Nulls first, then values; rows of equal values keep their order."""
    found = [
        (order_of(value), row)
        for block in sorted_rows(rows_of(column, step=step).batches, run_bytes)
        for value, row in zip(block.values, block.references.tolist(), strict=True)
    ]
    keys = [order_of(value) for value in column]
    nulls = [row for row, key in enumerate(keys) if key is None]
    others = [row for row, key in enumerate(keys) if key is not None]
    rows = nulls + sorted(others, key=lambda row: keys[row])
    assert found == [(keys[row], row) for row in rows]


def test_long_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Runs of several blocks with many equal values; no file is left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    values = np.random.default_rng(3).integers(0, 300, 150_000)
    rows = rows_of(pa.array(values, pa.int16()), step=10_000)
    blocks = list(sorted_rows(rows.batches, 500_000))
    assert len(blocks) > 3
    order = np.argsort(values, kind="stable")
    assert (np.concatenate([block.references for block in blocks]) == order).all()
    assert (np.concatenate([block.values.to_numpy() for block in blocks]) == values[order]).all()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("num_texts", [1, 7, 3000, 90_000])
def test_texts_that_repeat_keep_their_order(num_texts: int) -> None:
    """Texts that repeat are ordered by their places among the different ones: a stable order."""
    numbers = np.random.default_rng(num_texts).integers(0, num_texts, 100_000)
    texts = pa.array([f"{number % 11}-{number}" for number in numbers.tolist()])[5:]
    found = stable_order(keys_of(texts))
    expected = sorted(range(len(texts)), key=texts.to_pylist().__getitem__)
    assert found.tolist() == expected
