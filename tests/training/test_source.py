"""Rows by number, for loaders that choose the order themselves."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum as lance
from pilum.errors import InvalidInputError
from pilum.training import RowSource


@pytest.fixture
def table(tmp_path: Path) -> lance.LanceDataset:
    rows = pa.table(
        {
            "id": range(100),
            "text": [f"row {number}" for number in range(100)],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(np.repeat(np.arange(100, dtype="f4"), 2)), 2
            ),
        }
    )
    made = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=30)
    made.delete("id < 10")
    return made


def test_rows_and_batches_by_number(table: lance.LanceDataset) -> None:
    source = RowSource(table)
    assert len(source) == 90
    row = source[5]
    assert (row["id"], row["text"], row["vector"].tolist()) == (15, "row 15", [15, 15])
    assert source[-1]["id"] == 99
    batch = source[[7, 3, 3]]
    assert batch["id"].tolist() == [17, 13, 13]
    assert batch["vector"].shape == (3, 2)
    rows = source.__getitems__(np.array([7, 3, 3]))
    assert [one["id"] for one in rows] == [17, 13, 13]
    assert [one["vector"].tolist() for one in rows] == [[17, 17], [13, 13], [13, 13]]
    assert source.__getitems__([]) == []
    assert repr(source).endswith("version=2), 90 rows)")


def test_only_rows_that_match_are_numbered(table: lance.LanceDataset) -> None:
    source = RowSource(table.uri, ["id"], filter="id % 2 = 0", with_row_id=True)
    assert len(source) == 45
    assert list(source[0]) == ["id", "_rowid"]
    assert [source[number]["id"] for number in (0, 1, 44)] == [10, 12, 98]


def test_rows_beyond_the_end_are_refused(table: lance.LanceDataset) -> None:
    source = RowSource(table)
    for number in (90, -91):
        with pytest.raises(IndexError, match=f"row {number} of 90 rows"):
            source[number]
    with pytest.raises(InvalidInputError, match="there is no row 90"):
        source.__getitems__([3, 90])


def _ids(source: RowSource, rows: list[int]) -> Any:
    return source[rows]["id"].tolist()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_another_process_reads_the_same_version(table: lance.LanceDataset, method: str) -> None:
    source = RowSource(table, ["id"], filter="id > 50")
    assert _ids(source, [2]) == [53]  # files are open, and threads run, before the fork
    table.delete("true")
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply(_ids, (source, [0, 48])) == [51, 99]
    assert _ids(pickle.loads(pickle.dumps(source)), [0]) == [51]
