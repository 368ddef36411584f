"""The two kinds of encodings, of values and of pages, and what passes between them and a file.

A `Compressive` describes how values are stored, to and from protobuf. It does not decode bytes
itself. It becomes a `kernels.Plan` with which one kernel call decodes the values of a whole page,
or a `kernels.Block` for levels and dictionaries, which are one buffer each. A new one is one file
beside `compressive/flat.py` and one line in `registry.py`.

A page contains the values of one column for some adjacent rows. It is a `Layout`, which pages of
equal descriptions share, and the place where it is stored. Its rows are read by a plan that asks
for byte ranges and ends in a `Decoded`: the value buffers as Arrow has them, and for every layer
(inner-most first) its validity and its list offsets. A new layout is one file in `structural/` and
one line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.cache import CacheSlot
from pilum.encodings.describe import encoding_text
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.fields import Field
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.storage.base import MemorySource, Plan, Ranges, Source

__all__ = [
    "Candidate",
    "Children",
    "Compressive",
    "Decoded",
    "DictionaryBlock",
    "EncodedPage",
    "Layer",
    "Layout",
    "PageRead",
    "StoredPage",
    "at_page",
    "demand",
    "layer_codes",
    "layer_kinds",
]

Children: TypeAlias = "Callable[[pb.CompressiveEncoding], Compressive]"


class Compressive(ABC):
    """A description of how values are stored.

    Attributes:
        arm: Name of the protobuf oneof member; the key of the registry.
        coding: The coding that the kernel applies to values when it cuts them into mini-block
            chunks.
    """

    arm: ClassVar[str]
    coding: ClassVar[kernels.Coding] = kernels.Coding.PLAIN

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any, children: Children) -> Compressive:
        """Parse the member message; `children` parses the encodings within it.

        Raises:
            CorruptFileError: If the message describes something impossible.
        """

    @abstractmethod
    def member(self) -> Any:
        """Return the member message."""

    def to_proto(self) -> pb.CompressiveEncoding:
        """Return the message as it is stored in a page; it is shared, so it must not be changed."""
        return _message_of(self)

    def chunk_coding(self) -> tuple[kernels.Coding, tuple[str, int] | None]:
        """Return the coding of mini-block chunks, and the scheme and level that compress them."""
        return self.coding, None

    @property
    def num_buffers(self) -> int:
        """Number of value buffers per mini-block chunk."""
        return 1

    def plan(self) -> kernels.Plan:
        """Return the plan that decodes values of chunks or zipped entries.

        Raises:
            CorruptFileError: If the encoding is not defined there.
        """
        raise CorruptFileError(f"{self.arm} cannot hold the values of a page")

    def block(self) -> kernels.Block:
        """Return the description of a block for the kernels."""
        raise CorruptFileError(f"{self.arm} cannot hold a block")


@lru_cache(maxsize=256)
def _message_of(encoding: Compressive) -> pb.CompressiveEncoding:
    return pb.CompressiveEncoding(**{encoding.arm: encoding.member()})


def demand(holds: bool, message: str) -> None:
    """Raise CorruptFileError with a message unless a guarantee of the format holds."""
    if not holds:
        raise CorruptFileError(message)


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
        """Return the same values in memory of their own, not in that of a larger read."""
        return DictionaryBlock([buffer.copy() for buffer in self.buffers], self.num_values)

    def mask(self, condition: kernels.Condition) -> NDArray[np.uint8]:
        """Return a bitmap of the values that are in a set."""
        if len(self.buffers) == 1:
            return condition.of_fixed(self.buffers[0], self.num_values)
        offsets, data = self.buffers
        return condition.of_texts(offsets, data)

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
        dictionary: The dictionary, if the values are indices.
        members: All stored members of a packed struct, in the file's order.
    """

    encoding: Compressive | None
    buffers: list[NDArray[Any]]
    num_values: int
    layers: list[Layer]
    dictionary: DictionaryBlock | None = None
    members: tuple[Field, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredPage:
    """The place of a page in its file: its first row in the column, its rows and its buffers.

    Each buffer has an offset and a size, bytes.
    """

    first_row: int
    num_rows: int
    buffers: tuple[tuple[int, int], ...]

    def buffer(self, index: int) -> tuple[int, int]:
        """Return the offset and size of one buffer."""
        if index >= len(self.buffers):
            raise CorruptFileError(
                f"page buffers: expected at least {index + 1}, found {len(self.buffers)}"
            )
        return self.buffers[index]

    def fetch(self, *indices: int) -> Plan[list[NDArray[np.uint8]]]:
        """Read whole buffers."""
        fetched = yield Ranges.of(*(self.buffer(index) for index in indices))
        return [fetched[i] for i in range(len(indices))]


class Layout(ABC):
    """The parsed description of pages; immutable, as pages share it.

    Attributes:
        keeps_rows: Whether `read` decodes only the rows that `PageRead.kept` selects.
    """

    keeps_rows: ClassVar[bool] = False

    @abstractmethod
    def read(self, page: PageRead) -> Plan[Decoded]:
        """Read rows of a page that has this layout.

        Raises:
            CorruptFileError: If the bytes contradict the description.
        """

    def mask(self, page: PageRead, condition: kernels.Condition) -> Plan[NDArray[np.uint8] | None]:
        """Test rows of a page without decoding them; returns a bitmap with a bit per row.

        Returns None if pages of this layout cannot be tested. The page must not have lists, unless
        the layout returns None for those.

        Raises:
            CorruptFileError: If the bytes contradict the description.
        """
        del page, condition
        yield from ()
        return None

    @property
    def has_dictionary(self) -> bool:
        """Whether values are stored as indices of a dictionary."""
        return False

    @property
    def plain_bytes(self) -> int | None:
        """Bytes of a row if buffer 0 consists of valid values as they are; None otherwise."""
        return None


class PageRead:
    """Some rows of a page, to be read.

    Attributes:
        layout: The layout of the page.
        stored: Its place.
        rows: The selected rows, counted from the first of the page.
        lookup: The cache for what a page needs for every random access, such as the table of its
            chunks; None to cache nothing. A page that is read as a whole caches nothing.
        source: The file.
        column: Number of the column in the file.
        number: Number of the page in the column.
        is_whole: Whether all rows are selected.
        memory: The bytes of the file if they are in memory.
        kept: Bitmap of the rows to return among the selected ones, and the number of its first bit;
            None for all. Only for layouts that keep rows.
        num_layers: How many layers, from the inner-most one, are needed; a layout may leave the
            others empty. None for all.
    """

    __slots__ = (
        "column",
        "is_whole",
        "kept",
        "layout",
        "lookup",
        "memory",
        "num_layers",
        "number",
        "rows",
        "source",
        "stored",
    )

    def __init__(
        self,
        layout: Layout,
        stored: StoredPage,
        rows: RowRanges,
        source: Source,
        column: int = 0,
        number: int = 0,
        lookup: CacheSlot | None = None,
    ) -> None:
        self.layout = layout
        self.stored = stored
        self.rows = rows
        self.source = source
        self.column = column
        self.number = number
        self.lookup = lookup
        self.is_whole = rows.covers(stored.num_rows)
        self.memory = source.data if isinstance(source, MemorySource) else None
        self.kept: tuple[NDArray[np.uint8], int] | None = None
        self.num_layers: int | None = None

    @property
    def is_mapped(self) -> bool:
        """Whether a range of rows is stored as the result has it, and in memory."""
        width = self.layout.plain_bytes
        if width is None or not self.stored.buffers:
            return False
        start, stop = self.rows.bounds[0].tolist()
        return self.source.is_mapped(
            self.stored.buffer(0)[0] + start * width, (stop - start) * width
        )

    def with_layout(self, layout: Layout) -> PageRead:
        """Return a read of the same rows from a page within this one."""
        page = PageRead(
            layout, self.stored, self.rows, self.source, self.column, self.number, self.lookup
        )
        page.num_layers = self.num_layers
        return page

    def located(self) -> AtPage:
        """Return a context that adds the place of the page to errors."""
        return AtPage(self.source.path, self.column, self.number)


class AtPage:
    """A context that adds the place of a page to errors.

    Every read enters several, and a generator would cost three times as much.
    """

    __slots__ = ("column", "number", "path")

    def __init__(self, path: str, column: int, number: int) -> None:
        self.path = path
        self.column = column
        self.number = number

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Raise an error of a damaged page again, with its place."""
        if isinstance(error, CorruptFileError):
            where = error.at(f"page {self.number}").at(f"column {self.column}")
            raise where.at(self.path) from None
        if isinstance(error, UnsupportedFormatError):
            place = f"{self.path}, column {self.column}, page {self.number}"
            raise type(error)(f"{error}\n  {place}") from None


def at_page(path: str, column: int, number: int) -> AtPage:
    """Return a context that adds the place of a page to errors."""
    return AtPage(path, column, number)


class Candidate(NamedTuple):
    """An encoding that the writer considered, or something else by name.

    `size_bytes` is approximate, and None if it was not computed; `note` is why it was rejected, if
    not for its size. Its text is made on demand.
    """

    way: Compressive | str
    size_bytes: int | None = None
    note: str = ""

    @property
    def encoding(self) -> str:
        """The text of the encoding (see `encoding_text`), or the name of a layout."""
        return self.way if isinstance(self.way, str) else encoding_text(self.way.to_proto())


class EncodedPage(NamedTuple):
    """A page that is ready to be written.

    Attributes:
        num_rows: Rows in the page.
        layout: Its description.
        buffers: What to write, in order; anything with the buffer protocol.
        candidates: The candidates that were compared.
        raw_bytes: Bytes of the values as Arrow has them, None if they were not counted.
    """

    num_rows: int
    layout: pb.PageLayout
    buffers: tuple[Any, ...]
    candidates: tuple[Candidate, ...] = ()
    raw_bytes: int | None = None

    def chosen_from(
        self, candidates: tuple[Candidate, ...], raw_bytes: int | None = None
    ) -> EncodedPage:
        """Return the page with its candidates and the size of its values in memory."""
        return EncodedPage(self.num_rows, self.layout, self.buffers, candidates, raw_bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(memoryview(buffer).nbytes for buffer in self.buffers)


def layer_kinds(codes: bytes) -> list[pb.RepDefLayer]:
    """Convert layer kinds to those of a description."""
    return cast("list[pb.RepDefLayer]", list(codes))


def layer_codes(layers: Any) -> bytes:
    """Convert the layer kinds of a description, inner-most first, to codes for the kernels."""
    codes = list(layers)
    if not codes or not all(1 <= code <= 6 for code in codes) or codes[0] not in (1, 3):
        raise CorruptFileError(f"page layers {codes!s:.80}")
    return bytes(codes)
