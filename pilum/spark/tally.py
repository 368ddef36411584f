"""A summary of a micro-batch in a few bytes, which distinguishes a repeated batch from another.

    50:9f3a0c…    50 rows, and the sum of a hash of each value, as 16 hex digits

Tasks add up the hashes of the values they see. Sums do not depend on the order, because a repeated
batch may have other tasks, and rows in another order. The hash of a long string covers its length
and both ends, and the sum of all bytes is added. Of a float64, the leading 24 bits of the mantissa
are hashed, because sums of floats depend on the order, too. The hash of an item of a list depends
on its position in the list. Columns are summed separately, so rows that only exchange values are
not distinguished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

__all__ = ["Tally"]

_Words = NDArray[np.uint64]

_MASK = 2**64 - 1
_WORD_BYTES = 8
_ODD = np.uint64(0x9E3779B97F4A7C15)
_DROPPED_BITS, _HALF_A_STEP = np.uint64(29), np.uint64(1 << 28)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@dataclass
class Tally:
    """A running summary of rows: their number, and the sum of the hashes of values modulo 2^64."""

    num_rows: int = 0
    digest: int = 0

    @classmethod
    def total(cls, parts: Iterable[Tally]) -> Tally:
        """Add up the rows of several tasks."""
        whole = cls()
        for part in parts:
            whole._add(part.num_rows, part.digest)
        return whole

    @property
    def content(self) -> str:
        """Return the summary as stored in the table."""
        return f"{self.num_rows}:{self.digest:016x}"

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches unchanged and add their rows to the summary."""
        for batch in batches:
            columns = zip(batch.schema.names, batch.columns, strict=True)
            self._add(batch.num_rows, sum(_digest(array, name) for name, array in columns))
            yield batch

    def _add(self, num_rows: int, digest: int) -> None:
        self.num_rows += num_rows
        self.digest = (self.digest + digest) & _MASK


def _digest(array: pa.Array, path: str, places: _Words | None = None) -> int:
    """Return the sum of the hashes of a column, at a path, and of its children.

    Of items of lists, `places` has a word per value that depends on its position in the list.
    """
    if not len(array):
        return 0
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    seed: np.uint64 | _Words = _seed(path)
    nulls: int = array.null_count * int(_seed(f"{path} is null"))
    if places is not None:
        valid = np.asarray(array.is_valid())
        nulls += _sum(_mixed(places[~valid], seed))
    kind = array.type
    if pt.is_null(kind):
        return nulls
    if pt.is_struct(kind):
        members = zip(kind, array.flatten(), strict=True)
        return nulls + sum(_digest(one, f"{path}.{field.name}", places) for field, one in members)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_map(kind):
        return nulls + _digest_of_lists(array, path, seed, places)
    if places is not None:
        seed = seed ^ places[valid]
    present = array.drop_null() if array.null_count else array
    return nulls + _sum(_mixed(_words(present), seed)) + _sum_of_bytes(present)


def _digest_of_lists(
    array: pa.Array, path: str, seed: np.uint64 | _Words, places: _Words | None
) -> int:
    offsets = np.asarray(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    items = array.values.slice(first, last - first)
    positions = np.arange(last - first) - np.repeat(offsets[:-1] - first, lengths)
    if places is None:
        places = np.zeros(len(array), np.uint64)
    within = _mixed(positions.astype(np.uint64), np.repeat(places, lengths))
    own = _sum(_mixed(lengths.astype(np.uint64), seed ^ places))
    return own + _digest(items, f"{path}[]", within)


def _words(array: pa.Array) -> _Words:
    """Return one word per value of an array without nulls."""
    kind = array.type
    if pt.is_boolean(kind):
        return np.asarray(array.cast(pa.uint8())).astype(np.uint64)
    if pt.is_float64(kind):
        bits: _Words = np.asarray(array).view(np.uint64)
        return (bits + _HALF_A_STEP) >> _DROPPED_BITS
    if _is_text(kind):
        return _ends(array)
    width = kind.byte_width
    data = np.frombuffer(array.buffers()[1], np.uint8)
    data = data[array.offset * width : (array.offset + len(array)) * width]
    if width in {1, 2, 4, _WORD_BYTES}:
        return data.view(f"<u{width}").astype(np.uint64)
    places = np.arange(width // _WORD_BYTES, dtype=np.uint64) * _SECOND
    parts: _Words = _mixed(data.view("<u8").reshape(-1, len(places)), places)
    return np.asarray(parts.sum(axis=1, dtype=np.uint64))


def _ends(array: pa.Array) -> _Words:
    """Return hashes of texts: of their lengths, their first and their last eight bytes."""
    starts, stops, data = _unfolded(array)
    padded = np.zeros(len(data) + _WORD_BYTES, np.uint8)
    padded[: len(data)] = data
    at: _Words = np.ndarray(len(data) + 1, np.dtype("<u8"), padded, 0, (1,))
    lengths = stops - starts
    missing = np.maximum(_WORD_BYTES - lengths, 0).astype(np.uint64) * np.uint64(8)
    # A word is shifted twice: numpy treats a shift by 64 as a shift by 0, as processors do.
    half = missing // np.uint64(2)
    head = at[starts] << half << (missing - half)
    tail = at[np.maximum(stops - _WORD_BYTES, starts)] << half << (missing - half)
    found: _Words = _mixed(head, _FIRST) + _mixed(tail, _SECOND) + lengths.astype(np.uint64)
    return found


def _sum_of_bytes(array: pa.Array) -> int:
    return int(_unfolded(array)[2].sum(dtype=np.uint64)) if _is_text(array.type) else 0


def _unfolded(
    array: pa.Array,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return the starts and ends of texts, and their bytes."""
    wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    raw: NDArray[Any] = np.frombuffer(offsets, np.int64 if wide else np.int32)
    bounds: NDArray[np.int64] = raw[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = int(bounds[0]), int(bounds[-1])
    found = np.empty(0, np.uint8) if last == first else np.frombuffer(data, np.uint8)[first:last]
    return bounds[:-1] - first, bounds[1:] - first, found


def _is_text(kind: pa.DataType) -> bool:
    return kind in {pa.string(), pa.binary(), pa.large_string(), pa.large_binary()}


def _mixed(words: _Words, seed: np.uint64 | _Words) -> _Words:
    """Return hashes of words, computed with the finalizer of SplitMix64."""
    found: _Words = (words + _ODD) ^ seed
    found ^= found >> np.uint64(30)
    found *= _FIRST
    found ^= found >> np.uint64(27)
    found *= _SECOND
    found ^= found >> np.uint64(31)
    return found


def _seed(path: str) -> np.uint64:
    return np.uint64(crc32(path.encode()) * int(_ODD) & _MASK)


def _sum(words: _Words) -> int:
    return int(words.sum(dtype=np.uint64))
