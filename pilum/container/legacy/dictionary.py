"""Dictionaries: keys in the pages, values once per file.

    page      key 0, key 1, …                       plain, of the key type; length = rows
    values    plain, or var-binary data + offsets    in the file, and again in the table's manifest

`Field.dictionary` holds the position of the values (of the offsets, for strings) and their number.
An empty value is null. Nulls have no key: they are read back as the first value. Source:
docs/format/legacy.md, "Dictionaries".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.container.legacy.page_table import Pages
from pilum.container.legacy.plain import encode_plain, read_plain
from pilum.container.legacy.slots import Slots
from pilum.container.legacy.var_binary import (
    encode_var_binary,
    is_var_binary,
    read_var_binary,
)
from pilum.encodings.base import demand
from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.format.pb import file_pb2
from pilum.storage.base import Plan

__all__ = ["Unified", "encode_values", "read_keys", "read_values"]


def read_keys(kind: pa.DataType, values: pa.Array, pages: Pages, slots: Slots) -> Plan[pa.Array]:
    """Read rows as a dictionary array with the given values.

    Raises:
        CorruptFileError: If a key is out of range.
    """
    keys = yield from read_plain(kind.index_type, pages, slots)
    if len(keys):
        ends = pc.min_max(keys).as_py()
        inside = ends["min"] >= 0 and ends["max"] < len(values)
        demand(inside, f"dictionary page: keys beyond the {len(values)} values")
    return pa.DictionaryArray.from_arrays(keys, values, safe=False)


def read_values(kind: pa.DataType, place: file_pb2.Dictionary, file_bytes: int) -> Plan[pa.Array]:
    """Read the values of a dictionary.

    Args:
        kind: Type of the values.
        place: Position of the values.
        file_bytes: Size of the file.

    Raises:
        CorruptFileError: If the values do not lie within the file.
        UnsupportedFormatError: If the format has no dictionaries of this type.
    """
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

    Args:
        kind: Type of the field.
        values: Values that the table already has.

    Attributes:
        values: All values so far.
    """

    def __init__(self, kind: pa.DataType, values: pa.Array | None = None) -> None:
        self._keys_type = kind.index_type
        self.values = pa.array([], kind.value_type) if values is None else values
        self._last: tuple[object, pa.Array | None] = (None, None)

    def keys(self, array: pa.DictionaryArray, name: str) -> pa.Array:
        """Return the keys of rows in this dictionary.

        Raises:
            InvalidInputError: If there are more values than the key type can number.
        """
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
