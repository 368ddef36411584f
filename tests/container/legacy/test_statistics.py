"""Bounds of pages (S2.11); `tests/interop/test_legacy.py` compares them with the reference's."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from pilum.container.legacy.statistics import bounds, bounds_of_batches


def both(values: object, kind: pa.DataType) -> tuple[object, object]:
    least, most = bounds(pa.array(values, kind))
    assert least.type == most.type == kind
    return least[0].as_py(), most[0].as_py()


def test_of_numbers() -> None:
    assert both([3, 1, 2], pa.int8()) == (1, 3)
    assert both([True, True], pa.bool_()) == (True, True)
    assert both([False, True], pa.bool_()) == (False, True)


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floats_leave_nan_out_and_widen_zeros(kind: pa.DataType) -> None:
    assert both([math.nan, 2.0, 1.0], kind) == (1.0, 2.0)
    assert both([math.nan], kind) == (-math.inf, math.inf)
    for zeros in ([0.0], [-0.0], [-0.0, 0.0], [0.0, -0.0]):
        least, most = both(zeros, kind)
        assert math.copysign(1, float(str(least))) == -1
        assert math.copysign(1, float(str(most))) == 1


@pytest.mark.parametrize(("width", "signaling"), [("f4", 0x7F800001), ("f8", 0x7FF0000000000001)])
def test_signaling_nans_hide_no_value(width: str, signaling: int) -> None:
    """Arrow and NumPy forget what came before such a NaN, so a filter would skip the batch."""
    values = np.array([5, -np.inf, 9, 0, 1], width)
    values.view("u" + width[1])[3] = signaling
    array = pa.array(values)
    assert [end[0].as_py() for end in bounds(array)] == [-math.inf, 9.0]
    _, least, most = bounds_of_batches(array, np.array([0, 1, 5], np.int64))
    assert least.to_pylist() == [5.0, -math.inf]
    assert most.to_pylist() == [5.0, 9.0]


def test_short_strings_are_whole() -> None:
    assert both(["b", None, "a"], pa.string()) == ("a", "b")
    assert both(["x" * 64, "y" * 64], pa.large_string()) == ("x" * 64, "y" * 64)
    assert both([None, None], pa.string()) == (None, None)


def test_long_strings_are_cut_and_the_maximum_is_raised() -> None:
    assert both(["a" * 65], pa.string()) == ("a" * 64, "a" * 63 + "b")
    # Whatever was cut, the maximum is raised, even if it was short itself.
    assert both(["a" * 65, "z"], pa.string()) == ("a" * 64, "{")
    # A character is never divided.
    assert both(["a" * 63 + "é"], pa.string())[0] == "a" * 63


def test_raising_keeps_text_text() -> None:
    last = "\U0010ffff"
    assert both(["a" * 60 + last + "a"], pa.string())[1] == "a" * 59 + "b" + last
    assert both([last * 17], pa.string())[1] is None
    assert both([b"\xff" * 65], pa.binary())[1] is None
    assert both([b"\x01" + b"\xff" * 65], pa.binary())[1] == b"\x02" + b"\0" * 63
