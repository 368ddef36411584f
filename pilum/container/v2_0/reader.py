"""Open files of version 2.0, which have the container of later versions but other columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from pilum.container.reader import ContainerReader
from pilum.container.v2_0.columns import Column
from pilum.container.v2_0.metadata import parse_column
from pilum.encodings.v2_0.choose import is_packed
from pilum.format.schema import Field, FieldId

__all__ = ["PagedFileReader", "column_owners"]


def column_owners(field: Field) -> Iterator[Field]:
    """Yield the fields that own columns, in column order: all but members of packed structs."""
    yield field
    if field.is_list or not is_packed(field.metadata):
        for child in field.children:
            yield from column_owners(child)


class PagedFileReader(ContainerReader[Column]):
    """An open file of version 2.0: structs and lists are columns, too."""

    @cached_property
    def column_ids(self) -> tuple[FieldId, ...]:
        """The field of each column; early writers added columns without a field."""
        numbers = tuple(self._field_columns)
        return numbers if len(numbers) == self.num_columns else ()

    def field_columns(self) -> Mapping[FieldId, int]:
        """Return the number of the column of each field of the schema that has one."""
        return self._field_columns

    @cached_property
    def _field_columns(self) -> Mapping[FieldId, int]:
        owners = (owner for field in self.schema.fields for owner in column_owners(field))
        return {owner.id: number for number, owner in enumerate(owners)}

    def _parse(self, index: int, data: bytes) -> Column:
        return Column(self.source.path, index, parse_column(data, self.source.size))
