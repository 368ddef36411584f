"""A page: the values of one column for some neighbouring rows, stored in one structural layout.

A `Page` is read by a plan that asks for byte ranges and ends in a `Decoded`: the value buffers as
Arrow has them, and for every layer (inner-most first) its validity and its list offsets. A new
layout is one file in `structural/` and one line in `layouts.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from pilum.cache import CacheSlot
from pilum.encodings.base import Compressive
from pilum.encodings.notation import encoding_text
from pilum.errors import CorruptFileError
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.schema import Field
from pilum.storage.base import Plan, Ranges

__all__ = [
    "Candidate",
    "Decoded",
    "DictionaryBlock",
    "EncodedPage",
    "Layer",
    "Page",
    "StoredPage",
    "layer_codes",
    "layer_kinds",
]


class Layer(NamedTuple):
    """One layer of a column, as Arrow has it.

    Attributes:
        length: Number of slots.
        validity: uint8 bitmap, or None if all are valid.
        null_count: Number of nulls.
        offsets: int32, shape (length + 1,), for lists.
    """

    length: int
    validity: NDArray[np.uint8] | None
    null_count: int
    offsets: NDArray[np.int32] | None


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """Values of a dictionary: Arrow's buffers without validity, and their number."""

    buffers: list[NDArray[Any]]
    num_values: int

    def owned(self) -> DictionaryBlock:
        """The same values in memory of their own, not in that of a larger read."""
        return DictionaryBlock([buffer.copy() for buffer in self.buffers], self.num_values)

    @property
    def size_bytes(self) -> int:
        """Bytes of the values."""
        return sum(buffer.nbytes for buffer in self.buffers)


class Decoded(NamedTuple):
    """Some rows of a column.

    Attributes:
        encoding: How the values were stored; None if every value is null.
        buffers: Arrow's buffers without validity: [data], [offsets, data] or, for fixed-size lists,
            [a bitmap per nullable level …, items].
        num_values: Number of value slots.
        layers: Inner-most first.
        dictionary: What the values are indices into, if they are.
        members: Of packed structs, all members that the file has, in its order.
    """

    encoding: Compressive | None
    buffers: list[NDArray[Any]]
    num_values: int
    layers: list[Layer]
    dictionary: DictionaryBlock | None = None
    members: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredPage:
    """Where a page stands in its file.

    Attributes:
        first_row: Row of the column with which the page begins.
        num_rows: Rows in the page.
        buffers: (offset, size) of each buffer, bytes.
        lookup: Where a page keeps what it needs for every random access, such as the table of
            its chunks; None to keep nothing. A page that is read as a whole puts nothing in.
    """

    first_row: int
    num_rows: int
    buffers: tuple[tuple[int, int], ...]
    lookup: CacheSlot | None = field(default=None, compare=False)

    def buffer(self, index: int) -> tuple[int, int]:
        """Offset and size of one buffer.

        Raises:
            CorruptFileError: If the page has no such buffer.
        """
        if index >= len(self.buffers):
            raise CorruptFileError(
                f"page buffers: expected at least {index + 1}, found {len(self.buffers)}"
            )
        return self.buffers[index]

    def fetch(self, *indices: int) -> Plan[list[NDArray[np.uint8]]]:
        """Reads whole buffers."""
        fetched = yield Ranges.of(*(self.buffer(index) for index in indices))
        return [fetched[i] for i in range(len(indices))]


class Page(ABC):
    """A page in one structural layout, ready to be read."""

    stored: StoredPage

    @abstractmethod
    def read(self, rows: RowRanges) -> Plan[Decoded]:
        """Reads rows, counted from the first of the page.

        Raises:
            CorruptFileError: If the bytes contradict the description.
        """


class Candidate(NamedTuple):
    """A way to store values that the writer looked at.

    Attributes:
        way: The encoding, or the name of something else; put into words when somebody asks.
        size_bytes: What the values would take, about; None if nobody counted.
        note: Why it was not taken, where that is not the size.
    """

    way: Compressive | str
    size_bytes: int | None = None
    note: str = ""

    @property
    def encoding(self) -> str:
        """In the words of `encoding_text`, or of a layout."""
        return self.way if isinstance(self.way, str) else encoding_text(self.way.to_proto())


class EncodedPage(NamedTuple):
    """A page that is ready to be written.

    Attributes:
        num_rows: Rows in the page.
        layout: Its description.
        buffers: What to write, in order; anything with the buffer protocol.
        candidates: What it was chosen from.
        raw_bytes: Bytes of the values as Arrow has them, None if nobody counted.
    """

    num_rows: int
    layout: pb.PageLayout
    buffers: tuple[Any, ...]
    candidates: tuple[Candidate, ...] = ()
    raw_bytes: int | None = None

    def chosen_from(
        self, candidates: tuple[Candidate, ...], raw_bytes: int | None = None
    ) -> EncodedPage:
        """The same page, with what it was chosen from, and the size of its values in memory."""
        return EncodedPage(self.num_rows, self.layout, self.buffers, candidates, raw_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)


def layer_kinds(codes: bytes) -> list[pb.RepDefLayer]:
    """Layer kinds as a description holds them."""
    return cast("list[pb.RepDefLayer]", list(codes))


def layer_codes(layers: Any) -> bytes:
    """Layer kinds of a description, inner-most first, as the kernels take them.

    Raises:
        CorruptFileError: If there is none, a kind that does not exist, or a list for a leaf.
    """
    codes = list(layers)
    if not codes or not all(1 <= code <= 6 for code in codes) or codes[0] not in (1, 3):
        raise CorruptFileError(f"page layers {codes}")
    return bytes(codes)
