"""Summarise zones of a column while it is written: least and greatest values, nulls and NaNs.

    pages     | 0 . . . . . . . . . | 1 . . . . . . . . . |     cut where enough bytes wait
    zones     | 0 . . . | 1 . . . | 2 . . . | 3 . . . | 4 |     8,192 rows each
    pieces    | 0       | 1       |2a| 2b   | 3       | 4 |     within one page and one zone

The pieces of a page are summarised when it is encoded. At the end of the file, the pieces of each
zone are joined (`ZoneSummary.joined`), and adjacent zones too if all zones would take too much of
the file. Texts and binary values are cut to one byte more than a bound has (`zone_map.py`); the
least of cut values is the cut least value, and the same holds for the greatest.

Their bounds are only computed where they can be of use: samples of some zones are looked at first.
If all of these overlap, the values are in no order. A column has no map if its first page is in no
order, unless maps are requested. The bounds of a large page of texts then remain unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum import kernels
from pilum.format.fields import Field
from pilum.format.types import EXTENSION_NAME

__all__ = [
    "CUT_BYTES",
    "ROWS_PER_ZONE",
    "ZoneSummary",
    "are_in_no_order",
    "has_zones",
    "is_bytes",
]

ROWS_PER_ZONE = 8192
CUT_BYTES = 65
"""Bytes that are kept of texts and binary values."""

_NUM_SAMPLES, _SAMPLE_STEP = 8, 127
"""At least so many zones are looked at, and one row in so many: a prime, for periodic values."""

_BYTES = frozenset({pa.string(), pa.large_string(), pa.binary(), pa.large_binary()})


def has_zones(field: Field) -> bool:
    """Return whether values of a column have zones: plain values with an order, and no lists."""
    if field.children or EXTENSION_NAME in field.metadata or field.logical_type == "json":
        return False
    kind = field.arrow_type
    return is_bytes(kind) or (
        pt.is_boolean(kind)
        or pt.is_integer(kind)
        or pt.is_floating(kind)
        or pt.is_decimal128(kind)
        or (pt.is_temporal(kind) and not pt.is_interval(kind))
    )


def is_bytes(kind: pa.DataType) -> bool:
    """Return whether values are texts or binary."""
    return kind in _BYTES


@dataclass(frozen=True, slots=True)
class ZoneSummary:
    """A summary of adjacent runs of rows of a column.

    Attributes:
        rows: int64, the number of rows of each run.
        nulls: int64, the number of these that are null.
        nans: int64, the number of NaNs.
        least: The least value that is neither null nor NaN, in the total order of floats; null if
            there is none, or it is unknown. Booleans are uint8, texts and binary values
            large_binary, cut.
        most: The greatest one, of the same type.
    """

    rows: NDArray[np.int64]
    nulls: NDArray[np.int64]
    nans: NDArray[np.int64]
    least: pa.Array
    most: pa.Array

    @classmethod
    def of(cls, values: pa.Array, first_row: int) -> ZoneSummary:
        """Summarise rows of a column, from the row `first_row` of the file on, zone by zone."""
        stop = first_row + len(values)
        after = first_row // ROWS_PER_ZONE * ROWS_PER_ZONE + ROWS_PER_ZONE
        cuts = np.arange(after, stop, ROWS_PER_ZONE, dtype=np.int64)
        bounds = np.concatenate(([0], cuts - first_row, [len(values)]))
        return cls(np.diff(bounds), *_summed(values, bounds))

    @classmethod
    def joined(cls, pieces: Sequence[ZoneSummary], rows_per_zone: int) -> ZoneSummary:
        """Join runs to zones of `rows_per_zone` rows; every zone ends where a run ends."""
        if len(pieces) == 1 and (pieces[0].rows[:-1] == rows_per_zone).all():
            return pieces[0]
        rows, nulls, nans = (
            np.concatenate([getattr(piece, name) for piece in pieces])
            for name in ("rows", "nulls", "nans")
        )
        least, most = (
            pa.concat_arrays([getattr(piece, name) for piece in pieces])
            for name in ("least", "most")
        )
        first = np.flatnonzero((np.cumsum(rows) - rows) % rows_per_zone == 0)
        bounds = np.append(first, len(rows))
        if is_bytes(least.type):
            (lower, _), (_, upper) = (_ends_of_bytes(ends, bounds) for ends in (least, most))
        else:
            _, _, lower, _ = _of_numbers(least, bounds)
            _, _, _, upper = _of_numbers(most, bounds)
        is_unknown = (nulls + nans < rows) & least.is_null().to_numpy(zero_copy_only=False)
        if is_unknown.any():
            unknown = pa.array(np.logical_or.reduceat(is_unknown, first))
            nothing = pa.scalar(None, least.type)
            lower, upper = (pc.if_else(unknown, nothing, ends) for ends in (lower, upper))
        rows, nulls, nans = (np.add.reduceat(counts, first) for counts in (rows, nulls, nans))
        return cls(rows, nulls, nans, lower, upper)


def _summed(
    values: pa.Array, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array, pa.Array]:
    """Return the nulls, the NaNs, the least and the greatest value of runs between bounds."""
    if is_bytes(values.type):
        return _of_bytes(values, bounds)
    return _of_numbers(_as_numbers(values), bounds)


def _as_numbers(values: pa.Array) -> pa.Array:
    return values.cast(pa.uint8()) if pt.is_boolean(values.type) else values


def _of_numbers(
    values: pa.Array, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array, pa.Array]:
    kind = values.type
    width, (validity, data) = kind.bit_width // 8, values.buffers()
    start = values.offset * width
    least, most, nulls, nans = kernels.zone_bounds(
        np.frombuffer(data or b"", np.uint8)[start : start + len(values) * width],
        width,
        None if pt.is_floating(kind) else not pt.is_unsigned_integer(kind),
        (np.frombuffer(validity, np.uint8), values.offset) if values.null_count else None,
        bounds,
    )
    counts = nulls.astype(np.int64), nans.astype(np.int64)
    has_value = sum(counts) < np.diff(bounds)
    known = None if has_value.all() else np.packbits(has_value, bitorder="little")
    return *counts, *(_array(kind, ends, known, len(nulls)) for ends in (least, most))


def _array(
    kind: pa.DataType, data: NDArray[np.uint8], known: NDArray[np.uint8] | None, count: int
) -> pa.Array:
    validity = None if known is None else pa.py_buffer(known)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(data)])


def _of_bytes(
    values: pa.Array, bounds: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], pa.Array, pa.Array]:
    nulls = np.zeros(len(bounds) - 1, np.int64)
    if values.null_count:
        null = values.is_null().to_numpy(zero_copy_only=False)
        nulls = np.add.reduceat(null, bounds[:-1], dtype=np.int64)
    if len(nulls) >= 2 * _NUM_SAMPLES and are_in_no_order(values):
        unknown = pa.nulls(len(nulls), pa.large_binary())
        return nulls, np.zeros_like(nulls), unknown, unknown
    return nulls, np.zeros_like(nulls), *_ends_of_bytes(values, bounds)


def are_in_no_order(values: pa.Array) -> bool:
    """Return whether samples of the zones of a page all overlap, and none has a single value."""
    num_zones = len(values) // ROWS_PER_ZONE
    if num_zones < 2:
        return False
    zones = np.arange(0, num_zones, max(num_zones // _NUM_SAMPLES, 1), dtype=np.int64)
    rows = zones[:, None] * ROWS_PER_ZONE + np.arange(0, ROWS_PER_ZONE, _SAMPLE_STEP)
    samples = values.take(pa.array(rows.ravel()))
    bounds = np.arange(len(zones) + 1, dtype=np.int64) * rows.shape[1]
    ends = zip(*map(_comparable, _summed(samples, bounds)[2:]), strict=True)
    known = [(least, most) for least, most in ends if least is not None]
    if not known or any(least == most for least, most in known):
        return False
    return bool(max(least for least, _ in known) <= min(most for _, most in known))


def _comparable(ends: pa.Array) -> list[Any]:
    """Return bounds as values of Python."""
    kind = ends.type
    if pt.is_temporal(kind):
        ends = ends.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    found: list[Any] = ends.to_pylist()
    return found


def _ends_of_bytes(values: pa.Array, bounds: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """Return the least and the greatest value of runs between bounds; null if all are null."""
    return _ends_of_ranges(values, np.stack([bounds[:-1], np.diff(bounds)], axis=1))


def _ends_of_ranges(values: pa.Array, ranges: NDArray[np.int64]) -> tuple[pa.Array, pa.Array]:
    """Return the least and the greatest value of ranges, given as first row and count."""
    validity = None
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        validity = np.packbits(valid, bitorder="little")
    _, offsets, data = values.buffers()
    is_large = values.type in (pa.large_string(), pa.large_binary())
    ends: NDArray[Any] = np.frombuffer(offsets, np.int64 if is_large else np.int32)
    rows = kernels.text_ends(
        ends[values.offset : values.offset + len(values) + 1],
        np.frombuffer(data or b"", np.uint8),
        validity,
        ranges,
    ).reshape(-1, 2)
    least, most = (_cut(values.take(pa.array(own, mask=own < 0))) for own in rows.T)
    return least, most


def _cut(values: pa.Array) -> pa.Array:
    return pc.binary_slice(values.cast(pa.large_binary()), 0, CUT_BYTES)
