"""ZONEMAP: the least and greatest value of each zone.

    zonemap.lance

| column | type | |
|---|---|---|
| `min` | as the values | least value; null if there is none |
| `max` | as the values | greatest value; NaN if the zone contains a NaN |
| `null_count` | uint32 | |
| `nan_count` | uint32 | |
| `fragment_id`, `zone_start`, `zone_length` | uint64 | see `zones.py` |

`min` and `max` are of values that are neither null nor NaN, in the total order of floats. The
metadata has `rows_per_zone`, 8192 by default. A zone matches a condition if its range overlaps the
range of the condition. A zone with a NaN matches every range, as a NaN is less or greater than all
numbers. Source: docs/format/indices.md, "ZONEMAP".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arguments import require_count, require_known
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.expressions.compare import ordinals
from pilum.expressions.types import is_text
from pilum.format.messages import parse_message
from pilum.format.pb import index_pb2
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.queries import Between, IsIn, IsNull, Query, StartsWith
from pilum.index.scalar.zones import ZONE_FIELDS, ZoneIndex, ZoneIndexType, ZoneRows
from pilum.kernels import zone_bounds
from pilum.lazy import cached_property

__all__ = ["ZONE_MAP", "ZoneMap"]

_ROWS_PER_ZONE = 8192
_MAX_LOOKUPS = 64
"""Values that are neither numbers nor times are compared one by one, if there are few."""

_Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Parameters:
    rows_per_zone: int
    use_seeds: bool


class ZoneMap(ZoneIndex):
    """An open segment of a zone map."""

    columns = ("min", "max", "null_count", "nan_count", *(field.name for field in ZONE_FIELDS))

    def __init__(self, file: IndexFile, use_seeds: bool) -> None:
        super().__init__(file)
        text = file.metadata.get("rows_per_zone", "")
        if not text.isdecimal() or int(text) < 1:
            raise CorruptFileError(f"rows_per_zone: {text!r:.40} is no number of rows", file.path)
        self.parameters = _Parameters(int(text), use_seeds)
        least, most = (self.rows[name].combine_chunks() for name in ("min", "max"))
        if least.type != most.type:
            raise CorruptFileError(f"min is {least.type}, max is {most.type}", file.path)
        self.type = least.type
        nans, nulls = (self._numbers(name) for name in ("nan_count", "null_count"))
        self._has_null = nulls > 0
        self._has_value = _known(least.is_valid())
        # Without ends, there are no other values; but the reference omits those of fixed binary.
        is_unknown = ~self._has_value & (nulls + nans < self.zones.lengths)
        self._is_open = (nans > 0) | is_unknown
        self._least, self._most = _ordered(least), _ordered(most)
        if self._ranks is not None or is_text(self.type):
            are_reversed = _known(pc.greater(self._least, self._most)) & (nans == 0)
            if are_reversed.any():
                raise CorruptFileError("a zone whose min is greater than its max", file.path)

    @property
    def value_type(self) -> pa.DataType:
        """See `Index.value_type`."""
        return self.type

    def _numbers(self, name: str) -> NDArray[np.int64]:
        column = self.rows[name].combine_chunks()
        if not pt.is_integer(column.type) or column.null_count:
            raise CorruptFileError(f"column {name!r} of {column.type}, with nulls", self.file.path)
        return np.asarray(column.cast(pa.int64()))

    def may_match(self, query: Query) -> _Mask | None:
        """See `ZoneIndex.may_match`."""
        match query:
            case IsNull():
                return self._has_null
            case IsIn(values=values) if values.type == self.type:
                return self._may_equal(values)
            case Between(low=low, high=high) if self._has_type_of(low, high):
                found = self._has_value
                if low is not None:
                    found = found & self._reaches(_ordered(pa.repeat(low, 1))[0])
                if high is not None:
                    found = found & self._begins_by(_ordered(pa.repeat(high, 1))[0])
                return found | self._is_open
            case StartsWith(prefix=prefix):
                return self._may_start_with(prefix)
        return None

    def _has_type_of(self, *ends: pa.Scalar | None) -> bool:
        return all(end is None or end.type == self.type for end in ends)

    def _may_equal(self, values: pa.Array) -> _Mask:
        found = self._is_open.copy()
        if pt.is_floating(values.type):
            values = values.filter(pc.invert(pc.is_nan(values)))
        if len(values) == 0:
            return found
        looked_up = _ordered(values)
        if self._ranks is not None:
            least, most = self._ranks
            ranks = np.sort(_numbers(looked_up))
            first = ranks.searchsorted(least, side="left")
            last = ranks.searchsorted(most, side="right")
            return found | (self._has_value & (first < last))
        if len(looked_up) > _MAX_LOOKUPS:
            ends = pc.min_max(looked_up)
            return found | (
                self._has_value & self._reaches(ends["min"]) & self._begins_by(ends["max"])
            )
        for value in looked_up:
            found |= self._has_value & self._reaches(value) & self._begins_by(value)
        return found

    @cached_property
    def _ranks(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """The ends of zones as integers of the same order; None for other types."""
        if not _has_numbers(self._least.type):
            return None
        return _numbers(self._least.fill_null(0)), _numbers(self._most.fill_null(0))

    def _may_start_with(self, prefix: str | bytes) -> _Mask | None:
        if not (is_text(self.type) or pt.is_binary(self.type) or pt.is_large_binary(self.type)):
            return None
        text = prefix.encode() if isinstance(prefix, str) else prefix
        least, most = (ends.cast(pa.large_binary()) for ends in (self._least, self._most))
        found = self._has_value & _known(pc.greater_equal(most, pa.scalar(text, most.type)))
        after = text.rstrip(b"\xff")
        if after:
            end = after[:-1] + bytes([after[-1] + 1])
            found &= _known(pc.less(least, pa.scalar(end, least.type)))
        return found | self._is_open

    def _reaches(self, value: pa.Scalar) -> _Mask:
        """Return which zones have a value that is not less."""
        return _known(pc.greater_equal(self._most, value))

    def _begins_by(self, value: pa.Scalar) -> _Mask:
        """Return which zones have a value that is not greater."""
        return _known(pc.less_equal(self._least, value))

    def statistics(self) -> dict[str, Any]:
        """See `Index.statistics`."""
        return {"num_zones": len(self.zones.starts), "rows_per_zone": self.parameters.rows_per_zone}


class _ZoneMapType(ZoneIndexType[ZoneMap]):
    """See the module."""

    name = "ZONEMAP"
    type_url = "/lance.table.ZoneMapIndexDetails"
    file_name = "zonemap.lance"
    files = (file_name,)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """See `IndexType.require_supported`."""
        if pt.is_nested(type) or pt.is_dictionary(type) or pt.is_null(type):
            raise UnsupportedTypeError(
                f"ZONEMAP index column {column} must have numbers, booleans, times, text or "
                f"binary, not {type}"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> _Parameters:
        """See `IndexType.parameters`."""
        require_known("ZONEMAP has", given, ("rows_per_zone", "use_seeds"))
        number = require_count("rows_per_zone", given.get("rows_per_zone", _ROWS_PER_ZONE), 1)
        use_seeds = given.get("use_seeds", not pt.is_primitive(type) or type.bit_width > 64)
        if not isinstance(use_seeds, bool):
            raise InvalidInputError(f"use_seeds: expected a bool, found {use_seeds!r:.40}")
        return _Parameters(number, use_seeds)

    def parameters_of(self, index: ZoneMap) -> _Parameters:
        """See `ZoneIndexType.parameters_of`."""
        return index.parameters

    def zone_rows(self, parameters: _Parameters) -> int:
        """See `ZoneIndexType.zone_rows`."""
        return parameters.rows_per_zone

    def metadata(self, parameters: _Parameters) -> dict[str, str]:
        """See `ZoneIndexType.metadata`."""
        return {"rows_per_zone": str(parameters.rows_per_zone)}

    def details(self, parameters: _Parameters) -> bytes:
        """See `ZoneIndexType.details`."""
        message = index_pb2.ZoneMapIndexDetails(
            rows_per_zone=parameters.rows_per_zone,
            use_seeds=parameters.use_seeds,
            has_null_bitmap=True,
        )
        return bytes(message.SerializeToString(deterministic=True))

    def schema(self, type: pa.DataType) -> pa.Schema:
        """See `ZoneIndexType.schema`."""
        counts = (
            pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "nan_count")
        )
        return pa.schema([("min", type), ("max", type), *counts, *ZONE_FIELDS])

    def columns(self, rows: ZoneRows, parameters: _Parameters) -> list[pa.Array]:
        """See `ZoneIndexType.columns`."""
        del parameters
        bounds = _bounds_of_numbers if _is_number(rows.values.type) else _bounds_of_others
        return [*bounds(rows.values, rows.bounds), *rows.zones.columns()]

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> ZoneMap:
        """See `IndexType.open`."""
        del index_version
        kind, what = index_pb2.ZoneMapIndexDetails, "details of a zone map"
        message = parse_message(kind, details, folder.path, what=what)
        return ZoneMap(folder.open(self.file_name), message.use_seeds)


ZONE_MAP = _ZoneMapType()


def _is_number(type: pa.DataType) -> bool:
    """Return whether values are integers or floats of 8 to 64 bits."""
    return bool(pt.is_floating(type)) or _has_numbers(type)


def _bounds_of_numbers(values: pa.Array, bounds: NDArray[np.int64]) -> list[pa.Array]:
    """Return the columns `min`, `max`, `null_count` and `nan_count` of zones."""
    type, width = values.type, values.type.bit_width // 8
    validity, data = values.buffers()
    is_float = pt.is_floating(type)
    start, stop = values.offset * width, (values.offset + len(values)) * width
    least, most, nulls, nans = zone_bounds(
        np.frombuffer(data, np.uint8)[start:stop],
        width,
        None if is_float else not pt.is_unsigned_integer(type),
        (np.frombuffer(validity, np.uint8), values.offset) if values.null_count else None,
        bounds,
    )
    has_value = nulls.astype(np.int64) + nans < np.diff(bounds)
    lower, upper = (
        pa.Array.from_buffers(type, len(nulls), [None, pa.py_buffer(one)]) for one in (least, most)
    )
    if not has_value.all():
        is_null = pa.array(~has_value)
        lower, upper = (pc.if_else(is_null, pa.scalar(None, type), end) for end in (lower, upper))
    if is_float and nans.any():
        upper = pc.if_else(pa.array(nans > 0), pa.scalar(np.nan, pa.float64()).cast(type), upper)
    return [lower, upper, pa.array(nulls), pa.array(nans)]


def _bounds_of_others(values: pa.Array, bounds: NDArray[np.int64]) -> list[pa.Array]:
    """Return the same columns as `_bounds_of_numbers` for other types; none of them has NaN."""
    is_null = values.is_null().to_numpy(zero_copy_only=False)
    nulls = np.add.reduceat(is_null, bounds[:-1], dtype=np.uint32)
    return [*_ends(values, bounds), pa.array(nulls), pa.array(np.zeros_like(nulls))]


def _ends(values: pa.Array, bounds: NDArray[np.int64]) -> list[pa.Array]:
    """Return the least and the greatest value of each zone."""
    # Indices that the reference creates, without any ends.
    if pt.is_dictionary(values.type) or pt.is_nested(values.type):
        return [pa.nulls(len(bounds) - 1, values.type)] * 2
    zones = [
        values.slice(start, stop - start)
        for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    ]
    ends = [pc.min_max(zone) for zone in zones]
    return [pa.concat_arrays([pa.repeat(end[name], 1) for end in ends]) for name in ("min", "max")]


def _known(mask: pa.Array) -> _Mask:
    """Return a mask in which null is false."""
    return np.asarray(mask.fill_null(False).to_numpy(zero_copy_only=False))


def _ordered(values: pa.Array) -> pa.Array:
    """Return values that Arrow orders in the order of the index."""
    if pt.is_floating(values.type):
        return ordinals(values)
    return values.view(pa.int64()) if pt.is_duration(values.type) else values


def _has_numbers(type: pa.DataType) -> bool:
    return bool(pt.is_integer(type) or pt.is_temporal(type)) and not pt.is_interval(type)


def _numbers(values: pa.Array) -> NDArray[Any]:
    if pt.is_integer(values.type):
        return np.asarray(values)
    return np.asarray(values.view({32: pa.int32(), 64: pa.int64()}[values.type.bit_width]))
