"""Filters over many small fragments: evaluated for several at once, and the same rows match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum.errors import FilterError

PER_FRAGMENT = 7
ROWS = 400


def numbers() -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "value": [None if i % 5 == 0 else i % 11 for i in range(ROWS)],
            "text": [f"text {i}" for i in range(ROWS)],
        }
    )


@pytest.fixture(params=[False, True], ids=["whole", "with deletions"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    made = pilum.write_dataset(numbers(), tmp_path / "t", max_rows_per_file=PER_FRAGMENT)
    if request.param:
        made.delete("id % 3 = 0")
    return made


@pytest.mark.parametrize("condition", ["value > 5", "value IS NULL", "id = 399", "id < 0", "true"])
def test_rows_of_all_fragments_are_found(dataset: Any, condition: str) -> None:
    whole = dataset.to_table()
    expected = {
        "value > 5": pc.fill_null(pc.greater(whole["value"], 5), False),
        "value IS NULL": pc.is_null(whole["value"]),
        "id = 399": pc.equal(whole["id"], 399),
        "id < 0": pc.less(whole["id"], 0),
        "true": pc.is_valid(whole["id"]),
    }[condition]
    found = dataset.to_table(filter=condition)
    assert found.equals(whole.filter(expected))
    assert dataset.count_rows(condition) == found.num_rows


def test_offsets_and_limits_count_matches_of_all_fragments(dataset: Any) -> None:
    whole = dataset.to_table(filter="value > 5")
    assert dataset.to_table(filter="value > 5", offset=30, limit=20).equals(whole.slice(30, 20))


def test_a_limit_reads_few_fragments(dataset: Any) -> None:
    dataset.io_stats_incremental()
    assert dataset.scanner(filter="id >= 0", limit=1).to_table().num_rows == 1
    assert dataset.io_stats_incremental().read_iops <= 2 * (33 + 3)


def test_dictionaries_that_do_not_go_together(tmp_path: Path) -> None:
    """Of small fragments whose entries are together too many for the type of their keys."""
    path = tmp_path / "t"
    for start in (0, 100, 200):
        words = pa.array([f"w{i}" for i in range(start, start + 100)])
        keys = pa.array(range(100), pa.int8())
        table = pa.table({"word": pa.DictionaryArray.from_arrays(keys, words)})
        pilum.write_dataset(table, path, mode="append" if start else "create")
    dataset = pilum.dataset(path)
    assert dataset.count_rows("word = 'w150'") == 1
    assert dataset.to_table(filter="word != 'w7'").num_rows == 299


def test_a_filter_that_fails_on_a_value_of_one_fragment(dataset: Any) -> None:
    with pytest.raises(FilterError):
        dataset.count_rows("cast(text as int) = 3")
