"""The base of array encodings of version 2.0: a tree that describes the values of a page.

    nullable                      page buffer 0: validity
    └── fixed_size_list 2
        └── nullable
            └── flat 32           page buffer 1: values

Positions of values in buffers can be computed, so any rows can be read alone: a plan asks for just
their bytes and ends in an Arrow array. A new encoding is one file here and one line in
`registry.py`. Source: docs/format/encodings-2.0.md, "Array encodings".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.encodings.base import demand
from pilum.errors import CorruptFileError
from pilum.format.pb import encodings20_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.storage.base import Plan

__all__ = [
    "ArrayEncoding",
    "Buffer",
    "Buffers",
    "Bytes",
    "Children",
    "Direct",
    "Encoded",
    "FixedWidth",
    "Items",
    "Slots",
    "aligned",
    "bits_of",
]

Bytes: TypeAlias = NDArray[np.uint8]
Children: TypeAlias = "Callable[[pb.ArrayEncoding], ArrayEncoding]"

_MAX_ITEMS = 2**40
"""Upper bound of values: a page that claims more is damaged."""

_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class Buffers:
    """The (offset, size) of each buffer of the page, and of those that its column's pages share."""

    page: tuple[tuple[int, int], ...]
    column: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """A reference to a buffer of a page or of its column."""

    index: int
    of_column: bool = False

    @classmethod
    def from_proto(cls, message: pb.Buffer) -> Buffer:
        """Parse a reference."""
        demand(message.buffer_type in (0, 1), f"a buffer of kind {message.buffer_type}")
        return cls(message.buffer_index, message.buffer_type == pb.Buffer.COLUMN)

    def to_proto(self) -> pb.Buffer:
        """Return the message."""
        owner = pb.Buffer.COLUMN if self.of_column else pb.Buffer.PAGE
        return pb.Buffer(buffer_index=self.index, buffer_type=owner)

    def place(self, buffers: Buffers) -> tuple[int, int]:
        """Return the offset and size, bytes."""
        places = buffers.column if self.of_column else buffers.page
        if self.index >= len(places):
            raise CorruptFileError(f"buffer {self.index} of {len(places)}")
        return places[self.index]


@dataclass(frozen=True, slots=True)
class Items:
    """The selected values of a page.

    The page has `total` values; `rows` are counted from the first of them.
    """

    buffers: Buffers
    total: int
    rows: RowRanges

    @property
    def num_wanted(self) -> int:
        """The number of selected values."""
        return self.rows.num_rows

    def times(self, factor: int) -> Items:
        """Return the selected items of fixed-size lists with `factor` items each."""
        demand(self.total * factor < _MAX_ITEMS, f"{self.total} lists of {factor} items")
        return Items(self.buffers, self.total * factor, RowRanges(self.rows.bounds * factor))

    def all_of(self, total: int) -> Items:
        """Return a selection of all of other values of the page."""
        return Items(self.buffers, total, RowRanges.of((0, total)))


class Slots(NamedTuple):
    """Contiguous values of a width, `bits`, from a position in the file on.

    `rows` are the ranges that are read, counted from the first value; int64, shape (n, 2), start
    and stop. None means the selected rows of the page.
    """

    offset: int
    bits: int
    rows: NDArray[np.int64] | None = None


class Direct(NamedTuple):
    """Values whose bytes can be located without reading anything.

    `make` builds an array of a number of values from the bytes of each of the slots; it raises
    CorruptFileError.
    """

    slots: tuple[Slots, ...]
    make: Callable[[Sequence[Bytes], int], pa.Array]


class ArrayEncoding(ABC):
    """The encoding of the values of a page, or of a part of it.

    `arm` is the name of the protobuf oneof member, and the key of the registry.
    """

    arm: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, children: Children) -> ArrayEncoding:
        """Parse the member message; `children` parses the encodings within it."""

    @abstractmethod
    def member(self) -> Any:
        """Return the member message."""

    def to_proto(self) -> pb.ArrayEncoding:
        """Return the message as it is stored in a page."""
        return pb.ArrayEncoding(**{self.arm: self.member()})

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Read values as an array of an Arrow type, with offset 0 in its buffers.

        CorruptFileError is also raised if the type is not stored in this encoding.
        """
        raise CorruptFileError(f"values of type {kind} stored as {self.arm}")

    def direct(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return how to `read` many columns at once; None where that needs several steps."""
        return None

    def direct_whole(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """Return the `direct` read of all values of the page, independent of the selection."""
        found = self.direct(buffers, total, kind)
        if found is None:
            return None
        every = np.array([[0, total]], dtype=np.int64)
        own = [slots if slots.rows is not None else Slots(*slots[:2], every) for slots in found[0]]
        return Direct(tuple(own), found.make)

    def slots(self, buffers: Buffers, total: int, bits: int) -> Slots | None:
        """Return the slots of `total` numbers; None if locating them needs several steps."""
        return None

    def all_slots(self, buffers: Buffers, bits: int) -> Slots | None:
        """Return the slots of as many numbers as a buffer can hold; None as in `slots`."""
        return None

    def raw(self, items: Items, bits: int) -> Plan[Bytes]:
        """Read contiguous little-endian numbers of a width."""
        raise CorruptFileError(f"numbers of {bits} bits stored as {self.arm}")


@dataclass(frozen=True, slots=True)
class Encoded:
    """Encoded values.

    The buffers of `encoding` are numbered from the first one given by the caller; `buffers`, of
    anything with the buffer protocol, are written in order.
    """

    encoding: ArrayEncoding
    buffers: tuple[Any, ...]


class FixedWidth(ArrayEncoding):
    """Values of one width: `bits` each, when read."""

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
