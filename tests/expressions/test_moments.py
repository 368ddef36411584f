"""Timestamps near the ends of 64 bits are compared as Python's integers are."""

from __future__ import annotations

import operator
from contextlib import suppress
from itertools import product

import pyarrow as pa
import pytest

from pilum.errors import FilterError
from pilum.expressions import bind, bind_projection

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
OFFSET_SECONDS = {None: 0, "UTC": 0, "+01:00": 3600, "-11:30": -41400, "+14:00": 50400}
OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "<>": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
LEAST, MOST = -(2**63), 2**63 - 1
MOMENTS = {
    "0000-01-01 00:00:00": -62167219200 * 10**9,
    "1677-09-21 00:12:43": -9223372037 * 10**9,
    "1677-09-21 00:12:44": -9223372036 * 10**9,
    "1970-01-01 00:00:00.5": 5 * 10**8,
    "2262-04-11 23:47:16.854": 9223372036854 * 10**6,
    "2262-04-11 23:47:16.854775807": MOST,
    "2262-04-11 23:47:17": 9223372037 * 10**9,
    "2262-04-12 12:00:00": 9223416000 * 10**9,
    "9999-12-31 23:59:59": 253402300799 * 10**9,
}
"""Texts and the nanoseconds that they are after 1970, in UTC."""


def numbers(unit: str) -> list[int]:
    """Returns units near the ends of 64 bits, and near the moments."""
    hours = [0, 1, 11, 12, 14, 15]
    ends = [3600 * hour * 10**9 // NANOSECONDS[unit] for hour in hours]
    near = [moment // NANOSECONDS[unit] for moment in MOMENTS.values()]
    found = [0, *(MOST - end for end in ends), *(LEAST + end for end in ends)]
    found += [number + more for number in near for more in (-1, 0, 1)]
    return sorted({number for number in found if LEAST <= number <= MOST})


def column(unit: str, zone: str | None) -> pa.Array:
    return pa.array(numbers(unit), pa.int64()).cast(pa.timestamp(unit, zone))


@pytest.mark.parametrize("zone", OFFSET_SECONDS)
@pytest.mark.parametrize("unit", NANOSECONDS)
def test_constants(unit: str, zone: str | None) -> None:
    """A text without a zone is a local time of the zone of the column."""
    batch = pa.record_batch({"t": column(unit, zone)})
    values = [number * NANOSECONDS[unit] for number in numbers(unit)]
    for (text, moment), suffix in product(MOMENTS.items(), ("", "Z", "+01:00")):
        seconds = OFFSET_SECONDS[{"": zone, "Z": "UTC"}.get(suffix, suffix)]
        constant = moment - seconds * 10**9
        for name, compares in OPERATORS.items():
            expected = [compares(value, constant) for value in values]
            for form in ("t {} '{}'", "t {} timestamp '{}'"):
                condition = form.format(name, text + suffix)
                assert bind(condition, batch.schema).mask(batch).to_pylist() == expected, condition


@pytest.mark.parametrize("units", list(product(NANOSECONDS, NANOSECONDS)))
@pytest.mark.parametrize("zones", [(None, "+14:00"), ("-11:30", None), ("UTC", "+01:00")])
def test_columns(units: tuple[str, str], zones: tuple[str | None, str | None]) -> None:
    """Times of different units and zones are compared, or are an error: none wraps."""
    pairs = list(product(numbers(units[0])[::2], numbers(units[1])[::2]))
    columns = [
        pa.array(side, pa.int64()).cast(pa.timestamp(unit, zone))
        for side, unit, zone in zip(zip(*pairs, strict=True), units, zones, strict=True)
    ]
    batch = pa.record_batch(columns, ["x", "y"])
    less = bind("x < y", batch.schema)
    seconds = [OFFSET_SECONDS[zones[1]], OFFSET_SECONDS[zones[0]]]
    if None not in zones:
        seconds = [0, 0]
    compared = 0
    for row, pair in enumerate(pairs):
        one, other = (
            number * NANOSECONDS[unit] - (0 if zone else offset * 10**9)
            for number, unit, zone, offset in zip(pair, units, zones, seconds, strict=True)
        )
        with suppress(FilterError):
            found = less.mask(batch.slice(row, 1)).to_pylist()
            assert found == [one < other], pair
            compared += 1
    assert compared


def test_local_dates_do_not_wrap() -> None:
    batch = pa.record_batch({"t": pa.array([MOST], pa.timestamp("ns", "+14:00"))})
    assert bind("t > '2000-01-01'", batch.schema).mask(batch).to_pylist() == [True]
    with pytest.raises(FilterError, match="too far from 1970"):
        bind_projection("cast(t AS date)", batch.schema).evaluate(batch)


def test_times_that_a_clock_skips_are_the_last_ones_before() -> None:
    moments = ["2024-03-10T06:59:59.999Z", "2024-03-10T07:00:00Z"]
    times = pa.array(moments).cast(pa.timestamp("ms", "UTC"))
    batch = pa.record_batch({"t": times.cast(pa.timestamp("ms", "America/New_York"))})
    for text in ("02:30:00", "02:30:00.5", "02:30:00.0005"):
        found = bind(f"t <= '2024-03-10 {text}'", batch.schema).mask(batch).to_pylist()
        assert found == [True, False], text
