"""Schemas with columns dropped, altered or added: pure functions of field trees.

    "a"        a column
    "s.x"      member x of the struct s
    "l.item"   item of the list l; "l.item.x" is a member of structs in a list

Source: docs/format/table.md, "Columns come and go".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from pilum.errors import (
    ColumnNotFoundError,
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from pilum.format.fields import Field, FieldId
from pilum.format.schema import Schema
from pilum.table.changes.cast import is_castable
from pilum.table.model.manifest import Manifest
from pilum.table.write.align import new_schema, require_unreserved

__all__ = [
    "Alteration",
    "Altered",
    "altered",
    "find_path",
    "first_free_id",
    "needing_values",
    "with_missing_columns",
    "with_new_columns",
    "without",
]

_OF_TYPE = "ARROW:extension:"
_Wanted: TypeAlias = dict[FieldId, tuple[Field, "Alteration"]]


@dataclass(frozen=True, slots=True)
class Alteration:
    """A change of one column.

    Attributes:
        path: Path of the column, before any change.
        name: The new last part of the path; None keeps it.
        nullable: Whether the column is nullable; None keeps it.
        arrow_type: The new type of the values; None keeps it.
    """

    path: str
    name: str | None = None
    nullable: bool | None = None
    arrow_type: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Altered:
    """A schema after alterations; `origins` has the old fields of retyped ones by the new ids."""

    schema: Schema
    origins: Mapping[FieldId, Field]

    @property
    def new(self) -> Schema:
        """Return the fields that a new file contains: those with new ids, and their parents."""
        kept = (_with_only(field, self.origins.keys()) for field in self.schema.fields)
        return Schema(tuple(field for field in kept if field is not None))


def find_path(schema: Schema, path: str) -> tuple[Field, ...]:
    """Return the fields from a column down to the one that a path names.

    Raises:
        ColumnNotFoundError: If the path leads nowhere.
        UnsupportedFeatureError: If the path leads into a value that is stored as a whole.
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
    """Return the schema without some columns; parents without members are dropped too.

    InvalidInputError is raised if no column is left; other errors are as `find_path`.
    """
    dropped = {find_path(schema, path)[-1].id for path in paths}
    kept = (_without(field, dropped) for field in schema.fields)
    fields = tuple(field for field in kept if field is not None)
    if not fields:
        raise InvalidInputError("all columns would be removed; a table needs at least one")
    return Schema(fields, schema.metadata)


def _without(field: Field, dropped: set[FieldId]) -> Field | None:
    if field.id in dropped:
        return None
    if dropped.isdisjoint(field.ids):
        return field
    kept = (_without(child, dropped) for child in field.children)
    children = tuple(child for child in kept if child is not None)
    return replace(field, children=children) if children else None


def altered(manifest: Manifest, alterations: Iterable[Alteration]) -> Altered:
    """Return the schema with new names, nullability and types; ids change only with types.

    The errors are those of `LanceDataset.alter_columns`.
    """
    schema = manifest.schema
    wanted = _by_id(schema, alterations)
    ids = iter(range(first_free_id(manifest), 2**31))
    retyped = {
        number: _retyped(field, change, ids)
        for number, (field, change) in wanted.items()
        if change.arrow_type is not None
    }
    columns = tuple(_altered(field, wanted, retyped) for field in schema.fields)
    result = Schema(columns, schema.metadata)
    require_unreserved(result.names)
    _require_names(result.fields, "")
    return Altered(result, {made.id: wanted[number][0] for number, made in retyped.items()})


def _by_id(schema: Schema, alterations: Iterable[Alteration]) -> _Wanted:
    """Return fields and their changes, by their ids and in the requested order."""
    wanted: _Wanted = {}
    for change in alterations:
        fields = find_path(schema, change.path)
        field = fields[-1]
        if field.id in wanted:
            raise InvalidInputError(f"column {change.path!r} comes twice")
        if change.name is not None and len(fields) > 1 and not fields[-2].is_struct:
            raise UnsupportedFeatureError(f"column {change.path!r} is an item, which has no name")
        kept = change if _changes_type(field, change) else replace(change, arrow_type=None)
        wanted[field.id] = field, kept
    for field, change in wanted.values():
        if change.arrow_type is not None and not wanted.keys().isdisjoint(field.ids[1:]):
            raise InvalidInputError(
                f"column {change.path!r} gets another type, so its members go with it"
            )
    return wanted


def _changes_type(field: Field, change: Alteration) -> bool:
    """Return whether a field gets another type; check that the type is allowed."""
    if change.arrow_type is None:
        return False
    if not isinstance(change.arrow_type, pa.DataType):
        raise InvalidInputError(f"data_type: expected a pyarrow type, found {change.arrow_type!r}")
    if field.arrow_type == change.arrow_type:
        return False
    if (
        field.blob_version
        or field.is_packed
        or not is_castable(field.arrow_type, change.arrow_type)
    ):
        raise SchemaMismatchError(
            f"column {change.path!r} cannot change from {field.arrow_type} to {change.arrow_type}"
        )
    return True


def _require_names(fields: tuple[Field, ...], above: str) -> None:
    names = [field.name for field in fields]
    for name in names:
        if not name or "." in name:
            raise InvalidInputError(f"a column cannot be named {above + name!r}: empty, or a dot")
        if names.count(name) > 1:
            raise InvalidInputError(f"two columns would be named {above + name!r}")
    for field in fields:
        _require_names(field.children, f"{above}{field.name}.")


def _altered(field: Field, wanted: _Wanted, retyped: Mapping[FieldId, Field]) -> Field:
    if field.id in retyped:
        return retyped[field.id]
    if wanted.keys().isdisjoint(field.ids):
        return field
    _, change = wanted.get(field.id, (field, Alteration(field.name)))
    return replace(
        field,
        children=tuple(_altered(child, wanted, retyped) for child in field.children),
        name=field.name if change.name is None else change.name,
        nullable=field.nullable if change.nullable is None else change.nullable,
    )


def _retyped(field: Field, change: Alteration, ids: Iterator[int]) -> Field:
    name = field.name if change.name is None else change.name
    nullable = field.nullable if change.nullable is None else change.nullable
    made = Field.from_arrow(pa.field(name, change.arrow_type, nullable), ids)
    return replace(made, metadata=_lasting(field.metadata))


def _lasting(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata of a field that are also valid for another type."""
    return {key: text for key, text in metadata.items() if not key.startswith(_OF_TYPE)}


def _with_only(field: Field, ids: Collection[FieldId]) -> Field | None:
    """Return the field with the members that have the given ids and their parents, or None."""
    if field.id in ids:
        return field
    kept = (_with_only(child, ids) for child in field.children)
    children = tuple(child for child in kept if child is not None)
    return replace(field, children=children) if children else None


def first_free_id(manifest: Manifest) -> int:
    """Return the first id for new fields, above all ids that the schema or a file uses.

    Ids of dropped columns count, because their values are still in the files. In tables that never
    reuse ids, all ids ever used count.
    """
    in_files = (
        number
        for fragment in manifest.fragments
        for file in fragment.all_files
        for number in file.fields
    )
    ever = -1 if manifest.max_allocated_field_id is None else manifest.max_allocated_field_id
    return max(ever, manifest.schema.max_field_id, max(in_files, default=-1)) + 1


def with_new_columns(manifest: Manifest, columns: pa.Schema) -> tuple[Schema, Schema]:
    """Return the schema of the table with more columns, and the schema of the new ones alone.

    An existing struct gets the members that it lacks. SchemaMismatchError is raised if a name is
    taken; other errors are as `new_schema`.
    """
    new_schema(columns)  # for its checks
    old = manifest.schema
    ids = iter(range(first_free_id(manifest), 2**31))
    fields, new = _grown(old.fields, list(columns), ids, "")
    return Schema(fields, old.metadata), Schema(new)


def with_missing_columns(manifest: Manifest, incoming: pa.Schema) -> Schema:
    """Return the schema of the table with the additional columns and members of incoming rows.

    InvalidInputError is raised if a new column is not nullable, because existing rows are null
    there; other errors are as `new_schema`.
    """
    old = manifest.schema
    more = [*filter(None, (_missing(field, old.by_name.get(field.name)) for field in incoming))]
    if not more:
        return old
    schema, new = with_new_columns(manifest, pa.schema(more))
    if needy := needing_values(old, new):
        raise InvalidInputError(
            f"new columns must be nullable, as rows that are there have no values: {needy}"
        )
    return schema


def needing_values(old: Schema, new: Schema) -> list[str | None]:
    """Return the paths of new columns and members that existing rows cannot be without.

    Members of a new column are null together with it, whether they are nullable or not.
    """
    added = [field for field in new.walk() if old.find(field.id) is None]
    below = {child.id for field in added for child in field.children}
    needy = (field for field in added if not field.nullable and field.id not in below)
    return [new.path(field.id) for field in needy]


def _missing(field: pa.Field, known: Field | None) -> pa.Field | None:
    """Return what a table lacks of an incoming column; None if nothing."""
    if known is None:
        return field
    if not known.is_struct or known.is_leaf or not pa.types.is_struct(field.type):
        return None
    members = {child.name: child for child in known.children}
    more = [*filter(None, (_missing(one, members.get(one.name)) for one in field.type))]
    return pa.field(field.name, pa.struct(more)) if more else None


def _grown(
    fields: tuple[Field, ...], more: Iterable[pa.Field], ids: Iterator[int], above: str
) -> tuple[tuple[Field, ...], tuple[Field, ...]]:
    """Return the grown fields, and the added fields alone with their parents."""
    grown = {field.name: field for field in fields}
    new: list[Field] = []
    for field in more:
        known = grown.get(field.name)
        if known is None:
            made = grown[field.name] = Field.from_arrow(field, ids, above)
            new.append(made)
            continue
        path = above + field.name
        is_grown = pa.types.is_struct(field.type) and field.type.num_fields
        if not known.is_struct or known.is_leaf or not is_grown:
            raise SchemaMismatchError(f"the table has a column {path!r} already")
        children, made_children = _grown(known.children, list(field.type), ids, f"{path}.")
        grown[field.name] = replace(known, children=children)
        new.append(replace(known, children=made_children))
    return tuple(grown.values()), tuple(new)
