"""Lists: a page of offsets, and the items as a page of the child field.

    page     0, offset 1, … offset n      i32 (list) or i64 (large_list); length = rows + 1
    items    a page of their own in the same batch, to which the offsets are relative

A null list is stored as an empty list. Source: docs/format/legacy.md, "List pages".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.legacy.page_table import Pages
from pilum.container.legacy.slots import Slots, joined
from pilum.encodings.base import demand
from pilum.errors import UnsupportedFormatError
from pilum.storage.base import Plan, Ranges

__all__ = ["encode_offsets", "list_array", "read_offsets"]


def read_offsets(kind: pa.DataType, pages: Pages, slots: Slots) -> Plan[tuple[pa.Array, Slots]]:
    """Read the offsets of lists with one request.

    Returns:
        The offsets of the lists as one array, and the runs of items that they cover.

    Raises:
        CorruptFileError: If offsets decrease or are negative.
        UnsupportedFormatError: If there are too many items for an array of this type.
    """
    dtype = np.dtype("<i8" if pt.is_large_list(kind) else "<i4")
    pages.require(slots, extra=1)
    pages.require_bytes(slots.furthest * dtype.itemsize)
    counts = slots.stops - slots.starts
    sizes = (counts + 1) * dtype.itemsize
    pages.require_bytes(int(sizes.sum()) // 2)
    fetched = yield Ranges(pages.positions[slots.batches] + slots.starts * dtype.itemsize, sizes)
    found = joined(fetched).view(dtype).astype(np.int64)
    last = np.cumsum(counts + 1) - 1
    first = last - counts
    lengths = np.diff(found)
    lengths = np.delete(lengths, last[:-1]) if len(counts) > 1 else lengths
    demand(bool((lengths >= 0).all()), "list page: offsets decrease")
    demand(bool((found[first] >= 0).all()), "list page: a negative offset")
    items = Slots(slots.batches, found[first], found[last])
    total = sum((items.stops - items.starts).tolist())
    if total > np.iinfo(dtype).max:
        raise UnsupportedFormatError(f"{total} items in one piece: too many for {kind}")
    offsets = np.zeros(len(lengths) + 1, dtype)
    np.cumsum(lengths, out=offsets[1:])
    return pa.array(offsets), items.without_empty()


def list_array(kind: pa.DataType, offsets: pa.Array, items: pa.Array) -> pa.Array:
    """List without nulls."""
    return pa.Array.from_buffers(
        kind, len(offsets) - 1, [None, offsets.buffers()[1]], 0, children=[items]
    )


def encode_offsets(array: pa.Array) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the offsets of lists, the first of which is 0, and the items that they cover.

    Args:
        array: An array without null lists.
    """
    # Arrow has no offsets at all for an array of no lists.
    offsets = array.offsets.to_numpy().astype(np.int64) if len(array) else np.zeros(1, np.int64)
    first, behind = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, behind - first)
