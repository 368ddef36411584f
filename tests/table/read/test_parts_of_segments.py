"""Large pages are decoded by several threads, in parts; the rows are those that were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.table.read import windows

ROWS = 60_007
_RANDOM = np.random.default_rng(11)


def _columns() -> dict[str, pa.Array]:
    numbers = pa.array(_RANDOM.integers(-(2**40), 2**40, ROWS), mask=_RANDOM.random(ROWS) < 0.1)
    delays = pa.array(
        _RANDOM.integers(-30, 300, ROWS, dtype=np.int32), mask=_RANDOM.random(ROWS) < 0.1
    )
    ends = np.append(0, np.cumsum(_RANDOM.integers(0, 6, ROWS))).astype(np.int32)
    items = pa.array(_RANDOM.integers(0, 2**20, ends[-1], dtype=np.int32))
    lists = pa.ListArray.from_arrays(ends, items, mask=pa.array(_RANDOM.random(ROWS) < 0.05))
    texts = pa.array([f"text {number}" for number in _RANDOM.integers(0, 2**30, ROWS)])
    return {
        "numbers": numbers,
        "delays": delays,
        "lists": lists,
        "texts": texts,
        "structs": pa.StructArray.from_arrays([numbers, texts], ["number", "text"]),
        "strings": texts.dictionary_encode(),
    }


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_rows_of_parts_are_those_of_the_page(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "num_threads", lambda: 3)
    monkeypatch.setattr(windows, "_PART_BYTES", 16 * 1024)
    monkeypatch.setattr(windows, "_PLAIN_PART_BYTES", 16 * 1024)
    split = 0
    for name, column in _columns().items():
        table = pa.table({name: column, "id": range(ROWS)})
        dataset = pilum.write_dataset(table, tmp_path / name, data_storage_version=version)
        found = dataset.to_table(columns=[name])
        assert found.equals(table.select([name]))
        split += found[name].num_chunks > 1
        batches = list(dataset.to_batches(columns=[name], batch_size=1000))
        assert pa.Table.from_batches(batches).equals(table.select([name]))
        assert all(batch.num_rows == 1000 for batch in batches[:-1])
        dataset.delete("id % 7 = 3 OR id BETWEEN 20000 AND 30000")
        ids = np.arange(ROWS)
        left = (ids % 7 != 3) & ((ids < 20_000) | (ids > 30_000))
        assert dataset.to_table(columns=[name]).equals(table.select([name]).filter(pa.array(left)))
    assert split >= 4
