"""Timestamps of zones and units, exact up to the ends of what 64 bits hold.

    wall clock 2262-04-11 23:47 in New York    no timestamp[ns]: more than 2^63 - 1 ns after 1970
    ts_s < '10:00:00.5'                        ts_s <= '10:00:00', as it has whole seconds

Arrow adds the offset of a zone without a look at the sum, which wraps to the other end of time.
"""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.errors import FilterError
from pilum.expressions.types import scalar_of

__all__ = ["at_zone", "floor_in_units", "local_time"]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_FAR = 2**62
"""No offset of a zone leads from a smaller number of units to beyond 64 bits."""

_FAR_BITS, _OPPOSITE = scalar_of(62), scalar_of(-2)


def at_zone(local: Any, zone: str, unclear: Literal["earliest", "raise"] = "earliest") -> Any:
    """Read wall-clock timestamps (scalar or array) as local times of a zone.

    Args:
        local: The timestamps, without a zone.
        zone: The zone.
        unclear: What happens to times that clocks skip or show twice.

    Raises:
        FilterError: If a moment lies beyond what its type holds.
    """
    moments = pc.assume_timezone(local, zone, ambiguous=unclear, nonexistent=unclear)
    _require_unwrapped(local, moments)
    return moments


def local_time(moments: Any) -> Any:
    """Return the wall-clock timestamps of moments with a zone; raise FilterError as `at_zone`."""
    local = pc.local_timestamp(moments)
    _require_unwrapped(moments, local)
    return local


def _require_unwrapped(before: Any, after: Any) -> None:
    ends = pc.min_max(before).values()
    if not any(end.is_valid and abs(end.value) >= _FAR for end in ends):
        return
    # The upper two bits are -2 or 1 near the ends of time, and -1 or 0 between.
    upper = (pc.shift_right(moments.cast(pa.int64()), _FAR_BITS) for moments in (before, after))
    if pc.any(pc.equal(pc.multiply(*upper), _OPPOSITE)).as_py():
        raise FilterError(f"a moment that is no {after.type}: it is too far from 1970")


def floor_in_units(value: pa.Scalar, target: pa.DataType) -> tuple[int, bool]:
    """Return a date or timestamp as a number of units of a timestamp type, of any size.

    Args:
        value: A date or timestamp; one without a zone is a local time of the zone of `target`.
        target: The timestamp type.

    Returns:
        The units since 1970, rounded down, and whether nothing was cut off.
    """
    if pt.is_date(value.type):
        value = value.cast(pa.timestamp("s" if pt.is_date32(value.type) else "ms"))
    nanoseconds = value.value * _NANOSECONDS[value.type.unit]
    if target.tz and not value.type.tz:
        nanoseconds -= _offset_nanoseconds(value, target.tz)
    number, rest = divmod(nanoseconds, _NANOSECONDS[target.unit])
    return number, rest == 0


def _offset_nanoseconds(local: pa.Scalar, zone: str) -> int:
    """Return how far the clocks of a zone are ahead of UTC when they show a timestamp."""
    nanoseconds = _NANOSECONDS[local.type.unit]
    try:
        return int(local.value - at_zone(local, zone).value) * nanoseconds
    except FilterError:
        if local.type.unit == "s":
            return 0  # makes no difference so far from 1970
    seconds = local.value * nanoseconds // _NANOSECONDS["s"]
    return _offset_nanoseconds(pa.scalar(seconds, pa.timestamp("s")), zone)
