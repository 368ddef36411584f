from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.table.read.column_statistics import ColumnSummary, Distinct, hashes, summarize


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
    facts = {name: (one.num_rows, one.null_count, one.min, one.max) for name, one in found.items()}
    assert facts == {
        "a": (3, 1, 1, 3),
        "text": (3, 1, "b", "ä"),
        "half": (3, 0, 1.0, 3.0),
        "nested": (3, 1, None, None),
        "nothing": (3, 3, None, None),
    }
    assert distinct == {"a": 2, "text": 2, "half": 3, "nested": None, "nothing": 0}
    part = summarize(dataset.snapshot, ["a"], [0])["a"]
    assert part.joined(summarize(dataset.snapshot, ["a"], [1])["a"]) == found["a"]


def test_parts_with_nan_alone_do_not_change_the_bounds() -> None:
    parts = [[float("nan")] * 2, [2.0, float("nan")], [1.0], [float("nan")]]
    for order in (parts, parts[::-1]):
        found = ColumnSummary()
        for part in order:
            found = found.joined(ColumnSummary.of(pa.array(part)))
        assert (found.min, found.max) == (1.0, 2.0)
    only = ColumnSummary.of(pa.array(parts[0]))
    assert (only.min, only.max) == (None, None)


def test_durations_and_moments_that_python_has_no_object_for_have_bounds() -> None:
    durations = ColumnSummary.of(pa.array([5, None, -3], pa.duration("s")))
    assert (durations.min, durations.max) == (timedelta(seconds=-3), timedelta(seconds=5))
    days = pa.array([10_000_000, None, 0], pa.int32()).cast(pa.date32())
    dates = ColumnSummary.of(days).joined(ColumnSummary.of(days.slice(2)))
    assert (dates.min, dates.max) == (date(1970, 1, 1), "29349-01-26")


KINDS = [
    pa.int8(),
    pa.uint64(),
    pa.float32(),
    pa.timestamp("us"),
    pa.decimal128(25, 2),
    pa.string(),
    pa.large_binary(),
    pa.dictionary(pa.int16(), pa.string()),
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_few_values_are_counted_exactly(kind: pa.DataType) -> None:
    numbers = pa.array([*range(100), None, 7, 7], pa.int64())
    is_text = pa.types.is_dictionary(kind) or pa.types.is_large_binary(kind)
    values = (numbers.cast(pa.string()) if is_text else numbers).cast(kind)
    assert Distinct().with_values(values).count == 100
    assert Distinct().with_values(values.slice(90)).count == 11
    assert Distinct().with_values(values.slice(0, 0)).count == 0


@pytest.mark.parametrize("num_values", [3_000, 100_000])
def test_many_values_are_counted_about_and_in_parts(num_values: int) -> None:
    found = Distinct()
    for start in range(0, 2 * num_values, num_values // 2):  # all of them twice
        texts = [f"user {number % num_values}" for number in range(start, start + num_values // 2)]
        found = found.joined(Distinct().with_values(pa.array(texts)))
    assert abs(found.count - num_values) < 0.1 * num_values
    assert len(found.smallest) == 1024


@given(st.lists(st.binary(max_size=600), max_size=40))
def test_hashes_differ_as_values_do_as_far_as_they_look(values: list[bytes]) -> None:
    found = hashes(pa.array(values, pa.binary()))
    seen = {(len(value), value[:256], value[-256:]) for value in values}
    assert len(set(found.tolist())) == len(seen)


def test_long_texts_count_by_length_and_both_ends() -> None:
    texts = ["x" * 5000 + end for end in ("a", "b", "bc")] + ["y" + "x" * 4999 + "a"]
    assert Distinct().with_values(pa.array(texts * 3)).count == 4
