"""What a manifest says of the columns of a data file, compared with what the file says itself.

A file has a schema, with the ids that its fields had when it was written:

    manifest   field 0 "a"  ->  column 1          file   column 0   field 0 "a" int32
               field 1 "b"  ->  column 0                 column 1   field 1 "b" int32

Names change, and files that others wrote have ids of their own. So only what leaves no doubt is
damage: a field whose id, name and type the file has in another column than the manifest says, and
a column whose values are of another type. Source: docs/format/table.md, "Fragments".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pilum.container.segments import DataFileReader
from pilum.errors import CorruptFileError
from pilum.format.logical_types import PLAIN_TYPES
from pilum.format.schema import Field, FieldId
from pilum.format.version import FileVersion

__all__ = ["require_absence", "require_agreement"]

_LIKE = {"large_string": "string", "large_binary": "binary"}


def require_agreement(field: Field, columns: Mapping[FieldId, int], reader: DataFileReader) -> None:
    """Check the columns that a manifest names for a field.

    Args:
        field: As the table has it.
        columns: The column of each id in the field that the file is said to hold.
        reader: The file.

    Raises:
        CorruptFileError: If the file has another column of the field, or another type.
    """
    if reader.version is FileVersion.LEGACY:
        return  # its columns are found by their ids
    if reader.schema.find(field.id) is field and _are_own(columns, reader):
        return
    places = reader.field_columns()
    by_column = {column: number for number, column in places.items()}
    for member in field.walk():
        column = columns.get(member.id)
        if column is None:
            continue
        if _own_place(member, reader) not in (None, column):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}): the manifest says column {column}, "
                f"the file column {places[member.id]}",
                reader.source.path,
            )
        found = reader.schema.find(by_column.get(column, member.id))
        if found is not None and not _are_alike(member, found):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}): the manifest says "
                f"{member.logical_type}, the file {found.logical_type}",
                reader.source.path,
            )


def require_absence(members: Iterable[Field], reader: DataFileReader) -> None:
    """Check that a file lacks fields that the manifest lists for no file of the fragment.

    Raises:
        CorruptFileError: If it has one.
    """
    if reader.version is FileVersion.LEGACY:
        return
    for member in members:
        if (place := _own_place(member, reader)) is not None:
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}) is in column {place} of the file, "
                "but the manifest does not list it",
                reader.source.path,
            )


def _own_place(member: Field, reader: DataFileReader) -> int | None:
    """The column in which the file has this very field, None if it has none."""
    own = reader.schema.find(member.id)
    if own is None or own.name != member.name or own.logical_type != member.logical_type:
        return None
    return reader.field_columns().get(member.id)


def _are_own(columns: Mapping[FieldId, int], reader: DataFileReader) -> bool:
    own = reader.field_columns()
    return all(own.get(number) == column for number, column in columns.items())


def _are_alike(one: Field, other: Field) -> bool:
    """Whether values of one type may be read as the other, as far as types have no parameters."""
    if not {one.logical_type, other.logical_type} <= PLAIN_TYPES:
        return True
    return _LIKE.get(one.logical_type, one.logical_type) == _LIKE.get(
        other.logical_type, other.logical_type
    )
