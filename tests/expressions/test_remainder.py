"""Remainders of integers against those of Python, for all types, signs and nulls."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilum.expressions.remainder import remainder

WIDTHS = (8, 16, 32, 64)
TYPES = [pa.type_for_alias(f"{sign}int{width}") for sign in ("", "u") for width in WIDTHS]


def limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_unsigned_integer(kind):
        return 0, (1 << kind.bit_width) - 1
    return -(1 << (kind.bit_width - 1)), (1 << (kind.bit_width - 1)) - 1


def expected(value: int | None, divisor: int) -> int | None:
    if value is None:
        return None
    rest = abs(value) % abs(divisor)
    return rest if value >= 0 else -rest


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.DataType, list[int | None], int]:
    kind = draw(st.sampled_from(TYPES))
    least, most = limits(kind)
    near = st.sampled_from([least, least + 1, 0, 1, most - 1, most])
    number = near | st.integers(least, most) | st.integers(max(least, -300), min(most, 300))
    divisor = draw(number.filter(bool))
    # The least number divided by -1 is no number of the type; SQL calls it an overflow.
    least_is_left = divisor == -1
    values = draw(st.lists(st.none() | number.filter(lambda x: not (least_is_left and x == least))))
    return kind, values, divisor


@given(cases())
def test_remainders_have_the_sign_of_the_dividend(
    case: tuple[pa.DataType, list[int | None], int],
) -> None:
    kind, values, divisor = case
    wanted = [expected(value, divisor) for value in values]
    array, constant = pa.array(values, kind), pa.scalar(divisor, kind)
    found = remainder(array, constant)
    assert found.type == kind
    assert found.to_pylist() == wanted
    padded = pa.concat_arrays([pa.array([7, None], kind), array]).slice(2)
    assert remainder(padded, constant).to_pylist() == wanted
    assert remainder(array, pa.array([divisor] * len(values), kind)).to_pylist() == wanted


def test_floats_have_those_of_c() -> None:
    values, divisor = [7.5, -7.5, 0.0, math.inf, None], pa.scalar(2.0)
    found = remainder(pa.array(values, pa.float64()), divisor).to_pylist()
    assert found[:3] == [1.5, -1.5, 0.0]
    assert math.isnan(found[3])
    assert found[4] is None


@pytest.mark.parametrize("kind", TYPES)
def test_nothing_is_divided_by_zero(kind: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid, match="divide by zero"):
        remainder(pa.array([1], kind), pa.scalar(0, kind))
