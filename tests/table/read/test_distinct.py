from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.table.read.distinct import Distinct, hashes

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
