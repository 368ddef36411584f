"""Convert column metadata and page descriptions between protobuf and plain values.

    ColumnMetadata   encoding: always the same; pages, in row order
    Page             buffers (offset, size), number of rows, description, first row
    description      Any{type_url "/lance.encodings21.PageLayout", value}

Source: docs/format/container.md, "Column metadata".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from pilum.cache import Descriptions
from pilum.container.frame import Places
from pilum.encodings.base import StoredPage, demand
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import encodings21_pb2, file_pb2

__all__ = [
    "MAX_ITEMS",
    "MAX_ROWS",
    "PageEntry",
    "buffer_places",
    "direct",
    "pack_columns",
    "parse_column",
    "parse_file_descriptor",
    "require_countable",
]

MAX_ROWS = 2**32
"""Upper bound of rows: no file has as many, as rows of a fragment have 32-bit numbers. A constant
page could claim any number of rows without a byte of values."""

MAX_ITEMS = 2**40
"""Upper bound of list items: no column has as many."""

_SMALL_BYTES = 256
_PAGE_LAYOUT = "lance.encodings21.PageLayout"

PageEntry = tuple[StoredPage, encodings21_pb2.PageLayout]


def direct(type_url: str, value: bytes) -> file_pb2.Encoding:
    """Return a description that is stored where it is needed."""
    encoding = file_pb2.Any(type_url=type_url, value=value).SerializeToString()
    return file_pb2.Encoding(direct=file_pb2.DirectEncoding(encoding=encoding))


_COLUMN_ENCODING = direct("/lance.encodings.ColumnEncoding", b"\n\0")


def parse_column(data: bytes, file_bytes: int, descriptions: Descriptions) -> list[PageEntry]:
    """Parse a `ColumnMetadata`, whose buffers may not exceed the size of the file."""
    try:
        message = file_pb2.ColumnMetadata.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"column metadata: {error}") from error
    entries: list[PageEntry] = []
    first_row = 0
    for number, page in enumerate(message.pages):
        try:
            entries.append(_parse_page(page, first_row, file_bytes, descriptions))
        except CorruptFileError as error:
            raise error.at(f"page {number}") from None
        first_row += page.length
    return entries


def _parse_page(
    page: file_pb2.ColumnMetadata.Page,
    first_row: int,
    file_bytes: int,
    descriptions: Descriptions,
) -> PageEntry:
    buffers, length = buffer_places(page, file_bytes), page.length
    if not 0 < length < MAX_ROWS:
        raise CorruptFileError(f"page length: {length} rows")
    data = page.encoding.direct.encoding
    layout = descriptions.parsed(_layout, data) if len(data) <= _SMALL_BYTES else _layout(data)
    return StoredPage(first_row, length, buffers), layout


def buffer_places(message: Any, file_bytes: int) -> Places:
    """Return the position and size of each buffer of a page or column."""
    offsets, sizes = message.buffer_offsets, message.buffer_sizes
    demand(len(offsets) == len(sizes), "buffers: offsets without sizes")
    places = tuple(zip(offsets, sizes, strict=True))
    outside = [(offset, size) for offset, size in places if offset + size > file_bytes]
    if outside:
        raise CorruptFileError(f"buffers beyond the end of the file: {outside[:3]}")
    return places


def _layout(data: bytes) -> encodings21_pb2.PageLayout:
    try:
        description = file_pb2.Any.FromString(data)
        if description.type_url.rpartition("/")[1:] != ("/", _PAGE_LAYOUT):
            raise CorruptFileError(
                f"page description: expected {_PAGE_LAYOUT}, found {description.type_url!r}"
            )
        layout: encodings21_pb2.PageLayout = encodings21_pb2.PageLayout.FromString(
            description.value
        )
    except DecodeError as error:
        raise CorruptFileError(f"page description: {error}") from error
    return layout


def pack_columns(columns: Iterable[Sequence[PageEntry]]) -> list[bytes]:
    """Serialise the metadata of columns."""
    encodings: dict[int, file_pb2.Encoding] = {}
    return [_pack_column(pages, encodings) for pages in columns]


def _pack_column(pages: Sequence[PageEntry], encodings: dict[int, file_pb2.Encoding]) -> bytes:
    message = file_pb2.ColumnMetadata(encoding=_COLUMN_ENCODING)
    for stored, layout in pages:
        # Pages with equal descriptions share one object.
        encoding = encodings.get(id(layout))
        if encoding is None:
            encoding = direct(f"/{_PAGE_LAYOUT}", layout.SerializeToString())
            encodings[id(layout)] = encoding
        message.pages.add(
            buffer_offsets=[offset for offset, _ in stored.buffers],
            buffer_sizes=[size for _, size in stored.buffers],
            length=stored.num_rows,
            encoding=encoding,
            priority=stored.first_row,
        )
    data: bytes = message.SerializeToString()
    return data


def require_countable(num_rows: int) -> None:
    """Raise InvalidInputError if a new file has more rows than readers accept."""
    if num_rows >= MAX_ROWS:
        raise InvalidInputError(f"{num_rows} rows in a file, which has at most {MAX_ROWS - 1}")


def parse_file_descriptor(data: bytes) -> file_pb2.FileDescriptor:
    """Parse global buffer 0: the schema and the number of rows."""
    try:
        descriptor: file_pb2.FileDescriptor = file_pb2.FileDescriptor.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"file descriptor: {error}") from error
    return descriptor
