"""Rows that a search may return: all that match a prefilter, in the form that takes less memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.table.indices.index_use import ANY_INDEX
from pilum.table.indices.live import matching_rows

ROWS, PER_FRAGMENT = 9000, 3000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Three fragments; the second one has deleted rows."""
    path: Path = tmp_path_factory.mktemp("live") / "t"
    number = np.arange(ROWS)
    table = pa.table({"id": number, "g": number % 100})
    dataset = pilum.write_dataset(table, str(path), max_rows_per_file=PER_FRAGMENT)
    dataset.delete("id >= 3000 AND id < 6000 AND id % 4 = 0")
    return dataset


@pytest.mark.parametrize("fragments", [None, (0, 1), (2, 0)])
@pytest.mark.parametrize(
    ("text", "first", "stop", "are_bits"),
    [
        ("g < 60", 0, 60, True),
        ("g < 60 AND id + 0 >= 0", 0, 60, True),  # Arrow tests the second term
        ("g >= 0", 0, 100, None),
        ("g = 7", 7, 8, False),
        ("g < 0", 0, 0, False),
    ],
)
def test_rows_that_match_a_filter(
    dataset: pilum.LanceDataset,
    text: str,
    first: int,
    stop: int,
    are_bits: bool | None,
    fragments: tuple[int, ...] | None,
) -> None:
    number = np.arange(ROWS)
    is_live = ~((number >= 3000) & (number < 6000) & (number % 4 == 0))
    is_match = is_live & (number % 100 >= first) & (number % 100 < stop)
    is_match &= np.isin(number // PER_FRAGMENT, fragments or (0, 1, 2))
    own = number[is_match].astype(np.uint64)
    addresses = (own // PER_FRAGMENT << np.uint64(32)) + own % PER_FRAGMENT
    snapshot = dataset.snapshot
    found = matching_rows(snapshot, snapshot.scope.bind(text), fragments, ANY_INDEX)
    assert found is not None
    assert found.num_listed == len(addresses)
    assert found.listed.tolist() == addresses.tolist()
    if fragments == (2, 0):  # in no ascending order
        assert found.bits is None
    elif are_bits is not None:
        assert (found.bits is not None) == are_bits
        assert found.size_bytes <= (ROWS / 8 if are_bits else 8 * len(addresses))


def test_all_rows(dataset: pilum.LanceDataset) -> None:
    assert matching_rows(dataset.snapshot, None, None, ANY_INDEX) is None
    found = matching_rows(dataset.snapshot, None, (1,), ANY_INDEX)
    assert found is not None
    assert found.num_listed == 2250
