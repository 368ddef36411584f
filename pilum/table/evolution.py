"""Schemas with columns fewer, altered or more: pure functions of field trees.

    "a"        a column
    "s.x"      member x of the struct s
    "l.item"   item of the list l; "l.item.x" is a member of structs in a list

Source: docs/format/table.md, "Columns come and go".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from pilum.format.schema import Field, FieldId, Schema
from pilum.table.align import new_schema, require_unreserved
from pilum.table.manifest import Manifest

__all__ = ["Alteration", "altered", "find_path", "with_new_columns", "without"]


@dataclass(frozen=True, slots=True)
class Alteration:
    """What is to change about one column.

    Attributes:
        path: Of the column, before any change.
        name: The last part of the path from now on; None keeps it.
        nullable: Whether there may be nulls; None keeps it.
    """

    path: str
    name: str | None = None
    nullable: bool | None = None


def find_path(schema: Schema, path: str) -> tuple[Field, ...]:
    """The fields from a column down to what a path names.

    Raises:
        ColumnNotFoundError: If the path leads nowhere.
        UnsupportedFeatureError: If it leads into something that is stored as one.
    """
    names = [path] if path in schema.names else path.split(".")
    found = [schema.field(names[0])]
    for name in names[1:]:
        above = found[-1]
        if above.children and (above.is_leaf or above.is_map):
            raise UnsupportedFeatureError(
                f"column {path!r}: {above.name!r} is a map, or stored as one column; "
                "its members cannot be changed alone"
            )
        member = next((child for child in above.children if child.name == name), None)
        if member is None:
            raise ColumnNotFoundError(
                f"no column {path!r}: {above.name!r} has {[child.name for child in above.children]}"
            )
        found.append(member)
    return tuple(found)


def without(schema: Schema, paths: Iterable[str]) -> Schema:
    """The schema without some columns; what has no member left goes with them.

    Raises:
        ColumnNotFoundError: If a path leads nowhere.
        InvalidInputError: If no column is left.
    """
    dropped = {find_path(schema, path)[-1].id for path in paths}
    kept = (_without(field, dropped) for field in schema.fields)
    fields = tuple(field for field in kept if field is not None)
    if not fields:
        raise InvalidInputError("all columns would go; a table needs at least one")
    return Schema(fields, schema.metadata)


def _without(field: Field, dropped: set[FieldId]) -> Field | None:
    if field.id in dropped:
        return None
    if dropped.isdisjoint(field.ids):
        return field
    kept = (_without(child, dropped) for child in field.children)
    children = tuple(child for child in kept if child is not None)
    return replace(field, children=children) if children else None


def altered(schema: Schema, alterations: Iterable[Alteration]) -> Schema:
    """The schema with other names and nullability; ids stay.

    Raises:
        ColumnNotFoundError: If a path leads nowhere.
        InvalidInputError: If a name is not allowed or taken, or a column comes twice.
        UnsupportedFeatureError: For items of lists and the like, whose names mean nothing.
    """
    wanted: dict[FieldId, Alteration] = {}
    for change in alterations:
        fields = find_path(schema, change.path)
        if fields[-1].id in wanted:
            raise InvalidInputError(f"column {change.path!r} comes twice")
        if change.name is not None and len(fields) > 1 and not fields[-2].is_struct:
            raise UnsupportedFeatureError(f"column {change.path!r} is an item, which has no name")
        wanted[fields[-1].id] = change
    result = Schema(tuple(_altered(field, wanted) for field in schema.fields), schema.metadata)
    require_unreserved(result.names)
    _require_names(result.fields, "")
    return result


def _require_names(fields: tuple[Field, ...], above: str) -> None:
    names = [field.name for field in fields]
    for name in names:
        if not name or "." in name:
            raise InvalidInputError(f"a column cannot be named {above + name!r}: empty, or a dot")
        if names.count(name) > 1:
            raise InvalidInputError(f"two columns would be named {above + name!r}")
    for field in fields:
        _require_names(field.children, f"{above}{field.name}.")


def _altered(field: Field, wanted: Mapping[FieldId, Alteration]) -> Field:
    if wanted.keys().isdisjoint(field.ids):
        return field
    children = tuple(_altered(child, wanted) for child in field.children)
    change = wanted.get(field.id, Alteration(field.name))
    return replace(
        field,
        children=children,
        name=field.name if change.name is None else change.name,
        nullable=field.nullable if change.nullable is None else change.nullable,
    )


def with_new_columns(manifest: Manifest, columns: pa.Schema) -> tuple[Schema, Schema]:
    """The schema of the table with more columns, and that of the new ones alone.

    Their ids are above all that a file of the version has: of dropped columns, too, since their
    values are still there.

    Raises:
        SchemaMismatchError: If a name is taken.
        InvalidInputError: For names that are reserved, repeated or contain a dot, or no columns.
        UnsupportedTypeError: For a type that the format has no name for.
    """
    new_schema(columns)  # for what it refuses
    old = manifest.schema
    if taken := [name for name in columns.names if name in old.names]:
        raise SchemaMismatchError(f"the table has columns {', '.join(map(repr, taken))} already")
    in_files = (
        number
        for fragment in manifest.fragments
        for file in fragment.files
        for number in file.fields
    )
    first = max(old.max_field_id, max(in_files, default=-1)) + 1
    new = Schema.from_arrow(columns, first)
    return Schema((*old.fields, *new.fields), old.metadata), Schema(new.fields)
