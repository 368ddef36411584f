"""Convert column metadata and page descriptions between protobuf and plain values.

    ColumnMetadata   encoding: always the same; pages, in row order
    Page             buffers (offset, size), number of rows, description, first row
    description      Any{type_url "/lance.encodings21.PageLayout", value}

Source: docs/format/container.md, "Column metadata".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError

from pilum.cache import Descriptions
from pilum.encodings.base import StoredPage, demand
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.pb import encodings21_pb2, file_pb2

__all__ = [
    "MAX_ITEMS",
    "MAX_ROWS",
    "PageEntry",
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


def _direct(description: file_pb2.Any) -> file_pb2.Encoding:
    encoding = description.SerializeToString()
    return file_pb2.Encoding(direct=file_pb2.DirectEncoding(encoding=encoding))


_COLUMN_ENCODING = _direct(file_pb2.Any(type_url="/lance.encodings.ColumnEncoding", value=b"\n\0"))


def parse_column(data: bytes, file_bytes: int, descriptions: Descriptions) -> list[PageEntry]:
    """Parse the metadata of one column.

    Args:
        data: A serialised `ColumnMetadata`.
        file_bytes: Size of the file, which no buffer may exceed.
        descriptions: Descriptions of pages that were parsed before.

    Raises:
        CorruptFileError: If the metadata do not parse, or a page lies outside of the file.
    """
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
    offsets, sizes, length = page.buffer_offsets, page.buffer_sizes, page.length
    demand(len(offsets) == len(sizes), "buffers: offsets without sizes")
    buffers = tuple(zip(offsets, sizes, strict=True))
    outside = [(offset, size) for offset, size in buffers if offset + size > file_bytes]
    if outside:
        raise CorruptFileError(f"buffers beyond the end of the file: {outside[:3]}")
    if not 0 < length < MAX_ROWS:
        raise CorruptFileError(f"page length: {length} rows")
    data = page.encoding.direct.encoding
    layout = descriptions.parsed(_layout, data) if len(data) <= _SMALL_BYTES else _layout(data)
    return StoredPage(first_row, length, buffers), layout


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
            value = layout.SerializeToString()
            encoding = _direct(file_pb2.Any(type_url=f"/{_PAGE_LAYOUT}", value=value))
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
    """Check the number of rows of a new file.

    Raises:
        InvalidInputError: If readers would reject that many rows.
    """
    if num_rows >= MAX_ROWS:
        raise InvalidInputError(f"{num_rows} rows in a file, which has at most {MAX_ROWS - 1}")


def parse_file_descriptor(data: bytes) -> file_pb2.FileDescriptor:
    """Parse global buffer 0: the schema and the number of rows.

    Raises:
        CorruptFileError: If it does not parse.
    """
    try:
        descriptor: file_pb2.FileDescriptor = file_pb2.FileDescriptor.FromString(data)
    except DecodeError as error:
        raise CorruptFileError(f"file descriptor: {error}") from error
    return descriptor
