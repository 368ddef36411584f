"""Scalars without pandas."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.expressions.types import array_of, scalar_of

INTEGERS = st.integers(-(2**63), 2**64 - 1)
VALUES = st.one_of(st.booleans(), INTEGERS, st.floats(), st.text(), st.binary())
TYPES = [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32()]


@given(VALUES)
def test_plain_scalars_are_those_of_arrow(value: Any) -> None:
    try:
        wanted = pa.scalar(value)
    except OverflowError:
        with pytest.raises(OverflowError):
            scalar_of(value)
        return
    assert scalar_of(value).type == wanted.type
    assert repr(scalar_of(value)) == repr(wanted)


@given(st.one_of(INTEGERS, st.floats(), st.none()), st.sampled_from(TYPES))
def test_typed_scalars_are_those_of_arrow(value: Any, arrow: pa.DataType) -> None:
    errors = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, ValueError)
    try:
        wanted = pa.scalar(value, arrow)
    except errors:
        with pytest.raises(errors):
            scalar_of(value, arrow)
        return
    assert scalar_of(value, arrow).type == arrow
    assert repr(scalar_of(value, arrow)) == repr(wanted)


@given(st.lists(st.text()))
def test_arrays_of_scalars(values: list[str]) -> None:
    made = array_of([scalar_of(value) for value in values], pa.string())
    assert made.equals(pa.array(values, pa.string()))


def test_a_filter_does_not_import_pandas(tmp_path: Path) -> None:
    pilum.write_dataset({"i": range(1000), "s": ["a", "b"] * 500}, tmp_path)
    script = (
        f"import sys, pilum; d = pilum.dataset({str(tmp_path)!r})\n"
        "for text in ('i % 100 = 7', \"s in ('a', 'c') and i > 5\", 'i between 3 and 9'):\n"
        "    assert d.to_table(filter=text).num_rows\n"
        "    d.count_rows(text)\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
