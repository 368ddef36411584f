"""The model of a page map: the pages of each column, with their sizes and kinds of encoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

__all__ = ["Box", "ColumnPages", "Encoding", "PageMap", "Run", "encoding_of", "runs"]


class Encoding(Enum):
    """A kind of encoding, as legends name it; the letter is for terminals without colours."""

    PLAIN = ("plain", "p")
    BIT_PACKED = ("bit-packed", "b")
    RUN_LENGTH = ("run-length", "r")
    DICTIONARY = ("dictionary", "d")
    SYMBOLS = ("symbol table (fsst)", "s")
    COMPRESSED = ("compressed", "z")
    BYTE_STREAMS = ("byte streams", "y")
    CONSTANT = ("constant", "c")
    BLOB = ("blob", "o")

    @property
    def title(self) -> str:
        """Return the name in legends."""
        return self.value[0]

    @property
    def letter(self) -> str:
        """Return the letter for terminals without colours."""
        return self.value[1]


_BY_NAME = {
    "bitpack": Encoding.BIT_PACKED,
    "rle": Encoding.RUN_LENGTH,
    "dictionary": Encoding.DICTIONARY,
    "fsst": Encoding.SYMBOLS,
    "general": Encoding.COMPRESSED,
    "byte_stream_split": Encoding.BYTE_STREAMS,
    "variable": Encoding.PLAIN,
    "flat": Encoding.PLAIN,
}


def encoding_of(layout: str, encoding: str, dictionary: str = "") -> Encoding:
    """Return the kind of a page, from the texts that describe it: the outermost known encoding."""
    if layout.startswith("blob"):
        return Encoding.BLOB
    if layout == "constant":
        return Encoding.CONSTANT
    if dictionary:
        return Encoding.DICTIONARY
    places = {encoding.find(name): kind for name, kind in _BY_NAME.items() if name in encoding}
    return places[min(places)] if places else Encoding.PLAIN


@dataclass(frozen=True, slots=True)
class Box:
    """One page.

    Attributes:
        first_row: Its first row in the file.
        num_rows: Number of its rows.
        size_bytes: Bytes of all its buffers.
        encoding: The kind of its encoding.
        text: Layout and encodings in words.
    """

    first_row: int
    num_rows: int
    size_bytes: int
    encoding: Encoding
    text: str


@dataclass(frozen=True, slots=True)
class ColumnPages:
    """The pages of one leaf column.

    Attributes:
        name: Names from the column to the leaf, joined by dots.
        type: Its type.
        boxes: Its pages, in the order of their rows.
        raw_bytes: Bytes of its values in memory; None if unknown.
    """

    name: str
    type: str
    boxes: Sequence[Box]
    raw_bytes: int | None = None

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all pages."""
        return sum(box.size_bytes for box in self.boxes)

    @property
    def ratio(self) -> float | None:
        """Return how many times smaller the values are stored than in memory; None if unknown."""
        size = self.size_bytes
        return None if self.raw_bytes is None or not size else self.raw_bytes / size


@dataclass(frozen=True, slots=True)
class PageMap:
    """The pages of a file, or of all files of a table.

    Attributes:
        title: What is drawn.
        columns: The columns, in the order of the schema.
    """

    title: str
    columns: Sequence[ColumnPages]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all pages."""
        return sum(column.size_bytes for column in self.columns)

    @property
    def num_pages(self) -> int:
        """Return the number of pages."""
        return sum(len(column.boxes) for column in self.columns)

    @property
    def encodings(self) -> list[Encoding]:
        """Return the kinds that occur, in the order of the legend."""
        found = {box.encoding for column in self.columns for box in column.boxes}
        return [kind for kind in Encoding if kind in found]

    def largest(self, most: int) -> tuple[list[ColumnPages], list[ColumnPages]]:
        """Return the largest columns in the order of the schema, and the others."""
        order = sorted(range(len(self.columns)), key=lambda at: -self.columns[at].size_bytes)
        chosen = set(order[:most])
        shown = [column for at, column in enumerate(self.columns) if at in chosen]
        return shown, [column for at, column in enumerate(self.columns) if at not in chosen]


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent pages of one kind that are drawn as one box.

    Attributes:
        start_bytes: Bytes of the column's pages before it.
        size_bytes: Bytes of its pages.
        first: Number of its first page.
        boxes: Its pages.
    """

    start_bytes: int
    size_bytes: int
    first: int
    boxes: Sequence[Box]

    @property
    def encoding(self) -> Encoding:
        """Return the kind of its pages."""
        return self.boxes[0].encoding


def runs(column: ColumnPages, least_bytes: float) -> Iterator[Run]:
    """Yield the pages of a column, where those that are too small to see are joined.

    Pages of one kind are joined until they have `least_bytes`, so that a drawing has no more boxes
    than fit into it.
    """
    start, begun = 0, 0
    boxes = column.boxes
    while begun < len(boxes):
        size, end = boxes[begun].size_bytes, begun + 1
        while (
            end < len(boxes) and size < least_bytes and boxes[end].encoding is boxes[begun].encoding
        ):
            size += boxes[end].size_bytes
            end += 1
        yield Run(start, size, begun, boxes[begun:end])
        start, begun = start + size, end
