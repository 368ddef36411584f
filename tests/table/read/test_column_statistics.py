from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pilum
from pilum.table.read.column_statistics import ColumnSummary, summarize


def test_summaries_of_parts_join_to_that_of_the_table(tmp_path: Path) -> None:
    table = pa.table(
        {
            "a": [3, None, 1, 2],
            "text": ["b", "ä", None, None],
            "half": pa.array([1.0, float("nan"), 3.0, 3.0], pa.float16()),
            "nested": [[1], None, [2], []],
            "nothing": pa.nulls(4, pa.int32()),
        }
    )
    dataset = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=2)
    dataset.delete("a = 2")
    found = summarize(dataset.snapshot, table.column_names)
    distinct = {name: one.distinct and one.distinct.count for name, one in found.items()}
    assert found == {
        "a": ColumnSummary(3, 1, 1, 3),
        "text": ColumnSummary(3, 1, "b", "ä"),
        "half": ColumnSummary(3, 0, 1.0, 3.0),
        "nested": ColumnSummary(3, 1),
        "nothing": ColumnSummary(3, 3),
    }
    assert distinct == {"a": 2, "text": 2, "half": 3, "nested": None, "nothing": 0}
    part = summarize(dataset.snapshot, ["a"], [0])["a"]
    assert part.joined(summarize(dataset.snapshot, ["a"], [1])["a"]) == found["a"]
