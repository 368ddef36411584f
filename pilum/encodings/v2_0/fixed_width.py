"""The base of encodings of fixed-width values, and the conversion of their bytes to Arrow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.encodings.base import demand
from pilum.encodings.v2_0.base import ArrayEncoding, Buffers, Bytes, Direct, Items
from pilum.errors import CorruptFileError
from pilum.storage.base import Plan

__all__ = ["FixedWidth", "aligned", "bits_of"]

_WORD_BYTES = 8


class FixedWidth(ArrayEncoding):
    """Values of one width.

    Attributes:
        bits: Width of each value, when read.
    """

    bits: int

    @abstractmethod
    def values(self, items: Items) -> Plan[Bytes]:
        """Read the bytes of the selected values."""

    def raw(self, items: Items, bits: int) -> Plan[Bytes]:
        """Read numbers."""
        demand(self.bits == bits, f"{self.arm}: expected {bits} bits, found {self.bits}")
        return (yield from self.values(items))

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read values without nulls."""
        self._check_width(kind)
        data = yield from self.values(items)
        return pa.Array.from_buffers(kind, items.num_wanted, [None, aligned(data)], 0)

    def direct(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the direct read of the values."""
        self._check_width(kind)
        slots = self.slots(buffers, total, self.bits)
        return slots and Direct((slots,), partial(_array, kind))

    def _check_width(self, kind: pa.DataType) -> None:
        if self.bits != bits_of(kind):
            raise CorruptFileError(f"values of type {kind} stored as {self.arm} {self.bits}")


def _array(kind: pa.DataType, parts: Sequence[Bytes], count: int) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(parts[0])], 0)


def bits_of(kind: pa.DataType) -> int | None:
    """Return the bits of a contiguous value of a type; None if they vary, or there are none.

    Fixed-size lists and structs have none of their own.
    """
    if pt.is_interval(kind):
        return None
    if pt.is_primitive(kind) or pt.is_decimal(kind) or pt.is_fixed_size_binary(kind):
        return int(kind.bit_width)
    return None


def aligned(data: Bytes) -> pa.Buffer:
    """Return the bytes aligned for Arrow, as other writers do not align buffers."""
    contiguous = np.ascontiguousarray(data)
    address = contiguous.__array_interface__["data"][0]
    return pa.py_buffer(contiguous.copy() if address % _WORD_BYTES else contiguous)
