"""Statistics of columns, computed from values; summaries of parts of a table can be merged.

fragments 0 1 2   ──▶ ColumnSummary ─┐
fragments 3 4     ──▶ ColumnSummary ─┴─▶ ColumnSummary ──▶ num_rows, nulls, min, max, distinct

The number of distinct values is estimated from the smallest of their hashes:

    values ──▶ 64-bit hashes, spread evenly ──▶ the 1,024 smallest ones
                                                     0 |||| ||  |||                2^64
                                                                  └ the largest of them shows
                                                                    how dense the hashes are

Sketches of parts can be merged into a sketch of the whole. Below 1,024 values, the number is exact.
Above, it is within 6 % in 95 of 100 cases. Texts and binary values are hashed by their length and
their first and last 256 bytes. Source: Z. Bar-Yossef and others, "Counting distinct elements in a
data stream" (2002).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import python_value
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["ColumnSummary", "Distinct", "can_count", "hashes", "summarize"]

_SIZE = 1024
_ENDS = 256
_SLICE_BYTES = 1 << 20
_BASE = np.uint64(0x9E37_79B9_7F4A_7C15)
_MIX = (np.uint64(0xBF58_476D_1CE4_E5B9), np.uint64(0x94D0_49BB_1331_11EB))
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))

Hashes = NDArray[np.uint64]

# Types that Arrow cannot compare.
_COMPARABLE = {
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


@dataclass(frozen=True)
class ColumnSummary:
    """Statistics of some rows of a column.

    Attributes:
        num_rows: Number of rows.
        null_count: Number of these rows that are null.
        bounds: The smallest and the largest value, null if there is none; None if the type has no
            order. NaN is ignored.
        distinct: Sketch of the distinct values; None for nested types.
    """

    num_rows: int = 0
    null_count: int = 0
    bounds: pa.Array | None = None
    distinct: Distinct | None = field(default=None, compare=False)

    @classmethod
    def of(cls, values: pa.Array) -> ColumnSummary:
        """Summarize an array."""
        distinct = Distinct().with_values(values) if can_count(values.type) else None
        return cls(len(values), values.null_count, _bounds(values), distinct)

    @property
    def min(self) -> Any:
        """The smallest value, as `python_value`; None if there is none."""
        return None if self.bounds is None else python_value(self.bounds[0])

    @property
    def max(self) -> Any:
        """The largest value, in the same way."""
        return None if self.bounds is None else python_value(self.bounds[1])

    def joined(self, other: ColumnSummary) -> ColumnSummary:
        """Return the summary of the rows of both."""
        return ColumnSummary(
            self.num_rows + other.num_rows,
            self.null_count + other.null_count,
            _joined_bounds(self.bounds, other.bounds),
            _both(self.distinct, other.distinct),
        )


def summarize(
    snapshot: Snapshot, columns: Iterable[str], fragment_ids: Iterable[int] | None = None
) -> dict[str, ColumnSummary]:
    """Summarize columns of all or some fragments, without deleted rows, batch by batch."""
    names = tuple(columns)
    ids = None if fragment_ids is None else tuple(fragment_ids)
    found = dict.fromkeys(names, ColumnSummary())
    for batch in scan(snapshot, ScanOptions(columns=names, fragment_ids=ids)):
        for name in names:
            found[name] = found[name].joined(ColumnSummary.of(batch.column(name)))
    return found


def _bounds(values: pa.Array) -> pa.Array | None:
    kind = values.type
    if not can_count(kind) or pt.is_interval(kind):
        return None
    if pt.is_dictionary(kind):
        values = values.dictionary_decode()
    elif (comparable := _COMPARABLE.get(kind)) is not None:
        values = values.cast(comparable)
    if pt.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), None, values)
    kind = values.type
    found = pc.min_max(values.view(pa.int64()) if pt.is_duration(kind) else values)
    return pa.concat_arrays([pa.repeat(found[name], 1) for name in ("min", "max")]).view(kind)


def _joined_bounds(one: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    if one is None or other is None:
        return other if one is None else one
    return _bounds(pa.concat_arrays([one, other]))


def _both(one: Distinct | None, other: Distinct | None) -> Distinct | None:
    if one is None or other is None:
        return other if one is None else one
    return one.joined(other)


@dataclass(frozen=True)
class Distinct:
    """A sketch of a set of values: their smallest hashes, ascending."""

    smallest: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))

    def with_values(self, values: pa.Array) -> Distinct:
        """Return the sketch with more values; nulls are ignored."""
        return self.joined(Distinct(hashes(values)))

    def joined(self, other: Distinct) -> Distinct:
        """Return the sketch of the union of both sets."""
        more = other.smallest
        if len(self.smallest) == _SIZE:
            more = more[more < self.smallest[-1]]
        return Distinct(np.unique(np.concatenate([self.smallest, more]))[:_SIZE])

    @property
    def count(self) -> int:
        """Estimate the number of distinct values."""
        if len(self.smallest) < _SIZE:
            return len(self.smallest)
        return round((_SIZE - 1) / (float(self.smallest[-1]) / 2.0**64))


def can_count(kind: pa.DataType) -> bool:
    """Return whether values of a type can be hashed: all types except nested ones."""
    if pt.is_dictionary(kind):
        return can_count(kind.value_type)
    return not (pt.is_nested(kind) or pt.is_null(kind) or isinstance(kind, pa.ExtensionType))


def hashes(values: pa.Array) -> Hashes:
    """Return a hash of each value that is not null, of a type for which `can_count` is true."""
    values = values.drop_null()
    if pt.is_dictionary(values.type):
        return hashes(values.cast(values.type.value_type))
    if pt.is_boolean(values.type):
        values = values.cast(pa.uint8())
    if pt.is_primitive(values.type):
        width = values.type.bit_width // 8
        return _mixed(_items(values, width).view(f"u{width}").ravel().astype(np.uint64))
    if pt.is_decimal(values.type) or pt.is_fixed_size_binary(values.type):
        width = values.type.bit_width // 8
        return _of_bytes(_items(values, width).ravel(), np.arange(len(values) + 1) * width)
    return _of_texts(values)


def _items(values: pa.Array, width: int) -> NDArray[np.uint8]:
    """Return the bytes of each item, shape (n, width)."""
    data = np.frombuffer(values.buffers()[1] or b"", np.uint8)
    start = values.offset * width
    return data[start : start + len(values) * width].reshape(-1, width)


def _of_texts(values: pa.Array) -> Hashes:
    binary = values.cast(pa.large_binary())
    lengths = pc.binary_length(binary).to_numpy()
    found = _mixed(lengths.astype(np.uint64))
    for start in (0, -_ENDS):
        stop = _ENDS if start == 0 else None
        ends = pc.binary_slice(binary, start, stop)
        data = np.frombuffer(ends.buffers()[2] or b"", np.uint8)
        offsets = np.frombuffer(ends.buffers()[1], np.int64)[ends.offset :][: len(ends) + 1]
        found = _mixed(found ^ _of_bytes(data, offsets))
    return found


def _of_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Hashes:
    """Hash runs of bytes with these bounds, each taken as the digits of a number in an odd base."""
    if len(offsets) < 2:
        return np.empty(0, np.uint64)
    num_slices = 1 + int(offsets[-1] - offsets[0]) // _SLICE_BYTES
    cuts = np.array_split(np.arange(len(offsets) - 1), num_slices)
    return np.concatenate(
        [_of_slice(data, offsets[cut[0] : cut[-1] + 2]) for cut in cuts if len(cut)]
    )


def _of_slice(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> Hashes:
    lengths = np.diff(offsets)
    powers = np.full(int(lengths.max()) + 1, _BASE)
    powers[0] = 1
    np.multiply.accumulate(powers, out=powers)
    places = np.arange(offsets[0], offsets[-1]) - np.repeat(offsets[:-1], lengths)
    digits = data[offsets[0] : offsets[-1]].astype(np.uint64) + np.uint64(1)
    sums = np.zeros(len(digits) + 1, np.uint64)
    np.cumsum(digits * powers[places], out=sums[1:])
    ends = offsets - offsets[0]
    return _mixed(sums[ends[1:]] - sums[ends[:-1]])


def _mixed(numbers: Hashes) -> Hashes:
    """Spread numbers evenly over 64 bits (SplitMix64)."""
    numbers = numbers + _BASE
    for shift, factor in zip(_SHIFTS, _MIX, strict=False):
        numbers = (numbers ^ (numbers >> shift)) * factor
    return numbers ^ (numbers >> _SHIFTS[2])
