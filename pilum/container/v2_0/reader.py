"""Open files of version 2.0, which have the container of later versions but other columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from pilum.cache import FileCaches
from pilum.container.footer import Tail
from pilum.container.reader import FileReader
from pilum.container.v2_0.columns import Column
from pilum.container.v2_0.metadata import parse_column
from pilum.encodings.v2_0.choose import is_packed
from pilum.errors import CorruptFileError
from pilum.format.schema import Field, FieldId, Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Source

__all__ = ["PagedFileReader", "column_owners"]


def column_owners(field: Field) -> Iterator[Field]:
    """Yield the fields that own columns, in column order: all but members of packed structs."""
    yield field
    if field.is_list or not is_packed(field.metadata):
        for child in field.children:
            yield from column_owners(child)


_PARSED_FACTOR = 8
"""Bytes in memory per byte of serialised metadata, once these are parsed."""


class PagedFileReader:
    """An open file. Safe to use from several threads.

    Attributes:
        container: Reader of its footer, tables and schema.
    """

    def __init__(self, container: FileReader) -> None:
        self.container = container
        self._columns: dict[int, Column] = {}
        self._parsed_bytes = 0

    @classmethod
    def open(
        cls, source: Source, tail: Tail | None = None, caches: FileCaches | None = None
    ) -> PagedFileReader:
        """Read footer and tables; see `FileReader.open`."""
        return cls(FileReader.open(source, tail, caches))

    @property
    def source(self) -> Source:
        """The source of the bytes."""
        return self.container.source

    @property
    def version(self) -> FileVersion:
        """Version of the file."""
        return self.container.version

    @property
    def schema(self) -> Schema:
        """The fields, with the field ids of the table that the file was written for."""
        return self.container.schema

    @property
    def num_rows(self) -> int:
        """Number of rows of the file."""
        return self.container.num_rows

    @property
    def held_bytes(self) -> int:
        """Return the approximate memory that the open file takes."""
        return self.container.held_bytes + _PARSED_FACTOR * self._parsed_bytes

    @cached_property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field of each column; early writers added columns without a field."""
        numbers = tuple(self._field_columns)
        return numbers if len(numbers) == self.container.num_columns else ()

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the number of the column of each field of the schema that has one."""
        return self._field_columns

    @cached_property
    def _field_columns(self) -> Mapping[FieldId, int]:
        owners = (owner for field in self.schema.fields for owner in column_owners(field))
        return {owner.id: number for number, owner in enumerate(owners)}

    def columns(self, indices: Iterable[int]) -> list[Column]:
        """Return columns by number; metadata that were not read before are read together.

        Raises:
            CorruptFileError: If a column does not exist or its metadata are damaged.
        """
        wanted = list(indices)
        missing = [index for index in wanted if index not in self._columns]
        if missing:
            metadata = self.container.column_metadata(missing)
            for index, data in zip(missing, metadata, strict=True):
                self._columns[index] = self._parse(index, data)
                self._parsed_bytes += len(data)
        return [self._columns[index] for index in wanted]

    def _parse(self, index: int, data: bytes) -> Column:
        path = self.source.path
        try:
            return Column(path, index, parse_column(data, self.source.size))
        except CorruptFileError as error:
            raise error.at(f"column {index}").at(path) from None
