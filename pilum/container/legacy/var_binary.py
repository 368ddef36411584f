"""Strings and binary: the bytes of the values, then their offsets.

    data     "hello" "world"
    page     i64 offset 0, i64 offset 1, … i64 offset n      absolute positions in the file

The page table points to the offsets; the length is n, the number of values. Value i lies between
offset i and offset i + 1. If the two are equal it is null where the field is nullable, else empty:
the format cannot distinguish the two. Source: docs/format/legacy.md, "Var-binary pages".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.legacy.page_table import Pages
from pilum.container.legacy.slots import Slots, joined
from pilum.encodings.base import demand
from pilum.errors import UnsupportedFormatError
from pilum.storage.base import Plan, Ranges

__all__ = ["encode_var_binary", "is_var_binary", "read_var_binary", "text_bytes"]

_OFFSET_BYTES = 8
_LARGE = (pa.large_string(), pa.large_binary())
_KINDS = (pa.string(), pa.binary(), *_LARGE)
_MAX_SMALL_BYTES = 2**31 - 1


def is_var_binary(kind: pa.DataType) -> bool:
    """Return whether values of a type are stored in var-binary pages."""
    return kind in _KINDS


def read_var_binary(
    kind: pa.DataType, nullable: bool, pages: Pages, slots: Slots
) -> Plan[pa.Array]:
    """Read values with two requests: one for offsets and one for data.

    Raises:
        CorruptFileError: If offsets decrease or point outside of the file.
        UnsupportedFormatError: If the values are too large for an array of this type.
    """
    pages.require(slots)
    fetched = yield _offset_ranges(pages, slots)
    found = joined(fetched).view("<i8")
    counts = slots.stops - slots.starts
    last = np.cumsum(counts + 1) - 1
    first = last - counts
    steps = np.diff(found)
    steps = np.delete(steps, last[:-1]) if len(counts) > 1 else steps
    demand(bool((steps >= 0).all()), "var-binary page: offsets decrease")
    starts, sizes = found[first], found[last] - found[first]
    demand(bool((starts >= 0).all()), "var-binary page: an offset in front of the file")
    demand(bool((found[last] <= pages.file_bytes).all()), "var-binary page: offsets beyond the end")
    pages.require_bytes(sum(sizes.tolist()))
    fetched = yield Ranges(starts, sizes)
    return _array(kind, nullable, steps, joined(fetched))


def text_bytes(pages: Pages) -> Plan[NDArray[np.int64]]:
    """Read the size of the values of each page from its outer offsets, with one request.

    Raises:
        CorruptFileError: If offsets decrease or point outside of the file.
    """
    ends = pages.positions + pages.lengths * _OFFSET_BYTES
    pages.require_bytes(int(pages.lengths.max(initial=0)) * _OFFSET_BYTES)
    places = np.stack([pages.positions, ends], axis=1).reshape(-1)
    fetched = yield Ranges(places, np.full_like(places, _OFFSET_BYTES))
    found = joined(fetched).view("<i8").reshape(-1, 2)
    sizes: NDArray[np.int64] = found[:, 1] - found[:, 0]
    demand(bool((sizes >= 0).all()), "var-binary page: offsets decrease")
    return sizes


def _offset_ranges(pages: Pages, slots: Slots) -> Ranges:
    """Return the ranges of the offsets of each run, including the one after its last value."""
    pages.require_bytes(slots.furthest * _OFFSET_BYTES)
    sizes = (slots.stops - slots.starts + 1) * _OFFSET_BYTES
    # A run shares each outer offset with at most one other run.
    pages.require_bytes(int(sizes.sum()) // 2)
    return Ranges(pages.positions[slots.batches] + slots.starts * _OFFSET_BYTES, sizes)


def _array(
    kind: pa.DataType, nullable: bool, lengths: NDArray[np.int64], data: NDArray[np.uint8]
) -> pa.Array:
    if kind not in _LARGE and len(data) > _MAX_SMALL_BYTES:
        raise UnsupportedFormatError(
            f"{len(data)} bytes of type {kind} in one piece: more than Arrow's offsets reach"
        )
    offsets = np.zeros(len(lengths) + 1, np.int64 if kind in _LARGE else np.int32)
    np.cumsum(lengths, out=offsets[1:])
    present = lengths > 0
    num_nulls = len(present) - int(present.sum()) if nullable else 0
    validity = pa.py_buffer(np.packbits(present, bitorder="little")) if num_nulls else None
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(lengths), buffers, num_nulls)


def encode_var_binary(array: pa.Array) -> tuple[Any, NDArray[np.int64]]:
    """Return the data of a page and its offsets, relative to the start of the data.

    Args:
        array: The values; nulls take no bytes in the page, whatever they take in memory.
    """
    if array.null_count:
        array = _without_hidden_bytes(array)
    large = array.type in _LARGE
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.zeros(1, np.int64)
    if len(array):
        every = np.frombuffer(offsets_buffer, np.int64 if large else np.int32)
        offsets = every[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, behind = int(offsets[0]), int(offsets[-1])
    data = b"" if data_buffer is None else memoryview(data_buffer)[first:behind]
    return data, offsets - first


def _without_hidden_bytes(array: pa.Array) -> pa.Array:
    text = array.type in (pa.string(), pa.large_string())
    return array.fill_null(pa.scalar("" if text else b"", array.type))
