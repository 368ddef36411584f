"""Values by their number in a dictionary of the page (`ArrayEncoding.dictionary`).

What a number means depends on the type of the column:

    string           u8            0 is null, k > 0 is item k - 1
    dictionary<K>    width of K    k is item k, and a null is the number of an item that is null

    "aa" "b" null "ccc"     ->     1 2 0 3    items "aa" "b" "ccc"

Source: docs/format/encodings-2.0.md, "Dictionary".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum import kernels
from pilum.arrays import without_null_values
from pilum.blocks import number_dtype
from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import (
    ArrayEncoding,
    Buffer,
    Buffers,
    Bytes,
    Children,
    Direct,
    Encoded,
    Items,
    bits_of,
)
from pilum.encodings.v2_0.binary import OFFSET_BITS, Binary, text_buffers
from pilum.encodings.v2_0.flat import Flat
from pilum.encodings.v2_0.nullable import Nullable
from pilum.errors import InvalidInputError
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan, gather

__all__ = ["MAX_STRINGS", "Dictionary"]

_Make: TypeAlias = Callable[[Sequence[Bytes], int], pa.Array]

MAX_STRINGS = 254
"""Number of items that one byte can number, besides null."""

_KEYS = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}


@dataclass(frozen=True)
class Dictionary(ArrayEncoding):
    """Numbers, and the items that they refer to."""

    arm = "dictionary"

    indices: ArrayEncoding
    items: ArrayEncoding
    num_items: int
    index_bits: int

    @classmethod
    def from_proto(cls, message: pb.Dictionary, children: Children) -> Dictionary:
        """Read the member message."""
        indices = children(message.indices)
        return cls(
            indices, children(message.items), message.num_dictionary_items, _index_bits(indices)
        )

    def member(self) -> pb.Dictionary:
        """Return the member message."""
        return pb.Dictionary(
            indices=self.indices.to_proto(),
            items=self.items.to_proto(),
            num_dictionary_items=self.num_items,
        )

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read the numbers, and all of the dictionary."""
        if pt.is_dictionary(kind):
            numbers, values = yield from self._parts(items, kind.value_type)
            return _keyed(numbers, values, kind)
        demand(kind.id in OFFSET_BITS, f"values of type {kind} stored as {self.arm}")
        demand(self.index_bits == 8, f"dictionary of strings: numbers of {self.index_bits} bits")
        numbers, values = yield from self._parts(items, kind)
        return _looked_up(numbers, values)

    def direct(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the direct read of the values; only for strings, the most frequent type."""
        if kind.id not in OFFSET_BITS or self.index_bits != 8:
            return None
        numbers = self.indices.direct(buffers, total, _KEYS[8])
        values = self.items.direct_whole(buffers, self.num_items, kind)
        if numbers is None or values is None:
            return None
        make = partial(self._made, numbers.make, values.make, len(numbers.slots))
        return Direct((*numbers.slots, *values.slots), make)

    def _made(
        self, numbers: _Make, values: _Make, split: int, parts: Sequence[Bytes], count: int
    ) -> pa.Array:
        return _looked_up(numbers(parts[:split], count), values(parts[split:], self.num_items))

    def _parts(self, items: Items, kind: pa.DataType) -> Plan[list[pa.Array]]:
        return gather(
            [
                self.indices.read(items, _KEYS[self.index_bits]),
                self.items.read(items.all_of(self.num_items), kind),
            ]
        )

    @classmethod
    def encode_strings(cls, array: pa.DictionaryArray, first: int) -> Encoded:
        """Encode strings, given as a dictionary array."""
        values, places = array.dictionary, array.indices
        numbers = pc.add(pc.fill_null(places, -1), 1).cast(pa.uint8())
        if not len(values):
            values = pa.nulls(1, values.type)
        return cls._encode(numbers, values, first)

    @classmethod
    def encode_keys(cls, array: pa.DictionaryArray, first: int) -> Encoded:
        """Encode an Arrow dictionary array; raise InvalidInputError if no key is left for null."""
        keys, values = array.indices, array.dictionary
        if keys.null_count == len(keys):
            values = values.slice(0, 0)  # no row refers to them
        if keys.null_count or not len(values):
            if not values.null_count:
                values = pa.concat_arrays([values, pa.nulls(1, values.type)])
            null = pc.index(values.is_null(), value=True).as_py()
            if null > np.iinfo(number_dtype(keys.type)).max:
                raise InvalidInputError(
                    f"a dictionary of {len(values) - 1} values leaves no key of type {keys.type} "
                    "for null, as file version 2.0 needs; use wider keys"
                )
            keys = keys.fill_null(pa.scalar(null, keys.type))
        return cls._encode(keys, values, first)

    @classmethod
    def _encode(cls, numbers: pa.Array, values: pa.Array, first: int) -> Encoded:
        indices = Nullable.encode(_whole(numbers), first, Flat.encode)
        if indices.encoding == Nullable(None):  # the encoding of no rows
            indices = Encoded(Nullable(Flat(_width(numbers), Buffer(first))), (b"",))
        second = first + len(indices.buffers)
        items = (
            Binary.encode(values, second)
            if values.type.id in OFFSET_BITS
            else Nullable.encode(values, second, Flat.encode)
        )
        encoding = cls(indices.encoding, items.encoding, len(values), _width(numbers))
        return Encoded(encoding, (*indices.buffers, *items.buffers))


def _whole(numbers: Any) -> pa.Array:
    return numbers.combine_chunks() if isinstance(numbers, pa.ChunkedArray) else numbers


def _width(numbers: pa.Array) -> int:
    return int(numbers.type.bit_width)


def _index_bits(indices: ArrayEncoding) -> int:
    inner: ArrayEncoding | None = indices
    while isinstance(inner, Nullable):
        inner = inner.values
    bits = getattr(inner, "bits", 8)
    demand(bits in _KEYS, f"dictionary: numbers of {bits} bits")
    return int(bits)


def _looked_up(numbers: pa.Array, values: pa.Array) -> pa.Array:
    """Look up strings by number; 0 is null."""
    if not len(numbers):
        return values.slice(0, 0)
    numbers = numbers.fill_null(0) if numbers.null_count else numbers
    places = np.frombuffer(numbers.buffers()[1], np.uint8)[numbers.offset :][: len(numbers)]
    # The kernel gets a dictionary whose item 0 is an empty string.
    word = f"i{OFFSET_BITS[values.type.id] // 8}"
    if values.null_count or values.offset:
        ends, valid, data = text_buffers(values)
        offsets = np.zeros(len(ends) + 2, word)
        offsets[2:] = ends
    else:
        valid, data = None, np.frombuffer(values.buffers()[2] or b"", np.uint8)
        own = np.frombuffer(values.buffers()[1], word, len(values) + 1)
        offsets = np.concatenate((own[:1], own))
    buffers = [
        pa.py_buffer(part) for part in kernels.look_up_strings(places, 1, None, offsets, data)
    ]
    null_count, validity = len(places) - int(np.count_nonzero(places)), None
    if valid is not None:
        present = np.concatenate([[False], valid])[places]
        null_count = len(places) - int(np.count_nonzero(present))
    elif null_count:
        present = places > 0
    if null_count:
        validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return pa.Array.from_buffers(values.type, len(places), [validity, *buffers], null_count)


def _require_inside(numbers: pa.Array, count: int) -> None:
    highest = pc.max(numbers).as_py()
    demand(highest is None or highest < count, f"dictionary: number {highest} among {count} items")


def _keyed(numbers: pa.Array, values: pa.Array, kind: pa.DataType) -> pa.Array:
    _require_inside(numbers, len(values))
    keys = kind.index_type
    fits = pc.max(numbers).as_py() or 0
    demand(fits <= np.iinfo(number_dtype(keys)).max, f"dictionary: key {fits} as {keys}")
    numbers = numbers.view(keys) if bits_of(keys) == _width(numbers) else numbers.cast(keys)
    array = pa.DictionaryArray.from_arrays(numbers, values, ordered=kind.ordered, safe=False)
    return without_null_values(array)
