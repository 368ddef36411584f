"""Read a `.lance` file: the schema when it is opened, columns and pages on demand.

Opening takes one request for the end of the file and a second one if the schema or the tables lie
before it. Column metadata outside of that range are fetched for the requested columns only. Source:
docs/format/container.md, "Reading".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pilum.container.column import Column, ColumnPages
from pilum.container.descriptions import FileCaches
from pilum.container.footer import FOOTER_BYTES, Footer, Places, parse_table
from pilum.container.metadata import MAX_ROWS, parse_file_descriptor
from pilum.container.tail import Tail
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.paths import elements_per_row
from pilum.format.pb import file_pb2
from pilum.format.schema import FieldId, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import MemorySource, Plan, Ranges, Source, run_plan

__all__ = ["FileReader"]

_MAX_METADATA_BYTES = 1024 * 1024
"""Up to this many bytes of column metadata are prefetched with the requested ones."""

# Rough sizes of Python objects; equal on every machine, so that limits can be tested.
_READER_BYTES = 1024
_ENTRY_BYTES = 128
_COLUMN_BYTES = 1024
_PARSED_FACTOR = 8


class _FileSchema:
    """The schema from global buffer 0, which most files of a table share."""

    def __init__(self, data: bytes) -> None:
        self._message = file_pb2.Schema.FromString(data)

    @cached_property
    def schema(self) -> Schema:
        return Schema.from_proto(self._message.fields, self._message.metadata)

    @cached_property
    def elements(self) -> list[int]:
        """The number of elements per row of each column."""
        paths = (path for field in self.schema.fields for path in field.leaf_paths())
        return [elements_per_row(path) for path in paths]


def _described(data: bytes) -> tuple[int, bytes]:
    """Parse global buffer 0 and return the number of rows and the serialised schema."""
    message = parse_file_descriptor(data)
    return message.length, message.schema.SerializeToString()


class FileReader:
    """An open file. Safe to use from several threads.

    Attributes:
        source: The source of the bytes.
        version: Version of the file.
        num_rows: Rows of the file.
        global_buffers: Position and size of each, bytes; the first is the file descriptor.
    """

    def __init__(
        self,
        source: Source,
        footer: Footer,
        descriptor: NDArray[np.uint8],
        column_table: Places,
        global_buffers: Places,
        tail: Tail,
        caches: FileCaches,
    ) -> None:
        self.source = source
        self.version: FileVersion = footer.version
        self.num_rows, schema = caches.descriptions.parsed(_described, descriptor.tobytes())
        self._file_schema = caches.descriptions.parsed(_FileSchema, schema)
        self.global_buffers = global_buffers
        self._descriptor_bytes = len(descriptor)
        self._column_table = column_table
        self._tail = tail
        self._caches = caches
        self._columns: dict[int, Column] = {}
        self._parsed_bytes = 0
        self._has_missed = False
        if self.num_rows >= MAX_ROWS:
            raise CorruptFileError(f"rows: {self.num_rows}; a file has fewer than {MAX_ROWS}")

    @classmethod
    def open(
        cls, source: Source, tail: Tail | None = None, caches: FileCaches | None = None
    ) -> FileReader:
        """Read footer, tables and the number of rows.

        Args:
            source: The file, of version 2.1 or newer.
            tail: Its end, if it was read already.
            caches: What the file shares with others, and what its pages keep; None for caches of
                its own.

        Raises:
            CorruptFileError: If the file is not a Lance file, or is damaged.
            UnsupportedVersionError: If its version is not supported.
        """
        kept = caches or FileCaches.private(source.path)
        try:
            return run_plan(cls._open(source, tail or Tail.read(source), kept), source)
        except CorruptFileError as error:
            raise error.at(source.path) if source.path not in error.where else error from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {source.path}") from None

    @classmethod
    def _open(cls, source: Source, tail: Tail, caches: FileCaches) -> Plan[FileReader]:
        footer = Footer.parse(tail.data[-FOOTER_BYTES:].tobytes(), source.size)
        table = yield from tail.bytes_at(footer.global_table, footer.global_table_bytes)
        global_buffers = parse_table(table, footer.column_metadata)
        size = footer.column_table_bytes
        descriptor, table = yield from tail.all_at(
            [global_buffers[0], (footer.global_table - size, size)]
        )
        columns = parse_table(table, footer.global_table)
        need = min(footer.column_metadata, footer.column_table)
        if any(at < need for at, _ in columns):
            raise CorruptFileError("column metadata before its start")
        if tail.start == 0 and not isinstance(source, MemorySource):
            source.close()
            source = MemorySource(source.path, tail.data)
        elif tail.start > 0:
            tail = tail.since(footer.column_metadata)
        return cls(source, footer, descriptor, columns, global_buffers, tail, caches)

    @property
    def schema(self) -> Schema:
        """The schema, with the field ids of the table that the file was written for.

        Raises:
            CorruptFileError: If its content is inconsistent.
        """
        try:
            return self._file_schema.schema
        except CorruptFileError as error:
            raise error.at(self.source.path) from None
        except UnsupportedFormatError as error:
            raise type(error)(f"{error}\n  {self.source.path}") from None

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the number of the column of each leaf of the schema."""
        return self.schema.leaf_columns

    @property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The leaf of each column."""
        return self.schema.leaf_ids

    @property
    def held_bytes(self) -> int:
        """Return the approximate memory of the open file, without what the cache accounts for."""
        tables = len(self._column_table) + len(self.global_buffers)
        return (
            _READER_BYTES
            + len(self._tail.data)
            + self._descriptor_bytes
            + _ENTRY_BYTES * tables
            + _COLUMN_BYTES * len(self._columns)
            + _PARSED_FACTOR * self._parsed_bytes
        )

    @property
    def num_columns(self) -> int:
        """Number of columns of the file: one per leaf of the schema."""
        return len(self._column_table)

    @property
    def _elements(self) -> list[int]:
        # The schema is parsed first, as its errors name the place.
        return self._file_schema.elements if self.schema.fields else []

    def column(self, index: int) -> Column:
        """Return one column; see `columns`."""
        column = self._columns.get(index)
        if column is None and 0 <= index < self.num_columns:
            at, size = self._column_table[index]
            if self._tail.holds(at):
                return self._keep(index, self._tail.slice(at, size).tobytes())
        return column or self.columns([index])[0]

    def _keep(self, index: int, data: bytes) -> Column:
        column = self._columns[index] = self._parse(index, data)
        self._parsed_bytes += len(data)
        return column

    def columns(self, indices: Iterable[int]) -> list[Column]:
        """Return columns by number; metadata that were not read before are read together.

        Raises:
            CorruptFileError: If a column does not exist or its metadata are damaged.
        """
        wanted = list(indices)
        missing = [index for index in wanted if index not in self._columns]
        if missing:
            for index, data in zip(missing, self.column_metadata(missing), strict=True):
                self._keep(index, data)
        return [self._columns[index] for index in wanted]

    def column_metadata(self, indices: list[int]) -> list[bytes]:
        """Read the serialised metadata of columns, except those that were read before.

        Raises:
            CorruptFileError: If a column does not exist.
        """
        return run_plan(self._metadata(indices), self.source)

    def _metadata(self, indices: list[int]) -> Plan[list[bytes]]:
        for index in indices:
            if not 0 <= index < self.num_columns:
                raise CorruptFileError(
                    f"column {index} of a file with {self.num_columns}", self.source.path
                )
        places = [self._column_table[index] for index in indices]
        first = min((at for at, _ in places), default=self._tail.start)
        if first < self._tail.start:
            # A second request suggests that all columns will be read one by one.
            if self._has_missed and self._tail.start - first <= _MAX_METADATA_BYTES:
                self._tail = yield from self._tail.extended(first)
            self._has_missed = True
        found = yield from self._tail.all_at(places)
        return [data.tobytes() for data in found]

    def _parse(self, index: int, data: bytes) -> Column:
        try:
            pages = ColumnPages.parse(
                data, self.source.size, self.version, self._caches.descriptions
            )
            known = self._elements
            elements = known[index] if index < len(known) else 1
            column = Column(self.source.path, index, pages, self._caches, elements)
        except CorruptFileError as error:
            raise error.at(f"column {index}").at(self.source.path) from None
        if column.num_rows != self.num_rows:
            raise CorruptFileError(
                f"rows: expected {self.num_rows}, found {column.num_rows}",
                f"column {index}",
                self.source.path,
            )
        return column

    def global_buffer(self, index: int) -> bytes:
        """Read a global buffer; 0 is the file descriptor.

        Raises:
            IndexError: If there is none of this number.
        """
        return self.source.read(Ranges.of(self.global_buffers[index]))[0].tobytes()
