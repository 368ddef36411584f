"""Numbers of 16 bits: rounding, arrays, casts, frames of pandas, and tables with them."""

from __future__ import annotations

import importlib
import math
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from arrow_types import reference_arrow
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.arrow import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array, cast
from pilum.errors import InvalidInputError, MissingDependencyError

pytest.importorskip("lance", reason="the reference is not installed")
reference = reference_arrow()

VALUES = [0.0, -0.0, 1.0, 1.1, -3.25e38, 1e-40, math.inf, -math.inf, 65504.0, 1.00390625]


@pytest.mark.reference
@given(st.floats(width=32, allow_nan=False))
def test_a_number_is_rounded_as_by_the_reference(value: float) -> None:
    assert float(BFloat16(value)) == reference.BFloat16(value).as_float()


def test_a_number_is_a_number() -> None:
    number = BFloat16(1.1)
    assert str(number) == "1.1015625"
    assert repr(number) == "BFloat16(1.1015625)"
    assert number == 1.1015625
    assert number > BFloat16(1)
    assert math.isnan(BFloat16(math.nan).as_float())
    assert BFloat16.from_bytes(bytes(number)) == number
    assert pickle.loads(pickle.dumps(number)) == number
    assert len({number, BFloat16(1.1)}) == 1
    with pytest.raises(InvalidInputError, match="2 bytes"):
        BFloat16.from_bytes(b"abc")


def test_arrays_have_numbers_and_nulls() -> None:
    array = bfloat16_array([1.1, None, BFloat16(3)])
    assert array.type == BFloat16Type()
    assert array.to_pylist() == [BFloat16(1.1), None, BFloat16(3)]
    assert array[0] == BFloat16(1.1)
    assert array[1].as_py() is None
    assert str(array) == "[\n  1.1015625,\n  None,\n  3\n]"
    assert len(str(bfloat16_array(range(100))).splitlines()) == 23
    assert array[1:].to_pylist() == [None, BFloat16(3)]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_casts_keep_values_and_nulls(kind: pa.DataType) -> None:
    numbers = pa.array([1.5, None, -2.0, 0.25], pa.float64()).cast(kind)
    packed = cast(numbers, "bfloat16")
    assert isinstance(packed, BFloat16Array)
    assert cast(packed, kind).equals(numbers)
    assert cast(packed[1:], kind).equals(numbers[1:])
    assert cast(packed, BFloat16Type()) is packed
    lists = pa.FixedSizeListArray.from_arrays(numbers, 2)
    target = pa.list_(BFloat16Type(), 2)
    assert cast(lists[1:], target).to_pylist() == [[BFloat16(-2), BFloat16(0.25)]]
    assert cast(pa.array([1]), "float").type == pa.float32()


def test_other_casts_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="cast to a float first"):
        cast(pa.array([1]), "bf16")
    with pytest.raises(InvalidInputError, match="cast to a float first"):
        cast(bfloat16_array([1]), pa.int32())
    with pytest.raises(InvalidInputError, match="lists of 2"):
        cast(pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)), pa.list_(pa.float32(), 3))


def test_columns_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    series = bfloat16_array([1, None, 3]).to_pandas()
    assert str(series.dtype) == "lance.bfloat16"
    assert series.isna().tolist() == [False, True, False]
    assert series.iloc[2] == BFloat16(3)
    assert series[series.notna()].tolist() == [BFloat16(1), BFloat16(3)]
    both = pandas.concat([series, series[:1]])
    assert both.tolist() == [BFloat16(1), None, BFloat16(3), BFloat16(1)]
    assert pandas.Series([1.5], dtype="lance.bfloat16").tolist() == [BFloat16(1.5)]
    assert pa.array(series).to_pylist() == [BFloat16(1), None, BFloat16(3)]


def test_numpy_needs_a_package() -> None:
    array = bfloat16_array(VALUES)
    if find_spec("ml_dtypes") is None:
        with pytest.raises(MissingDependencyError, match="pip install ml_dtypes"):
            array.to_numpy()
        return
    types: Any = importlib.import_module("ml_dtypes")
    values = array.to_numpy()
    assert values.dtype == types.bfloat16
    assert np.array_equal(values, np.array(VALUES, types.bfloat16))
    assert BFloat16Array.from_numpy(values).equals(array)


def test_tables_store_them(tmp_path: Path) -> None:
    table = pa.table({"a": bfloat16_array([1.1, None, 3])})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    assert dataset.to_table().equals(table)
