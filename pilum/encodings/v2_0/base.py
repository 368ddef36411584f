"""What every array encoding of version 2.0 is: a tree that says how the values of a page stand.

    nullable                      page buffer 0: validity
    └── fixed_size_list 2
        └── nullable
            └── flat 32           page buffer 1: values

Buffers hold values at computable places, so any rows can be read alone: a plan asks for just
their bytes and ends in an Arrow array. A new encoding is one file here and one line in
`registry.py`. Source: docs/format/encodings-2.0.md, "Array encodings".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
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
    "Items",
    "Slots",
]

Bytes: TypeAlias = NDArray[np.uint8]
Children: TypeAlias = "Callable[[pb.ArrayEncoding], ArrayEncoding]"

_MAX_ITEMS = 2**40
"""No page has as many; what claims to is damaged."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """Where buffers stand in the file.

    Attributes:
        page: (offset, size) of each buffer of the page, bytes.
        column: The same for those that all pages of the column share.
    """

    page: tuple[tuple[int, int], ...]
    column: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Buffer:
    """Names a buffer of a page or of its column."""

    index: int
    of_column: bool = False

    @classmethod
    def from_proto(cls, message: pb.Buffer) -> Buffer:
        """Reads a name.

        Raises:
            CorruptFileError: For a buffer of the file, which no page may refer to.
        """
        demand(message.buffer_type in (0, 1), f"a buffer of kind {message.buffer_type}")
        return cls(message.buffer_index, message.buffer_type == pb.Buffer.COLUMN)

    def to_proto(self) -> pb.Buffer:
        """The message."""
        owner = pb.Buffer.COLUMN if self.of_column else pb.Buffer.PAGE
        return pb.Buffer(buffer_index=self.index, buffer_type=owner)

    def place(self, buffers: Buffers) -> tuple[int, int]:
        """Offset and size, bytes.

        Raises:
            CorruptFileError: If there is no such buffer.
        """
        places = buffers.column if self.of_column else buffers.page
        if self.index >= len(places):
            raise CorruptFileError(f"buffer {self.index} of {len(places)}")
        return places[self.index]


@dataclass(frozen=True, slots=True)
class Items:
    """Which values of a page are wanted.

    Attributes:
        buffers: Of the page.
        total: Values in the page.
        rows: The wanted ones, counted from the first of the page.
    """

    buffers: Buffers
    total: int
    rows: RowRanges

    @property
    def num_wanted(self) -> int:
        """How many values are wanted."""
        return self.rows.num_rows

    def times(self, factor: int) -> Items:
        """The items of fixed-size lists of this size."""
        demand(self.total * factor < _MAX_ITEMS, f"{self.total} lists of {factor} items")
        return Items(self.buffers, self.total * factor, RowRanges(self.rows.bounds * factor))

    def all_of(self, total: int) -> Items:
        """All of other values of the page."""
        return Items(self.buffers, total, RowRanges.of((0, total)))


class Slots(NamedTuple):
    """Values of one width that stand side by side.

    Attributes:
        offset: Where the first of all stands in the file.
        bits: Of each.
        rows: Which are read, counted from the first; int64, shape (n, 2), first and behind. None
            for those that are wanted of the page.
    """

    offset: int
    bits: int
    rows: NDArray[np.int64] | None = None


class Direct(NamedTuple):
    """Values whose bytes can be found without reading anything.

    Attributes:
        slots: Where they stand.
        make: From the bytes of each of the slots to an array of so many values; raises
            CorruptFileError.
    """

    slots: tuple[Slots, ...]
    make: Callable[[Sequence[Bytes], int], pa.Array]


class ArrayEncoding(ABC):
    """How the values of a page, or of a part of it, are stored.

    Attributes:
        arm: Name of the protobuf oneof member; the key of the registry.
    """

    arm: ClassVar[str]

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, children: Children) -> ArrayEncoding:
        """Reads the member message; `children` reads the encodings inside of it.

        Raises:
            CorruptFileError: If the message describes something impossible.
        """

    @abstractmethod
    def member(self) -> Any:
        """The member message."""

    def to_proto(self) -> pb.ArrayEncoding:
        """The message as a page holds it."""
        return pb.ArrayEncoding(**{self.arm: self.member()})

    def read(self, items: Items, kind: pa.DataType) -> Plan[pa.Array]:
        """Reads values as an array of an Arrow type, which begins at its buffers' first value.

        Raises:
            CorruptFileError: If the type is not stored like this, or the bytes contradict it.
        """
        raise CorruptFileError(f"values of type {kind} stored as {self.arm}")

    def direct(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """How `read` can be done for many columns at once; None where that needs several steps.

        Args:
            buffers: Of the page.
            total: Values in the page.
            kind: What is made of them.

        Raises:
            CorruptFileError: As `read`.
        """
        return None

    def direct_whole(self, buffers: Buffers, total: int, kind: pa.DataType) -> Direct | None:
        """The same for all values of the page, whatever is wanted of others."""
        found = self.direct(buffers, total, kind)
        if found is None:
            return None
        every = np.array([[0, total]], dtype=np.int64)
        own = [slots if slots.rows is not None else Slots(*slots[:2], every) for slots in found[0]]
        return Direct(tuple(own), found.make)

    def slots(self, buffers: Buffers, total: int, bits: int) -> Slots | None:
        """Where so many numbers of `raw` stand; None where finding them needs several steps.

        Raises:
            CorruptFileError: As `raw`.
        """
        return None

    def all_slots(self, buffers: Buffers, bits: int) -> Slots | None:
        """Where all numbers stand that a buffer has room for; None as in `slots`."""
        return None

    def raw(self, items: Items, bits: int) -> Plan[Bytes]:
        """Reads numbers of a width, little-endian and side by side.

        Raises:
            CorruptFileError: If these are no such numbers.
        """
        raise CorruptFileError(f"numbers of {bits} bits stored as {self.arm}")


@dataclass(frozen=True, slots=True)
class Encoded:
    """Values that are ready to be written.

    Attributes:
        encoding: Its buffers are counted from the first one that the caller named.
        buffers: What to write, in order; anything with the buffer protocol.
    """

    encoding: ArrayEncoding
    buffers: tuple[Any, ...]
