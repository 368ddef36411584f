"""What a file says about itself, as plain values."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pilum.container.raw import RawColumn, RawReader
from pilum.container.segments import DataFileReader
from pilum.format.extension import restored_schema

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
    """Where a buffer stands in its file.

    Attributes:
        position: Bytes from the start of the file.
        size: Bytes, without padding.
    """

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class LancePageMetadata:
    """One page of a column.

    Attributes:
        buffers: Its buffers.
        encoding: What they hold, as text.
    """

    buffers: list[LanceBufferDescriptor]
    encoding: str


@dataclass(frozen=True, slots=True)
class LanceColumnMetadata:
    """One column.

    Attributes:
        column_buffers: Those that belong to no page.
        pages: In row order.
    """

    column_buffers: list[LanceBufferDescriptor]
    pages: list[LancePageMetadata]


@dataclass(frozen=True, slots=True)
class LanceFileMetadata:
    """A file, but for its data.

    Attributes:
        schema: Its columns.
        num_rows: Its rows.
        num_data_bytes: Bytes in front of the metadata of the columns, without global buffers.
        num_column_metadata_bytes: Bytes of the metadata of all columns, with their table.
        num_global_buffer_bytes: Bytes of all global buffers.
        global_buffers: The first is the file descriptor.
        columns: By number.
        major_version: As the footer has it.
        minor_version: The same.
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
        num_pages: Its pages.
        size_bytes: Bytes of their buffers.
    """

    num_pages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LanceFileStatistics:
    """The sizes of all columns of a file, by number."""

    columns: list[LanceColumnStatistics]


def describe(reader: DataFileReader, raw: RawReader) -> LanceFileMetadata:
    """All that stands behind the data of a file."""
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
    """The sizes of the columns of a file."""
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
