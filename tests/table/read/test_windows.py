"""Windows that contain pages without selected rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

import pilum


def test_a_page_without_selected_rows(tmp_path: Path) -> None:
    num_rows, dimension = 50_000, 64
    numbers = np.arange(num_rows * dimension, dtype=np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers), dimension)
    table = pa.table({"id": np.arange(num_rows), "vector": vectors})
    pilum.write_dataset(table, tmp_path / "t")
    found = pilum.dataset(tmp_path / "t").to_table(filter="id < 8000")
    assert found.equals(table.slice(0, 8000))
