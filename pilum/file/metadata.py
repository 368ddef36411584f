"""The metadata of a data file, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pilum.container.raw import RawColumn, RawReader
from pilum.container.segments import DataFileReader
from pilum.format.types import restored_schema

__all__ = [
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceColumnStatistics",
    "LanceFileMetadata",
    "LanceFileStatistics",
    "LancePageMetadata",
    "describe",
    "measure",
]


@dataclass(frozen=True, slots=True)
class LanceBufferDescriptor:
    """The position and size of a buffer in its file.

    Attributes:
        position: Offset from the start of the file, in bytes.
        size: Size in bytes, without padding.
    """

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """The metadata of one page of a column.

    Attributes:
        buffers: Buffers of the page.
        encoding: Description of the page encoding, as text.
    """

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """The metadata of one column.

    Attributes:
        column_buffers: Buffers that belong to no page.
        pages: Pages, in row order.
    """

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """The metadata of a file.

    Attributes:
        schema: Schema of the file.
        num_rows: Number of rows.
        num_data_bytes: Number of bytes before the column metadata, without global buffers.
        num_column_metadata_bytes: Number of bytes of the metadata of all columns, with their offset
            table.
        num_global_buffer_bytes: Number of bytes of all global buffers.
        global_buffers: Global buffers; the first is the file descriptor.
        columns: Columns, by number.
        major_version: Major version in the footer.
        minor_version: Minor version in the footer.
    """

    schema: pa.Schema
    num_rows: int
    num_data_bytes: int
    num_column_metadata_bytes: int
    num_global_buffer_bytes: int
    global_buffers: list[LanceBufferDescriptor]
    columns: list[LanceColumnMetadata]
    major_version: int
    minor_version: int


@dataclass(frozen=True, slots=True)
class LanceColumnStatistics:
    """The size of one column.

    Attributes:
        num_pages: Number of pages.
        size_bytes: Total size of their buffers.
    """

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LanceFileStatistics:
    """The sizes of all columns of a file, by number."""

    columns: list[LanceColumnStatistics]


def describe(reader: DataFileReader, raw: RawReader) -> LanceFileMetadata:
    """Return the metadata of a file."""
    footer = raw.footer
    global_bytes = sum(size for _, size in raw.global_buffers)
    major, minor = footer.version.footer_numbers
    return LanceFileMetadata(
        schema=restored_schema(reader.schema.arrow),
        num_rows=reader.num_rows,
        num_data_bytes=footer.column_metadata - global_bytes,
        num_column_metadata_bytes=footer.global_table - footer.column_metadata,
        num_global_buffer_bytes=global_bytes,
        global_buffers=_buffers(raw.global_buffers),
        columns=[_column(column) for column in raw.columns()],
        major_version=major,
        minor_version=minor,
    )


def measure(raw: RawReader) -> LanceFileStatistics:
    """Return the sizes of the columns of a file."""
    return LanceFileStatistics(
        [
            LanceColumnStatistics(
                len(column.pages), sum(size for page in column.pages for _, size in page.buffers)
            )
            for column in raw.columns()
        ]
    )


def _column(column: RawColumn) -> LanceColumnMetadata:
    pages = [LancePageMetadata(_buffers(page.buffers), str(page.encoding)) for page in column.pages]
    return LanceColumnMetadata(_buffers(column.buffers), pages)


def _buffers(
    places: list[tuple[int, int]] | tuple[tuple[int, int], ...],
) -> list[LanceBufferDescriptor]:
    return [LanceBufferDescriptor(position, size) for position, size in places]
