"""Lookups of integers return what a scan returns, whatever the table and the index are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum
from pilum.errors import ColumnNotFoundError, FilterError, PilumError

NUM_ROWS = 3000
KEYS = np.random.default_rng(5).permutation(NUM_ROWS) - 1000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Returns a table of two fragments, with keys, keys of four rows each, and names."""
    key = pa.array(KEYS, mask=KEYS % 50 == 7)
    table = pa.table({"key": key, "four": KEYS // 4, "name": [f"row {one}" for one in KEYS]})
    table = table.append_column("few", pa.array(KEYS // 50, mask=KEYS % 49 == 7))
    found = pilum.write_dataset(
        table, str(tmp_path_factory.mktemp("quick") / "t"), max_rows_per_file=NUM_ROWS // 2
    )
    found.create_scalar_index("key", "BTREE")
    found.create_scalar_index("four", "BTREE")
    found.create_scalar_index("few", "BITMAP")
    return found


def _agree(dataset: pilum.LanceDataset, column: str, values: list[int], **scan: Any) -> None:
    """Look up values, and compare the answers with those of scans without an index."""
    listed = ", ".join(map(str, [*values, values[0]]))
    several = [f"{column} IN ({listed})", f" {column} in( {values[-1]} ) "]
    for filter in [*(f"{column} = {value}" for value in values), *several]:
        expected = dataset.to_table(filter=filter, use_scalar_index=False, **scan)
        found = dataset.to_table(filter=filter, **scan)
        assert found == expected, filter
        assert found.schema.equals(expected.schema, check_metadata=True)
        every = dataset.scanner([], filter=filter, use_scalar_index=False, with_row_id=True)
        assert dataset.count_rows(filter) == every.count_rows(), filter


@pytest.mark.parametrize("column", ["key", "four", "few"])
@pytest.mark.parametrize(
    "scan",
    [
        {},
        {"columns": ["name", "key"]},
        {"columns": ["key"], "with_row_id": True, "with_row_address": True},
        {"columns": {"twice": "key * 2"}},
        {"columns": ["name"], "limit": 2, "offset": 1},
        {"columns": ["name"], "batch_size": 1},
        {"columns": ["few"], "with_row_id": True},
        {"columns": ["four", "name", "few", "key"]},
    ],
)
def test_values_are_found(dataset: pilum.LanceDataset, column: str, scan: dict[str, Any]) -> None:
    _agree(dataset, column, [7, -3, 39, 57, 1999, 2000, -1001, 10**17, 0], **scan)


@pytest.mark.parametrize("column", ["key", "four", "few", "name", "none"])
def test_first_lookups_find_values(dataset: pilum.LanceDataset, column: str) -> None:
    """A version that was not used yet returns what one returns that knows its indices."""
    for value in (7, -3, 57, 2000, 10**17):
        filter = f"{column} = {value}"
        fresh = [pilum.dataset(dataset.uri, session=pilum.Session()) for _ in range(4)]
        if column not in ("key", "four", "few"):
            with pytest.raises((FilterError, ColumnNotFoundError)):
                fresh[0].to_table(["key"], filter)
            continue
        scan = dataset.scanner(["name", "key"], filter=filter, use_scalar_index=False)
        assert fresh[0].to_table(["name", "key"], filter) == scan.to_table()
        assert fresh[1].count_rows(filter) == scan.count_rows()
        for names, error in ((["key", "key"], "twice"), (["other"], "other")):
            with pytest.raises(PilumError, match=error):
                fresh[2].to_table(names, filter)
        assert fresh[3].to_table([], filter).num_rows == scan.count_rows()


def test_few_calls_find_a_value(dataset: pilum.LanceDataset) -> None:
    """The first lookups find out how: the next ones do not parse, bind or plan."""

    def found(filter: str) -> Callable[[], object]:
        return lambda: dataset.to_table(["key"], filter=filter)

    for value in (3, 4, 5):
        found(f"key = {value}")()
    assert 0 < num_calls(found("key = 6")) <= 60
    assert 0 < num_calls(lambda: dataset.count_rows("key = 6")) <= 44
    assert 0 < num_calls(found("key IN (1900, 6, 7, 6)")) <= 215
    assert num_calls(found("KEY = 6")) > 150
    assert dataset.count_rows("few = 6") > 0  # reads the set
    assert 0 < num_calls(lambda: dataset.count_rows("few = 6")) <= 25


def test_a_first_lookup_opens_an_index_in_few_calls(dataset: pilum.LanceDataset) -> None:
    """Nothing of the table is known but the form of such files, as when a process looks up once."""

    def found() -> object:
        opened = pilum.dataset(dataset.uri, session=pilum.Session())
        return opened.to_table(["key", "four"], filter="key = 6")

    found()
    assert 0 < num_calls(found) <= 1050


def test_other_fragments_are_not_left_out(dataset: pilum.LanceDataset, tmp_path: Path) -> None:
    table = dataset.to_table()
    changed = pilum.write_dataset(table, str(tmp_path / "t"), max_rows_per_file=NUM_ROWS // 2)
    changed.create_scalar_index("key", "BTREE")
    values = [3, 4, 5, 60]
    _agree(changed, "key", values, columns=["name"])
    changed.delete("key IN (4, 60)")
    _agree(changed, "key", values, columns=["name"])
    changed.insert(pa.table({"key": [5, 60], "four": [1, 2], "name": ["a", "b"], "few": [3, 4]}))
    _agree(changed, "key", values, columns=["name"])
    assert changed.count_rows("key = 5") == 2
    changed.optimize.optimize_indices(num_indices_to_merge=0)  # a second segment
    _agree(changed, "key", values, columns=["name"])
    changed.optimize.compact_files(defer_index_remap=True)
    _agree(changed, "key", values, columns=["name"])
    changed.drop_index("key_idx")
    _agree(changed, "key", values, columns=["name"])


@pytest.mark.parametrize("form", ["i1", "u1", "u4", "u8", "i8"])
def test_values_of_every_width(tmp_path: Path, form: str) -> None:
    limits = np.iinfo(form)
    ends = np.array([limits.min, limits.min + 1, 0, 5, limits.max - 1, limits.max], form)
    table = pa.table({"key": np.tile(ends, 200), "row": range(1200)})
    dataset = pilum.write_dataset(table, str(tmp_path / "t"), enable_stable_row_ids=True)
    dataset.create_scalar_index("key", "BTREE")
    values = [0, 5, 6, -1, 127, 128, 255, 256, 2**53 + 1, 10**17]
    _agree(dataset, "key", [*values, *ends.tolist()], columns=["row"], with_row_id=True)


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"key": range(20_000)}), str(tmp_path / "t"))
    dataset.create_scalar_index("key", "BTREE")
    for key in (1, 2, 3):
        assert dataset.to_table(filter=f"key = {key}").num_rows == 1
    [pages] = (tmp_path / "t/_indices").glob("*/page_data.lance")
    with pages.open("r+b") as file:
        file.truncate(100)
    fresh = pilum.dataset(dataset.uri, session=pilum.Session())
    for one in (dataset, fresh):
        with pytest.warns(RuntimeWarning, match="key_idx") as warned:
            assert one.to_table(["key"], "key = 19000")["key"].to_pylist() == [19_000]
        assert len(warned) == 1
