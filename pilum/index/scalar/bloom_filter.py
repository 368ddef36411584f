"""BLOOMFILTER: a Bloom filter of the values of each zone.

    bloomfilter.lance

| column | type | |
|---|---|---|
| `fragment_id`, `zone_start`, `zone_length` | uint64 | see `zones.py` |
| `has_null` | bool | whether the zone has a null |
| `bloom_filter_data` | binary | blocks of 32 bytes |

The metadata has `bloomfilter_item`, the rows of a zone, and `bloomfilter_probability`, the rate of
false positives for which filters are large enough. Filters are the split-block filters of Parquet.
The upper half of a value's hash (XXH64 of its bytes, seed 0) chooses the block, the lower half a
bit in each of its eight words. Nulls have no bits. Source: docs/format/indices.md, "BLOOMFILTER".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import exp, lgamma, log
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arguments import require_count, require_known
from pilum.errors import CorruptFileError, InvalidInputError, UnsupportedTypeError
from pilum.expressions.types import is_binary, is_text
from pilum.index.files import IndexFile, IndexFolder
from pilum.index.queries import IsIn, IsNull, Query
from pilum.index.scalar.zones import ZONE_FIELDS, ZoneIndex, ZoneIndexType, ZoneRows
from pilum.kernels import bloom_filters, bloom_matches, hash_fixed, hash_strings

__all__ = ["BLOOM_FILTER", "BloomFilter"]

_ITEMS, _PROBABILITY = 8192, 0.00057
_BLOCK_BYTES = 32
_MAX_BYTES = 1 << 27
_WORDS = 8
_TERMS = 750
"""Terms of the sum that estimates the rate of false positives."""
_FULL_BLOCK = 500
"""Values of a block that have set all of its bits; the terms suffice for fewer."""


@dataclass(frozen=True, slots=True)
class _Parameters:
    number_of_items: int
    probability: float


class BloomFilter(ZoneIndex):
    """An open segment of Bloom filters."""

    columns = (*(field.name for field in ZONE_FIELDS), "has_null", "bloom_filter_data")

    def __init__(self, file: IndexFile) -> None:
        super().__init__(file)
        self.parameters = _stored_parameters(file)
        for name, expected in (("has_null", pa.bool_()), ("bloom_filter_data", pa.binary())):
            column = self.rows[name]
            if column.null_count or column.type != expected:
                raise CorruptFileError(f"column {name!r} of {column.type}, with nulls", file.path)
        self._has_null = np.asarray(
            self.rows["has_null"].combine_chunks().to_numpy(zero_copy_only=False)
        )
        self._bounds, self._data = _bytes_of(self.rows["bloom_filter_data"].combine_chunks())

    def may_match(self, query: Query) -> NDArray[np.bool_] | None:
        """See `ZoneIndex.may_match`."""
        if isinstance(query, IsNull):
            return self._has_null
        if not isinstance(query, IsIn) or not _is_supported(query.values.type):
            return None
        try:
            return bloom_matches(self._data, self._bounds, _hashes(query.values))
        except CorruptFileError as error:
            raise error.at(self.file.path) from None

    def statistics(self) -> dict[str, Any]:
        """See `Index.statistics`."""
        return {
            "type": "BloomFilter",
            "num_blocks": len(self.zones.starts),
            "number_of_items": self.parameters.number_of_items,
            "probability": self.parameters.probability,
        }


class _BloomFilterType(ZoneIndexType[BloomFilter]):
    """See the module."""

    name = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    file_name = "bloomfilter.lance"
    files = (file_name,)

    def require_supported(self, column: str, type: pa.DataType) -> None:
        """See `IndexType.require_supported`."""
        if not _is_supported(type):
            raise UnsupportedTypeError(
                f"BLOOMFILTER index column {column} must have integers, floats of 32 or 64 bits, "
                f"dates, times, timestamps, text or binary, not {type}"
            )

    def parameters(self, given: Mapping[str, Any], type: pa.DataType) -> _Parameters:
        """See `IndexType.parameters`."""
        require_known("BLOOMFILTER has", given, ("number_of_items", "probability"))
        items = require_count("number_of_items", given.get("number_of_items", _ITEMS), 1)
        probability = given.get("probability", _PROBABILITY)
        if not isinstance(probability, int | float) or not 0 < probability < 1:
            raise InvalidInputError(
                f"probability: expected a number between 0 and 1, found {probability!r:.40}"
            )
        return _Parameters(items, float(probability))

    def parameters_of(self, index: BloomFilter) -> _Parameters:
        """See `ZoneIndexType.parameters_of`."""
        return index.parameters

    def zone_rows(self, parameters: _Parameters) -> int:
        """See `ZoneIndexType.zone_rows`."""
        return parameters.number_of_items

    def metadata(self, parameters: _Parameters) -> dict[str, str]:
        """See `ZoneIndexType.metadata`."""
        return {
            "bloomfilter_item": str(parameters.number_of_items),
            "bloomfilter_probability": str(parameters.probability),
        }

    def details(self, parameters: _Parameters) -> bytes:
        """See `ZoneIndexType.details`."""
        del parameters
        return b""

    def schema(self, type: pa.DataType) -> pa.Schema:
        """See `ZoneIndexType.schema`."""
        del type
        has_null = pa.field("has_null", pa.bool_(), nullable=False)
        return pa.schema(
            [*ZONE_FIELDS, has_null, pa.field("bloom_filter_data", pa.binary(), nullable=False)]
        )

    def columns(self, rows: ZoneRows, parameters: _Parameters) -> list[pa.Array]:
        """See `ZoneIndexType.columns`."""
        is_value = rows.values.is_valid().to_numpy(zero_copy_only=False)
        values_before = np.concatenate([[0], np.cumsum(is_value)])[rows.bounds]
        num_values, num_rows = np.diff(values_before), np.diff(rows.bounds)
        size = _filter_bytes(parameters.number_of_items, parameters.probability)
        data = bloom_filters(_hashes(rows.values.drop_null()), values_before, size)
        offsets = np.arange(len(num_rows) + 1, dtype=np.int64) * size
        filters = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), len(num_rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        )
        has_null = pa.array(num_values < num_rows)
        return [*rows.zones.columns(), has_null, filters.cast(pa.binary())]

    def open(self, folder: IndexFolder, details: bytes, index_version: int) -> BloomFilter:
        """See `IndexType.open`."""
        del details, index_version
        return BloomFilter(folder.open(self.file_name))


BLOOM_FILTER = _BloomFilterType()


def _stored_parameters(file: IndexFile) -> _Parameters:
    names = ("bloomfilter_item", "bloomfilter_probability")
    items, probability = (file.metadata.get(name, "") for name in names)
    try:
        found = _Parameters(int(items), float(probability))
    except ValueError as error:
        raise CorruptFileError(f"parameters of Bloom filters: {error}", file.path) from error
    if found.number_of_items < 1 or not 0 < found.probability < 1:
        raise CorruptFileError(f"parameters of Bloom filters: {items}, {probability}", file.path)
    return found


def _is_supported(type: pa.DataType) -> bool:
    is_float = pt.is_float32(type) or pt.is_float64(type)
    is_time = pt.is_date(type) or pt.is_time(type) or pt.is_timestamp(type)
    is_bytes = is_text(type) or (is_binary(type) and not pt.is_fixed_size_binary(type))
    return bool(pt.is_integer(type) or is_float or is_time or is_bytes)


def _hashes(values: pa.Array) -> NDArray[np.uint64]:
    """Return the hash of each value; none is null."""
    if pt.is_primitive(values.type):
        width = values.type.bit_width // 8
        integers = values.view({4: pa.int32(), 8: pa.int64()}.get(width, values.type))
        return hash_fixed(integers.to_numpy().view(np.uint8), width)
    return hash_strings(*_bytes_of(values.cast(pa.large_binary())))


def _bytes_of(values: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return offsets and bytes of binary values."""
    is_large = pt.is_large_binary(values.type)
    width, kind = (8, np.int64) if is_large else (4, np.int32)
    _, offsets, data = values.buffers()
    if offsets is None or len(values) == 0:
        return np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.uint8)
    bounds = np.frombuffer(offsets, kind, len(values) + 1, values.offset * width)
    return bounds.astype(np.int64), np.frombuffer(data or b"", np.uint8)


@lru_cache(maxsize=8)
def _filter_bytes(items: int, probability: float) -> int:
    """Return the size of a filter: the least power of two with few enough false positives."""
    size = _BLOCK_BYTES
    while size < _MAX_BYTES and _false_positives(items, size) > probability:
        size *= 2
    return size


def _false_positives(items: int, size: int) -> float:
    """Return the rate of false positives of a filter.

    The number of values in a block follows a Poisson distribution (Putze, Sanders, Singler: Cache-,
    Hash- and Space-Efficient Bloom Filters).
    """
    mean = items / (size / _BLOCK_BYTES)
    if mean > _FULL_BLOCK:
        return 1.0
    total = 0.0
    for count in range(_TERMS):
        share = exp(count * log(mean) - mean - lgamma(count + 1))
        bit = 1.0 - (1.0 - 1.0 / _BLOCK_BYTES) ** count
        total += share * bit**_WORDS
    return total
