"""Rows come back by partition, in their order, from memory and from disk."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.index.vector.shuffle import Shuffle

_SIZES = st.lists(st.integers(0, 40), max_size=6)


@given(_SIZES, st.integers(1, 300), st.sampled_from([0, 1000, 10**9]), st.integers(0, 9))
def test_rows_come_back_by_partition(
    sizes: list[int], num_partitions: int, limit_bytes: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    total = sum(sizes)
    partitions = generator.integers(0, num_partitions, total).astype(np.uint32)
    references = generator.integers(0, 1 << 60, total).astype(np.uint64)
    codes = generator.integers(0, 256, (total, 3)).astype(np.uint8)
    factors = generator.normal(size=total).astype(np.float32)
    bounds = np.cumsum([0, *sizes])
    with Shuffle(num_partitions, limit_bytes) as shuffle:
        for start, end in pairwise(bounds):
            part = slice(start, end)
            batch: dict[str, Any] = {"codes": codes[part], "factors": factors[part]}
            shuffle.add(partitions[part], references[part], batch)
        assert (
            shuffle.lengths.tolist() == np.bincount(partitions, minlength=num_partitions).tolist()
        )
        found = list(shuffle.partitions())
    assert len(found) == num_partitions
    for number, (rows, columns) in enumerate(found):
        own = partitions == number
        assert np.array_equal(rows, references[own])
        if sizes:
            assert np.array_equal(columns["codes"], codes[own])
            assert np.array_equal(columns["factors"], factors[own])
            assert columns["codes"].flags.c_contiguous


def test_few_rows_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    with Shuffle(2, 10**6) as shuffle:
        shuffle.add(np.array([1, 0], np.uint32), np.array([7, 8], np.uint64), {})
        assert [rows.tolist() for rows, _ in shuffle.partitions()] == [[8], [7]]


def test_a_short_file_is_an_error() -> None:
    with Shuffle(1, 0) as shuffle:
        shuffle.add(np.zeros(9, np.uint32), np.arange(9, dtype=np.uint64), {})
        assert shuffle._file is not None
        shuffle._file.truncate(8)
        with pytest.raises(OSError, match="temporary file: 8 of 72 bytes at 0"):
            list(shuffle.partitions())
