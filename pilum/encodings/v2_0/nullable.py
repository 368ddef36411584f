"""Values with or without nulls (`ArrayEncoding.nullable`).

    no_nulls      values
    some_nulls    validity (a bitmap, 1 = valid), values
    all_nulls     no buffers at all

Writers choose by the content of a page, regardless of the schema. An encoding without this wrapper
has no nulls; wrappers within wrappers combine. Source: docs/format/encodings-2.0.md, "Nullable".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

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
    Slots,
    bits_of,
)
from pilum.encodings.v2_0.flat import Flat, bitmap
from pilum.format.pb import encodings20_pb2 as pb
from pilum.storage.base import Plan, gather

__all__ = ["Nullable"]

_MAX_NULL_BYTES = 2**31
"""Upper bound of the memory of nulls, whose number no bytes of the file would bound."""


@dataclass(frozen=True)
class Nullable(ArrayEncoding):
    """Values (none if all are null), with a validity bitmap if some are null."""

    arm = "nullable"

    values: ArrayEncoding | None
    validity: ArrayEncoding | None = None

    @classmethod
    def from_proto(cls, message: pb.Nullable, children: Children) -> Nullable:
        """Read the member message."""
        which = message.WhichOneof("nullability")
        demand(which is not None, "nullable: of no kind")
        if which == "all_nulls":
            return cls(None)
        if which == "no_nulls":
            return cls(children(message.no_nulls.values))
        some = message.some_nulls
        return cls(children(some.values), children(some.validity))

    def member(self) -> pb.Nullable:
        """Return the member message."""
        if self.values is None:
            return pb.Nullable(all_nulls=pb.Empty())
        values = self.values.to_proto()
        if self.validity is None:
            return pb.Nullable(no_nulls=pb.Nullable.NoNulls(values=values))
        some = pb.Nullable.SomeNulls(validity=self.validity.to_proto(), values=values)
        return pb.Nullable(some_nulls=some)

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read values and their validity."""
        if self.values is None:
            size = items.num_wanted * _null_bytes(kind)
            demand(size <= _MAX_NULL_BYTES, f"nullable: {items.num_wanted} nulls of type {kind}")
            return pa.nulls(items.num_wanted, kind)
        if self.validity is None:
            return (yield from self.values.read(items, kind))
        parts: list[Plan[Any]] = [self.validity.raw(items, 1), self.values.read(items, kind)]
        valid, array = yield from gather(parts)
        return _masked(array, valid)

    def direct(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the direct read of the values."""
        found = None if self.values is None else self.values.direct(buffers, total, kind)
        if found is None or self.validity is None:
            return found
        valid = self.validity.slots(buffers, total, 1)
        return valid and Direct((valid, *found.slots), partial(_made_with_nulls, found.make))

    def direct_whole(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the direct read of all values."""
        if self.values is None or self.validity is not None:
            return super().direct_whole(buffers, total, kind)
        return self.values.direct_whole(buffers, total, kind)

    def slots(self, buffers: Buffers, total: int, bits: int) -> Slots | None:
        """Return the slots of numbers, none of which are null."""
        if self.values is None or self.validity is not None:
            return None
        return self.values.slots(buffers, total, bits)

    def all_slots(self, buffers: Buffers, bits: int) -> Slots | None:
        """Return the slots of all numbers, none of which are null."""
        if self.values is None or self.validity is not None:
            return None
        return self.values.all_slots(buffers, bits)

    def raw(self, items: Items, bits: int) -> Plan[Bytes]:
        """Read numbers, none of which are null."""
        demand(self.values is not None and self.validity is None, f"nulls in {bits}-bit numbers")
        assert self.values is not None
        return (yield from self.values.raw(items, bits))

    @classmethod
    def encode(
        cls, array: pa.Array, first: int, encode: Callable[[pa.Array, int], Encoded]
    ) -> Encoded:
        """Wrap the result of `encode`, which takes an array and the number of its first buffer."""
        if array.null_count == len(array):
            return Encoded(cls(None), ())
        if not array.null_count:
            values = encode(array, first)
            return Encoded(cls(values.encoding), values.buffers)
        values = encode(array, first + 1)
        valid = bitmap(array.buffers()[0], array.offset, len(array))
        validity = Flat(1, Buffer(first))
        return Encoded(cls(values.encoding, validity), (valid, *values.buffers))


def _made_with_nulls(
    make: Callable[[Sequence[Bytes], int], pa.Array], parts: Sequence[Bytes], count: int
) -> pa.Array:
    return _masked(make(parts[1:], count), parts[0])


def _masked(array: pa.Array, valid: Bytes) -> pa.Array:
    """Return the array with additional nulls where `valid` is unset."""
    if pt.is_dictionary(array.type):
        indices = _masked(array.indices, valid)
        return pa.DictionaryArray.from_arrays(indices, array.dictionary, safe=False)
    if pt.is_null(array.type):
        return array
    own, *buffers = array.buffers()
    if array.null_count:
        valid = valid & np.frombuffer(own, np.uint8, len(valid))
    children: list[pa.Array] = []
    if pt.is_fixed_size_list(array.type):
        buffers, children = [], [array.values]
    elif pt.is_struct(array.type):
        buffers, children = [], [array.field(i) for i in range(array.type.num_fields)]
    return pa.Array.from_buffers(
        array.type, len(array), [pa.py_buffer(valid), *buffers], children=children or None
    )


def _null_bytes(kind: pa.DataType) -> int:
    """Return the approximate bytes of a null in Arrow."""
    if pt.is_fixed_size_list(kind):
        return int(kind.list_size) * _null_bytes(kind.value_type)
    return 0 if pt.is_null(kind) else -((bits_of(kind) or 64) // -8)
