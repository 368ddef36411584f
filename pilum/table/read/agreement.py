"""Checks that the columns of a data file agree with what the manifest says about them.

A file has its own schema, with the ids that its fields had when it was written:

    manifest   field 0 "a"  ->  column 1          file   column 0   field 0 "a" int32
               field 1 "b"  ->  column 0                 column 1   field 1 "b" int32

Names change, and files from other writers have their own ids. Therefore only unambiguous
contradictions count as damage: the file has a field of the same id, name and type in another column
than the manifest says, or a column whose values have another type. Source: docs/format/table.md,
"Fragments".
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import repeat

from pilum.container.segments import DataFileReader
from pilum.errors import CorruptFileError
from pilum.format.schema import DESCRIPTOR_ID, Field, FieldId, Schema
from pilum.format.types import PLAIN_TYPES
from pilum.format.version import FileVersion

__all__ = ["Agreement", "require_absence"]

_LIKE = {"large_string": "string", "large_binary": "binary"}
_NO_COLUMN = -1
"""Column number for files before 2.0, which have no numbered columns."""
_MANY = 8192
"""Maximum number of kept results."""


class Agreement:
    """Results of comparisons, which are kept because most files share a schema and a field list.

    They are found by the identity of the compared objects. The objects are kept with the result, so
    that no other object can get their identity.
    """

    def __init__(self) -> None:
        self._columns: dict[tuple[tuple[FieldId, ...], tuple[int, ...]], Mapping[FieldId, int]] = {}
        self._agreed: dict[tuple[int, int, int], tuple[Field, Schema, Mapping[FieldId, int]]] = {}

    def columns(
        self, fields: tuple[FieldId, ...], indices: tuple[int, ...]
    ) -> Mapping[FieldId, int]:
        """Return the column of each field that the manifest lists for a file."""
        key = fields, indices
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= _MANY:
                self._columns.clear()
            found = dict(zip(fields, indices or repeat(_NO_COLUMN), strict=False))
            self._columns[key] = found
        return found

    def require(
        self, field: Field, column_of: Mapping[FieldId, int], reader: DataFileReader
    ) -> None:
        """Check the columns that the manifest lists for a field of the table's schema.

        `column_of` is the result of `columns` for the file. CorruptFileError is raised if the file
        has the field in another column, or with another type.
        """
        if reader.version is FileVersion.LEGACY:
            return  # its columns are found by their ids
        schema = reader.schema
        key = id(field), id(schema), id(column_of)
        if key in self._agreed:
            return
        _require_place(field, schema.fields, reader)
        for member in field.walk():
            if member.id in column_of:
                _require_agreement(member, column_of[member.id], reader)
        if len(self._agreed) >= _MANY:
            self._agreed.clear()
        self._agreed[key] = field, schema, column_of


def _require_place(field: Field, siblings: Sequence[Field], reader: DataFileReader) -> None:
    """Check that fields have the same parents in the file; fields never change their parent."""
    own = reader.schema.find(field.id)
    if own is None or own.name != field.name:
        return
    if not any(own is sibling for sibling in siblings):
        raise CorruptFileError(
            f"field {field.name!r} (id {field.id}) is a member of another field in the file",
            reader.source.path,
        )
    for child in field.children:
        _require_place(child, own.children, reader)


def _require_agreement(member: Field, column: int, reader: DataFileReader) -> None:
    found, numbers = reader.schema.find(member.id), reader.column_ids
    if numbers:
        if _has(reader, member) and reader.field_columns().get(member.id) not in (None, column):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}): the manifest says column {column}, "
                f"the file column {reader.field_columns()[member.id]}",
                reader.source.path,
            )
        found = reader.schema.find(numbers[column]) if 0 <= column < len(numbers) else None
    elif found is not None and found.name != member.name:
        found = None
    if found is not None and not _are_alike(member, found):
        raise CorruptFileError(
            f"field {member.name!r} (id {member.id}): the manifest says {member.logical_type}, "
            f"the file {found.logical_type}",
            reader.source.path,
        )


def require_absence(field: Field, missing: Container[FieldId], reader: DataFileReader) -> None:
    """Raise CorruptFileError if a file contains fields that the manifest lists for no file.

    `missing` are the ids of such fields, out of the given field and its members.
    """
    if reader.version is FileVersion.LEGACY:
        return
    own = reader.field_columns()
    for member in _listed(field, reader.version):
        if member.id in missing and member.id in own and _has(reader, member):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}) is in the file, but the manifest does "
                "not list it",
                reader.source.path,
            )


def _listed(field: Field, version: FileVersion) -> Iterator[Field]:
    """Yield the field and its members, except those that the reference does not list in 2.0."""
    yield field
    if field.list_size is None or version is not FileVersion.V2_0:
        for child in field.children:
            yield from _listed(child, version)


def _has(reader: DataFileReader, member: Field) -> bool:
    """Return whether the file has a field of the same id, name and type."""
    own = reader.schema.find(member.id)
    if own is None:
        return False
    return own.name == member.name and own.logical_type == member.logical_type


def _are_alike(one: Field, other: Field) -> bool:
    """Return whether values of one type may be read as the other, ignoring parameters of types."""
    types = {_LIKE.get(field.logical_type, field.logical_type) for field in (one, other)}
    if len(types) == 1 or not types & PLAIN_TYPES:
        return True
    return not types <= PLAIN_TYPES and any(map(_has_two_forms, (one, other)))


def _has_two_forms(field: Field) -> bool:
    """Return whether files may store a field with another type: blobs and dictionaries."""
    is_described = any(child.id == DESCRIPTOR_ID for child in field.children)
    return is_described or field.blob_version > 0 or field.logical_type.startswith("dict:")
