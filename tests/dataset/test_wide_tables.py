"""Tables of very many columns: what they cost grows with the columns, and no faster."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum


def wide(num_columns: int) -> pa.Table:
    """Returns one row of numbers."""
    return pa.table({f"c{number}": [float(number)] for number in range(num_columns)})


def test_calls_per_column(tmp_path: Path) -> None:
    costs: dict[str, list[int]] = {"write": [], "open": [], "read": []}
    for num_columns in (300, 900):
        table, uri = wide(num_columns), str(tmp_path / str(num_columns))
        costs["write"].append(num_calls(lambda: pilum.write_dataset(table, uri)))  # noqa: B023
        own = pilum.Session()
        costs["open"].append(num_calls(lambda: pilum.dataset(uri, session=own)))  # noqa: B023
        dataset = pilum.dataset(uri, session=pilum.Session())
        costs["read"].append(num_calls(lambda: dataset.to_table()))  # noqa: B023
    per_column = {name: (many - few) / 600 for name, (few, many) in costs.items()}
    assert per_column["write"] <= 30
    assert per_column["open"] <= 1
    assert per_column["read"] <= 110


@pytest.mark.checklist("S0.1")
def test_both_ways(tmp_path: Path) -> None:
    table = wide(2_000)
    pilum.write_dataset(table, str(tmp_path / "own"))
    lance.write_dataset(table, str(tmp_path / "other"))
    for name in ("own", "other"):
        assert lance.dataset(str(tmp_path / name)).to_table().equals(table)
        found = pilum.dataset(str(tmp_path / name))
        assert found.to_table().equals(table)
        assert found.take([0], columns=["c1999"]).equals(table.select(["c1999"]))
