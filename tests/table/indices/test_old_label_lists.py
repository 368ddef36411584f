"""Segments of LABEL_LIST of version 0, which do not say which lists are null, are merged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.index.base import IndexRows
from pilum.index.files import IndexFolderWriter
from pilum.index.scalar.key_sets import sets_of_rows
from pilum.index.scalar.keyed_sets import write_sets
from pilum.index.scalar.label_list import LABEL_LIST, _Items

LISTS: list[list[str | None] | None] = [["a"], None, [], ["b", "a"], [None], ["b"], None, ["c"]]


def _train(rows: IndexRows, parameters: None, folder: IndexFolderWriter) -> bytes:
    """Write a segment of version 0: the sets alone."""
    del parameters
    kind = rows.type.value_type
    write_sets(sets_of_rows(_Items(rows.batches), kind), kind, folder)
    return b""


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Returns a table of which a segment of version 0 covers the first two of three fragments."""
    table = pa.table({"labels": LISTS * 100, "row": range(800)})
    dataset = pilum.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=400)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LABEL_LIST, "train", _train)
        patch.setattr(LABEL_LIST, "index_version", lambda **_: 0)
        dataset.create_scalar_index("labels", "LABEL_LIST")
    dataset.delete("row < 3")
    dataset.insert(table.slice(3, 100))
    return dataset


def _agrees(dataset: pilum.LanceDataset) -> None:
    for filter in ("array_has_any(labels, ['a', 'c'])", "NOT array_has_all(labels, ['b'])"):
        plain = dataset.to_table(filter=filter, use_scalar_index=False)
        assert dataset.to_table(filter=filter) == plain
        if 0 not in _versions(dataset):  # the reference's answers of version 0 may be wrong
            assert lance.dataset(dataset.uri).to_table(filter=filter) == plain


def _versions(dataset: pilum.LanceDataset) -> list[int]:
    [index] = dataset.describe_indices()
    return [segment.index_version for segment in index.segments]


@pytest.mark.parametrize(
    "keywords", [{}, {"num_indices_to_merge": 1}, {"retrain": True}, {"num_indices_to_merge": 0}]
)
def test_it_is_optimized(dataset: pilum.LanceDataset, keywords: dict[str, Any]) -> None:
    """Its rows are read again, unless it remains beside the new segment."""
    assert _versions(dataset) == [0]
    _agrees(dataset)
    dataset.optimize.optimize_indices(**keywords)
    assert _versions(dataset) == ([0, 1] if keywords.get("num_indices_to_merge") == 0 else [1])
    _agrees(dataset)
    dataset.optimize.optimize_indices(num_indices_to_merge=9)
    assert _versions(dataset) == [1]
    _agrees(dataset)
    [statistics] = [dataset.stats.index_stats("labels_idx")]
    assert statistics["num_indexed_rows"] == dataset.count_rows()
