"""Values that are read without decoding, beside those that a take returns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.table.read.plain_values import plain_values

RANDOM = np.random.default_rng(4)


def column(vectors: np.ndarray) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])


def values(dataset: pilum.LanceDataset, rows: np.ndarray, name: str = "v") -> np.ndarray | None:
    return plain_values(dataset._snapshot, rows.astype(np.uint64), name)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_wide_vectors_are_read_as_they_are(tmp_path: Path, dtype: str, version: str) -> None:
    vectors = RANDOM.normal(size=(3000, 160)).astype(dtype)
    table = pa.table({"v": column(vectors)})
    dataset = pilum.write_dataset(
        table, str(tmp_path / "t"), max_rows_per_file=1000, data_storage_version=version
    )
    for count in (1, 2, 200):
        rows = np.sort(RANDOM.choice(3000, count, replace=False))
        found = values(dataset, (rows // 1000 << 32) + rows % 1000)
        assert found is not None
        assert np.array_equal(found.view(dtype), vectors[rows])


def test_several_pages(tmp_path: Path) -> None:
    vectors = RANDOM.normal(size=(3000, 2000)).astype("f4")
    dataset = pilum.write_dataset(pa.table({"v": column(vectors)}), str(tmp_path / "t"))
    rows = np.array([0, 1, 1048, 1049, 2000, 2999])
    found = values(dataset, rows)
    assert found is not None
    assert np.array_equal(found.view("f4"), vectors[rows])


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_what_is_encoded_has_to_be_decoded(tmp_path: Path, version: str) -> None:
    vectors = column(RANDOM.normal(size=(100, 80)).astype("f4"))
    narrow = column(RANDOM.normal(size=(100, 2)).astype("f4"))
    some = pa.array([None if n % 7 == 0 else one for n, one in enumerate(vectors.to_pylist())])
    table = pa.table(
        {
            "narrow": narrow,
            "some": some.cast(vectors.type),
            "s": pa.StructArray.from_arrays([vectors], ["v"]),
            "text": [str(n) for n in range(100)],
        }
    )
    dataset = pilum.write_dataset(table, str(tmp_path / "t"), data_storage_version=version)
    for name in (*table.column_names, "s.v", "missing"):
        assert values(dataset, np.array([3, 5]), name) is None
    assert values(dataset, np.array([], np.uint64), "narrow") is None
