"""The kinds of pages: plain values, strings, lists and dictionaries.

    plain      value 0, value 1, …              little-endian; length = rows
    strings    data "hello" "world", then i64 offset 0, … i64 offset n; length = values
    lists      0, offset 1, … offset n          i32 (list) or i64 (large_list); length = rows + 1
    keys       key 0, key 1, …                  plain, of the key type; length = rows

Plain: booleans are bits, least significant first, and every page begins at a byte boundary.
Fixed-size lists are their items, whatever their depth; the length still counts rows. Nulls cannot
be represented: the slot of a null is read as a value.

Strings and binary: the page table points to the offsets, which are absolute positions in the file.
Value i lies between offset i and offset i + 1. If the two are equal it is null where the field is
nullable, else empty: the format cannot distinguish the two.

Lists: the items are a page of the child field in the same batch, to which the offsets are relative.
A null list is stored as an empty list.

Dictionaries: the values are in the file once, plain or as strings, and again in the manifest of the
table. `Field.dictionary` holds the position of the values (of the offsets, for strings) and their
number. An empty value is null. Nulls have no key: they are read back as the first value.

Source: docs/format/legacy.md, "Plain pages", "Var-binary pages", "List pages", "Dictionaries".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.legacy.pages import Pages, Slots, bits, joined
from pilum.encodings.base import demand
from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.format.pb import file_pb2
from pilum.storage.base import Plan, Ranges

__all__ = [
    "Unified",
    "encode_offsets",
    "encode_plain",
    "encode_values",
    "encode_var_binary",
    "is_var_binary",
    "items_per_value",
    "list_array",
    "read_keys",
    "read_offsets",
    "read_plain",
    "read_values",
    "read_var_binary",
    "text_bytes",
    "width_bits",
]

_OFFSET_BYTES = 8
_LARGE = (pa.large_string(), pa.large_binary())
_KINDS = (pa.string(), pa.binary(), *_LARGE)
_MAX_SMALL_BYTES = 2**31 - 1


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
    """Read values with one request."""
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
    first, stop = wanted.starts // 8, (wanted.stops + 7) // 8
    pages.require_bytes(int((stop - first).sum()) // 8)  # runs may share a byte
    fetched = yield Ranges(pages.positions[slots.batches] + first, stop - first)
    return bits(joined(fetched), wanted)


def _nested(kind: pa.DataType, values: pa.Array, length: int) -> pa.Array:
    """Wrap items in the fixed-size lists that contain them."""
    if not pt.is_fixed_size_list(kind):
        return values
    items = _nested(kind.value_type, values, length * int(kind.list_size))
    return pa.Array.from_buffers(kind, length, [None], 0, children=[items])


def encode_plain(array: pa.Array) -> memoryview | bytes:
    """Encode a page of values without nulls at any depth."""
    while pt.is_fixed_size_list(array.type):
        array = array.flatten()
    if pt.is_boolean(array.type):
        return np.packbits(array.to_numpy(zero_copy_only=False), bitorder="little").tobytes()
    width = array.type.bit_width // 8
    start, size = array.offset * width, len(array) * width
    buffer = array.buffers()[1]
    return b"" if buffer is None else memoryview(buffer)[start : start + size]


def is_var_binary(kind: pa.DataType) -> bool:
    """Return whether values of a type are stored in var-binary pages."""
    return kind in _KINDS


def read_var_binary(
    kind: pa.DataType, nullable: bool, pages: Pages, slots: Slots
) -> Plan[pa.Array]:
    """Read values with two requests: one for offsets and one for data."""
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
    demand(bool((starts >= 0).all()), "var-binary page: an offset before the start of the file")
    demand(bool((found[last] <= pages.file_bytes).all()), "var-binary page: offsets beyond the end")
    pages.require_bytes(sum(sizes.tolist()))
    fetched = yield Ranges(starts, sizes)
    return _array(kind, nullable, steps, joined(fetched))


def text_bytes(pages: Pages) -> Plan[NDArray[np.int64]]:
    """Read the size of the values of each page from its outer offsets, with one request."""
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

    Nulls take no bytes in the page, whatever they take in memory.
    """
    if array.null_count:
        array = _without_hidden_bytes(array)
    large = array.type in _LARGE
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.zeros(1, np.int64)
    if len(array):
        every = np.frombuffer(offsets_buffer, np.int64 if large else np.int32)
        offsets = every[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, stop = int(offsets[0]), int(offsets[-1])
    data = b"" if data_buffer is None else memoryview(data_buffer)[first:stop]
    return data, offsets - first


def _without_hidden_bytes(array: pa.Array) -> pa.Array:
    text = array.type in (pa.string(), pa.large_string())
    return array.fill_null(pa.scalar("" if text else b"", array.type))


def read_offsets(kind: pa.DataType, pages: Pages, slots: Slots) -> Plan[tuple[pa.Array, Slots]]:
    """Read the offsets of lists, as one array, and the runs of their items, with one request."""
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
    """Return the offsets of lists, none of them null, from 0 on, and the items that they cover."""
    # Arrow has no offsets at all for an array of no lists.
    offsets = array.offsets.to_numpy().astype(np.int64) if len(array) else np.zeros(1, np.int64)
    first, stop = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, stop - first)


def read_keys(kind: pa.DataType, values: pa.Array, pages: Pages, slots: Slots) -> Plan[pa.Array]:
    """Read rows as a dictionary array with the given values."""
    keys = yield from read_plain(kind.index_type, pages, slots)
    if len(keys):
        ends = pc.min_max(keys).as_py()
        inside = ends["min"] >= 0 and ends["max"] < len(values)
        demand(inside, f"dictionary page: keys beyond the {len(values)} values")
    return pa.DictionaryArray.from_arrays(keys, values, safe=False)


def read_values(kind: pa.DataType, place: file_pb2.Dictionary, file_bytes: int) -> Plan[pa.Array]:
    """Read the values of a dictionary."""
    inside = 0 <= place.offset <= file_bytes and 0 <= place.length <= file_bytes
    demand(inside, f"dictionary: {place.length} values at {place.offset}")
    one = np.array([place.length], dtype=np.int64)
    pages = Pages(np.array([place.offset], dtype=np.int64), one, file_bytes)
    if place.length == 0:
        return pa.array([], kind)
    if is_var_binary(kind):
        return (yield from read_var_binary(kind, True, pages, pages.all))
    if not pa.types.is_integer(kind) and not pa.types.is_floating(kind):
        raise UnsupportedFormatError(f"a dictionary of {kind} in a legacy file")
    return (yield from read_plain(kind, pages, pages.all))


def encode_values(values: pa.Array, position: int) -> tuple[bytes, int]:
    """Return the bytes of the values and where the values lie if the bytes are at `position`."""
    if not is_var_binary(values.type):
        return bytes(encode_plain(values)), position
    data, offsets = encode_var_binary(values)
    offsets += position
    return bytes(data) + offsets.astype("<i8").tobytes(), position + len(data)


class Unified:
    """The dictionary of all values written of a field; values are only ever appended.

    It starts with the values that the table already has.
    """

    def __init__(self, kind: pa.DataType, values: pa.Array | None = None) -> None:
        self._keys_type = kind.index_type
        self.values = pa.array([], kind.value_type) if values is None else values
        self._last: tuple[object, pa.Array | None] = (None, None)

    def keys(self, array: pa.DictionaryArray, name: str) -> pa.Array:
        """Return the keys of rows; raise InvalidInputError if their type has too few."""
        keys = self._keys_of(array.dictionary)
        if keys is None:
            return array.indices
        try:
            return keys.take(array.indices).cast(self._keys_type)
        except pa.ArrowInvalid:
            raise InvalidInputError(
                f"column {name!r}: {len(self.values)} different values, too many for keys of "
                f"type {self._keys_type}"
            ) from None

    def _keys_of(self, found: pa.Array) -> pa.Array | None:
        """Return the key of each value of another dictionary; None if both are equal."""
        # Batches that were cut out of one array share its dictionary.
        same = (found.offset, len(found), tuple(b.address for b in found.buffers() if b))
        if same != self._last[0]:
            self._last = (same, self._added(found))
        return self._last[1]

    def _added(self, found: pa.Array) -> pa.Array | None:
        if len(self.values) == 0:
            self.values = found
        if found.equals(self.values):
            return None
        new = pc.unique(found.filter(pc.invert(pc.is_in(found, value_set=self.values))))
        if len(new):
            self.values = pa.concat_arrays([self.values, new])
        return pc.index_in(found, value_set=self.values)
