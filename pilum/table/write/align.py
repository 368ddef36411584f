"""Align incoming data with a table: select its columns, and bring each batch to their types.

    table     a: int32   s: string   p: struct<x: int64, y: string>
    incoming  p: struct<y: string>   a: int32
    file      p: struct<y>  (field 4 below field 2)   a  (field 0)       s and p.x are null

Columns come in any order, and nullable ones may be missing at any depth. Types must be the same, or
another Arrow form of the same values (`pilum.table.write.forms`). What the format does not store
may differ: the name of a list's item or of a map's key and value, whether a dictionary is ordered,
and whether nulls are declared (that there are none where the table forbids them is checked in the
values). Columns of an extension type also accept plain storage, because Spark has no extension
types.

Data files that another writer wrote are matched in the same way, but keep their bytes: their
columns are found by name, each must have the type that the table has, and the entry in the manifest
says which column has which field.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import retyped, with_members
from pilum.blocks import list_items
from pilum.container.open import open_file
from pilum.errors import (
    InvalidInputError,
    SchemaMismatchError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from pilum.format.fields import Field, FieldId
from pilum.format.meta_columns import META_COLUMNS
from pilum.format.schema import Schema
from pilum.format.types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    logical_type,
    restored_schema,
    stored_metadata,
)
from pilum.format.version import FileVersion
from pilum.table.model.base_paths import data_file_place
from pilum.table.model.fragment import DataFile
from pilum.table.read.json_columns import with_binary_json
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.blob_inputs import blob_field
from pilum.table.write.forms import converted, table_form

__all__ = [
    "Alignment",
    "adopted_file",
    "align",
    "new_schema",
    "require_sound_keys",
    "require_unreserved",
    "without_views",
]


@dataclass(frozen=True, slots=True)
class Alignment:
    """A conversion of incoming batches to the columns of a table's files.

    `schema` has the fields of the table that the data has, in the order of the data.
    """

    schema: Schema

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the types of `schema.arrow`; copy only columns of another form.

        SchemaMismatchError is raised if a non-nullable value is null, or the columns are not those
        that were announced.
        """
        if self.schema.takes(batch):
            return batch
        fields = self.schema.fields
        if batch.schema.names != self.schema.names:
            raise SchemaMismatchError(
                f"expected a batch with the columns {self.schema.names}, found {batch.schema.names}"
            )
        columns = [
            column if field.takes(column) else _conform(column, given, field)
            for column, given, field in zip(batch.columns, batch.schema, fields, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow)


def new_schema(incoming: pa.Schema, first_id: int = 0) -> Schema:
    """Return the schema of a new table, with fresh field ids from `first_id` on.

    Raises:
        InvalidInputError: If a name is reserved, repeated or contains a dot, if there are no
            columns, or if the primary key is nullable.
        UnsupportedTypeError: If the format has no name for a type.
    """
    require_unreserved(incoming.names)
    if not incoming.names:
        raise InvalidInputError("a table needs at least one column")
    schema = Schema.from_arrow(incoming, first_id)
    require_sound_keys(schema)
    return schema


def require_unreserved(names: Iterable[str]) -> None:
    """Raise InvalidInputError if the format reserves a name of a top-level column."""
    if reserved := sorted(set(META_COLUMNS).intersection(names)):
        raise InvalidInputError(f"column names are reserved: {', '.join(reserved)}")


def align(incoming: pa.Schema, table: Schema) -> Alignment:
    """Align the schema of incoming data with that of the table.

    Raises:
        SchemaMismatchError: If a column is unknown, has another type, or is missing though it is
            not nullable.
        InvalidInputError: If a column comes twice.
    """
    if table.is_plain and incoming.remove_metadata().equals(
        table.arrow.remove_metadata(), check_metadata=True
    ):
        return Alignment(table)
    fields = _matched(list(incoming), table.fields, "")
    if not fields:
        raise SchemaMismatchError(f"the data has no columns; the table has {table.names}")
    return Alignment(Schema(fields, table.metadata))


def _matched(incoming: list[pa.Field], fields: tuple[Field, ...], prefix: str) -> tuple[Field, ...]:
    by_name = {field.name: field for field in fields}
    names = [field.name for field in incoming]
    present = set(names)
    for name in names:
        if name not in by_name:
            raise SchemaMismatchError(
                f"the table has no column {prefix + name!r}; it has {[*by_name]}"
            )
    if len(present) != len(names):
        raise InvalidInputError(f"columns come twice: {[prefix + name for name in names]}")
    for field in fields:
        if not field.nullable and field.name not in present:
            raise SchemaMismatchError(
                f"column {prefix + field.name!r} is missing, and it must not be null"
            )
    return tuple(_matched_field(item, by_name[item.name], prefix) for item in incoming)


def _matched_field(incoming: pa.Field, field: Field, prefix: str) -> Field:
    if field.is_plain and not incoming.metadata and incoming.type == field.arrow_type:
        return field  # the common case; tables may have thousands of fields
    path = prefix + field.name
    arrow = _storage(incoming.type)
    if field.is_json and _may_be_json(incoming, arrow):
        return field
    arrow = _form(arrow, field)
    _require_type(arrow, field, path)
    _require_extension(incoming, field, path)
    if field.blob_version == 2:
        return blob_field(arrow, field, path)
    if field.is_struct:
        members = [arrow.field(index) for index in range(arrow.num_fields)]
        return replace(field, children=_matched(members, field.children, f"{path}."))
    if field.is_map:
        pairs = zip((arrow.key_field, arrow.item_field), field.item.children, strict=True)
        matched = tuple(_matched_field(item, child, f"{path}.") for item, child in pairs)
        return replace(field, children=(replace(field.item, children=matched),))
    if field.is_list or field.list_size is not None:
        item = _matched_field(arrow.value_field, field.item, f"{path}.")
        return replace(field, children=(item,))
    return field


def _form(arrow: pa.DataType, field: Field) -> pa.DataType:
    """Return the type in the form of the table; blobs and JSON are no other forms of bytes."""
    if arrow == field.arrow_type:
        return arrow
    if any(inner.is_json or inner.blob_version for inner in field.walk()):
        return without_views(arrow)
    return table_form(arrow, field.arrow_type)


def without_views(arrow: pa.DataType) -> pa.DataType:
    """Return the type with plain strings and binary for views, at any depth."""
    if arrow == pa.string_view():
        return pa.string()
    if arrow == pa.binary_view():
        return pa.binary()
    if pt.is_dictionary(arrow):
        return pa.dictionary(arrow.index_type, without_views(arrow.value_type), arrow.ordered)
    return with_members(arrow, lambda field: field.with_type(without_views(field.type)))


def _may_be_json(incoming: pa.Field, arrow: pa.DataType) -> bool:
    """Return whether a column is text, or large binary that is marked as JSON.

    Text must have the extension type arrow.json, or none.
    """
    name = stored_metadata(incoming).get(EXTENSION_NAME)
    if pt.is_large_binary(arrow):
        return name == "lance.json"
    return name in {None, "arrow.json"} and (pt.is_string(arrow) or pt.is_large_string(arrow))


def _require_type(arrow: pa.DataType, field: Field, path: str) -> None:
    try:
        found = logical_type(arrow)
    except UnsupportedTypeError:
        found = str(arrow)
    if found != field.logical_type:
        raise SchemaMismatchError(
            f"column {path!r} of the table has the type {field.logical_type}, the data has {found}"
        )


def _require_extension(incoming: pa.Field, field: Field, path: str) -> None:
    """Check that an extension column gets its plain storage or the same extension type."""
    found, known = _extension(incoming), _extension(field.arrow)
    if not found or found == known or field.blob_version == 2:
        return
    # The writer of the table may have spelled the parameters in another way.
    if found != _extension(restored_schema(pa.schema([field.arrow])).field(0)):
        raise SchemaMismatchError(
            f"column {path!r} of the table has {known or 'no extension type'}, the data has "
            f"{found}; add its storage if the values mean the same"
        )


def _extension(field: pa.Field) -> str:
    metadata = stored_metadata(field)
    if EXTENSION_NAME not in metadata:
        return ""
    return f"the extension type {metadata[EXTENSION_NAME]} {metadata.get(EXTENSION_METADATA, '')}"


def _storage(arrow: pa.DataType) -> pa.DataType:
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def _conform(column: pa.Array, given: pa.Field, field: Field) -> pa.Array:
    _require_announced(given, field)
    column = with_binary_json(field, column)
    if column.type != field.arrow_type:
        form = _form(column.type, field)
        if form != column.type:
            column = converted(column, form, field.name)
        column = retyped(column, field.arrow_type)
    for path, num_nulls in _forbidden_nulls(column, field, 0, field.name):
        raise SchemaMismatchError(f"column {path!r} must not be null, but {num_nulls} values are")
    return column


def _require_announced(given: pa.Field, field: Field) -> None:
    """Check a column that was not checked with the schema: its buffers are used as they are."""
    if field.is_json and pt.is_large_binary(given.type):
        return  # stored values
    if any(inner.blob_version == 2 for inner in field.walk()):
        return  # converted before, see `with_blobs_v2`
    if _matched_field(given, field, "") != field:
        raise SchemaMismatchError(
            f"column {field.name!r}: expected a batch with {field.arrow_type}, found {given.type}"
        )


def _forbidden_nulls(
    column: pa.Array, field: Field, inherited: int, path: str
) -> Iterator[tuple[str, int]]:
    """Yield paths and counts of nulls that are neither allowed nor inherited from a struct."""
    if not field.nullable and column.null_count > inherited:
        yield path, column.null_count - inherited
    if not field.children or all(inner.nullable for inner in field.walk()):
        return
    if field.is_struct:
        for member, child in zip(column.flatten(), field.children, strict=True):
            yield from _forbidden_nulls(member, child, column.null_count, f"{path}.{child.name}")
    elif field.is_list or field.list_size is not None:
        yield from _forbidden_nulls(list_items(column), field.item, 0, f"{path}.{field.item.name}")


def require_sound_keys(schema: Schema) -> None:
    """Raise InvalidInputError if the primary key can be null, which some readers refuse.

    The key is the columns that are marked in the metadata of the schema; uniqueness is not checked.
    """
    for field in schema.fields:
        if not field.is_plain:
            _require_values(field, field.name, nullable=False)


def _require_values(field: Field, path: str, *, nullable: bool) -> None:
    nullable = nullable or field.nullable
    if field.is_key and nullable:
        raise InvalidInputError(
            f"column {path!r} is in the primary key, so it and what is around it must not be "
            "nullable"
        )
    for child in field.children:
        _require_values(child, f"{path}.{child.name}", nullable=nullable)


def adopted_file(snapshot: Snapshot, path: str, base_id: int | None = None) -> tuple[DataFile, int]:
    """Return the manifest entry for a file below `data/` or a base path, and its number of rows.

    The errors are those of `DataFile.create`.
    """
    store, place = data_file_place(snapshot.store, DataFile(path, (), (), 0, 0, base_id=base_id))
    source = store.source(place)
    try:
        file = open_file(source)
        if file.version is FileVersion.LEGACY:
            raise UnsupportedVersionError(
                f"{place}: files of version 0.1 belong to the table that they were written for"
            )
        columns = file.field_columns()
        pairs = {
            known.id: columns[own.id]
            for field in file.schema.fields
            for own, known in _field_pairs(
                field, snapshot.schema.by_name.get(field.name), field.name
            )
            if own.id in columns
        }
        version = file.version
        entry = DataFile(
            path,
            tuple(map(FieldId, pairs)),
            tuple(pairs.values()),
            version.major,
            version.minor,
            source.size,
            base_id,
        )
        return entry, file.num_rows
    finally:
        source.close()


def _field_pairs(own: Field, known: Field | None, path: str) -> Iterator[tuple[Field, Field]]:
    """Yield each field of the file with the matching field of the table."""
    if known is None:
        raise SchemaMismatchError(f"the table has no column {path!r}")
    mine, theirs = ({child.name: child for child in field.children} for field in (own, known))
    if own.logical_type != known.logical_type or mine.keys() != theirs.keys():
        raise SchemaMismatchError(
            f"column {path!r}: type {own.arrow_type}; the table has {known.arrow_type}"
        )
    yield own, known
    for name, child in mine.items():
        yield from _field_pairs(child, theirs[name], f"{path}.{name}")
