"""Values of a fixed width, one after the other.

    page    value 0, value 1, …        little-endian; length = rows

Booleans are bits, least significant first, and every page begins at a byte boundary. Fixed-size
lists are their items, whatever their depth; the length still counts rows. Nulls cannot be
represented: the slot of a null is read as a value. Source: docs/format/legacy.md, "Plain pages".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.legacy.page_table import Pages
from pilum.container.legacy.slots import Slots, bits, joined
from pilum.storage.base import Plan, Ranges

__all__ = ["encode_plain", "items_per_value", "read_plain", "width_bits"]


def items_per_value(kind: pa.DataType) -> tuple[pa.DataType, int]:
    """Return the innermost item type of fixed-size lists, and the number of items per value."""
    count = 1
    while pt.is_fixed_size_list(kind):
        count *= int(kind.list_size)
        kind = kind.value_type
    return kind, count


def width_bits(kind: pa.DataType) -> int:
    """Return the bits of a value."""
    item, count = items_per_value(kind)
    return int(item.bit_width) * count


def read_plain(kind: pa.DataType, pages: Pages, slots: Slots) -> Plan[pa.Array]:
    """Read values with one request.

    Raises:
        CorruptFileError: If a page is too short for them.
    """
    item, count = items_per_value(kind)
    num_slots = slots.num_slots
    if pt.is_boolean(item):
        data = yield from _read_bits(pages, slots, count)
    else:
        fetched = yield pages.ranges(slots, int(item.bit_width) // 8 * count)
        data = joined(fetched)
    values = pa.Array.from_buffers(item, num_slots * count, [None, pa.py_buffer(data)], 0)
    return _nested(kind, values, num_slots)


def _read_bits(pages: Pages, slots: Slots, count: int) -> Plan[NDArray[np.uint8]]:
    pages.require(slots)
    pages.require_bytes(slots.furthest * count // 8)
    wanted = slots.times(count)
    first, behind = wanted.starts // 8, (wanted.stops + 7) // 8
    pages.require_bytes(int((behind - first).sum()) // 8)  # runs may share a byte
    fetched = yield Ranges(pages.positions[slots.batches] + first, behind - first)
    return bits(joined(fetched), wanted)


def _nested(kind: pa.DataType, values: pa.Array, length: int) -> pa.Array:
    """Wrap items in the fixed-size lists that contain them."""
    if not pt.is_fixed_size_list(kind):
        return values
    items = _nested(kind.value_type, values, length * int(kind.list_size))
    return pa.Array.from_buffers(kind, length, [None], 0, children=[items])


def encode_plain(array: pa.Array) -> memoryview | bytes:
    """Encode a page.

    Args:
        array: An array without nulls at any depth.
    """
    while pt.is_fixed_size_list(array.type):
        array = array.flatten()
    if pt.is_boolean(array.type):
        return np.packbits(array.to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    width = array.type.bit_width // 8
    start, size = array.offset * width, len(array) * width
    buffer = array.buffers()[1]
    return b"" if buffer is None else memoryview(buffer)[start : start + size]
