"""Tables of file version 2.2, which the reference writes by default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference


def rows(size: int) -> pa.Table:
    random = np.random.default_rng(size)
    return pa.table(
        {
            "same": pa.array([42] * size),
            "few": pa.array(random.integers(-3, 3, size)),
            "text": [f"line {number % 17} of a text that is repeated" for number in range(size)],
            "lists": [[] if number % 3 else None for number in range(size)],
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(random.random(size * 4).astype(np.float32)), 4
            ),
        }
    ).cast(
        pa.schema(
            [
                ("same", pa.int64()),
                ("few", pa.int64()),
                ("text", pa.string()),
                ("lists", pa.list_(pa.int32())),
                ("vector", pa.list_(pa.float32(), 4)),
            ]
        )
    )


def test_a_default_table_of_the_reference_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    first, second, third = rows(5000), rows(300), rows(20_000)
    lance.write_dataset(first, path)
    ours = pilum.dataset(path)
    assert ours.data_storage_version == "2.2"
    assert ours.to_table().equals(first)
    pilum.write_dataset(second, path, mode="append")
    lance.write_dataset(third, path, mode="append")
    everything = pa.concat_tables([first, second, third])
    assert pilum.dataset(path).to_table().equals(everything)
    assert lance.dataset(path).to_table().equals(everything)
    picked = [25_000, 0, 5299, 5000, 4999]
    assert pilum.dataset(path).take(picked).equals(everything.take(picked))
    assert pilum.dataset(path).to_table(filter="few = -3").num_rows == sum(
        value == -3 for value in everything["few"].to_pylist()
    )


def test_ours_in_that_version(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = rows(30_000)
    made = pilum.write_dataset(table, path, data_storage_version="2.2")
    assert made.data_storage_version == lance.dataset(path).data_storage_version == "2.2"
    assert lance.dataset(path).to_table().equals(table)
    lance.dataset(path).validate()
    reference = str(tmp_path / "reference")
    lance.write_dataset(table, reference, data_storage_version="2.2")
    assert _bytes(tmp_path / "t") <= 1.1 * _bytes(tmp_path / "reference")


@pytest.mark.checklist("S0.3")
def test_a_table_keeps_its_version(tmp_path: Path) -> None:
    pilum.write_dataset(rows(10), tmp_path / "t", data_storage_version="2.1")
    with pytest.raises(InvalidInputError, match=r"the table has 2\.1"):
        pilum.write_dataset(rows(10), tmp_path / "t", mode="append", data_storage_version="2.2")
    assert pilum.dataset(tmp_path / "t").version == 1
    lance.write_dataset(rows(10), tmp_path / "newer")
    again = pilum.write_dataset(rows(20), tmp_path / "newer", mode="overwrite")
    assert again.data_storage_version == "2.2"
    assert lance.dataset(tmp_path / "newer").to_table().equals(rows(20))


def _bytes(table: Path) -> int:
    return sum(file.stat().st_size for file in (table / "data").iterdir())
