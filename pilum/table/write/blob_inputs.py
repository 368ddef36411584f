"""Blobs in the forms that users pass, converted for tables of file version 2.2.

large_binary with the metadata lance-encoding:blob     becomes the struct with data and no URI
struct<data, uri[, position, size]>, lance.blob.v2     stays
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrays import list_offsets, with_members
from pilum.blocks import validity_mask
from pilum.container.blobs import map_blobs
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.blobs import BLOB_V2, GIVEN_V2, PREPARED_V2
from pilum.format.fields import DESCRIPTOR_ID, Field
from pilum.format.schema import Schema
from pilum.format.types import EXTENSION_NAME, stored_metadata
from pilum.storage.open import open_object
from pilum.table.read.blobs import BlobPlace, read_places

__all__ = [
    "blob_field",
    "ingested_batches",
    "schema_with_blobs_v2",
    "schema_without_descriptors",
    "with_all_members",
    "with_blobs_v2",
]

_BLOB = b"lance-encoding:blob"
_EXTENSION_NAME = b"ARROW:extension:name"
_MEMBERS = {
    "data": pa.large_binary(),
    "uri": pa.string(),
    "position": pa.uint64(),
    "size": pa.uint64(),
}
_WHOLE = pa.struct([member.arrow for member in GIVEN_V2])
_OTHERS = [member.arrow_type for member in GIVEN_V2[1:]]
_PREPARED = pa.struct([member.arrow for member in PREPARED_V2])
_SHORT = pa.struct({name: _MEMBERS[name] for name in ("data", "uri")})


def blob_field(arrow: pa.StructType, field: Field, path: str) -> Field:
    """Return a table's blob field with the members that the incoming data has.

    Files contain descriptors, whatever these members are; descriptors that are prepared stay.

    Raises:
        SchemaMismatchError: If the members are not those of a blob.
    """
    if arrow == _PREPARED:
        return replace(field, children=PREPARED_V2)
    found = {member.name: member.type for member in arrow}
    known = all(_MEMBERS.get(name) == kind for name, kind in found.items())
    if not known or not {"data", "uri"} <= found.keys() or len(found) != arrow.num_fields:
        raise SchemaMismatchError(
            f"column {path!r} holds blobs: expected a struct of data, uri, position and size, "
            f"found {arrow}"
        )
    ids = repeat(DESCRIPTOR_ID)
    return replace(field, children=tuple(Field.from_arrow(member, ids) for member in arrow))


def schema_with_blobs_v2(schema: pa.Schema) -> pa.Schema:
    """Return the schema of the result of `with_blobs_v2`."""
    return pa.schema([_field(field) for field in schema], schema.metadata)


def schema_without_descriptors(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a table that gets columns: blobs, where descriptors are prepared."""
    if not any(field.type.num_fields for field in schema):
        return schema  # the common case; tables may have thousands of fields
    return pa.schema([_without_descriptors(field) for field in schema], schema.metadata)


def _without_descriptors(field: pa.Field) -> pa.Field:
    if _is_blob_v2(field) and field.type == _PREPARED:
        return field.with_type(_SHORT)
    return field.with_type(with_members(field.type, _without_descriptors))


def with_blobs_v2(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Convert plain binary columns that are marked as blobs to the form of version 2."""
    schema = schema_with_blobs_v2(reader.schema)
    if schema.equals(reader.schema, check_metadata=True):
        return reader
    return pa.RecordBatchReader.from_batches(schema, _batches(reader, schema))


def with_all_members(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    """Convert top-level blobs of version 2 to the form with all four members.

    Reading the result raises InvalidInputError if a blob is given by a URI.
    """
    schema = pa.schema([_whole(field) for field in reader.schema], reader.schema.metadata)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [
                _with_members(column, field.name) if _is_blob_v2(field) else column
                for field, column in zip(reader.schema, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _is_blob_v2(field: pa.Field) -> bool:
    return bool(stored_metadata(field).get(EXTENSION_NAME) == BLOB_V2)


def _whole(field: pa.Field) -> pa.Field:
    if not _is_blob_v2(field):
        return field
    metadata = {**(field.metadata or {}), _EXTENSION_NAME: BLOB_V2}
    return pa.field(field.name, _WHOLE, field.nullable, metadata)


def _with_members(blobs: pa.Array, name: str) -> pa.Array:
    if isinstance(blobs, pa.ExtensionArray):
        blobs = blobs.storage
    if blobs.type == _PREPARED:
        raise SchemaMismatchError(
            f"column {name!r}: blobs of a merge are given as bytes, not as descriptors"
        )
    if blobs.field("uri").null_count < len(blobs):
        raise InvalidInputError(f"column {name!r}: blobs of a merge are given as bytes, not by URI")
    children = [blobs.field("data"), *(pa.nulls(len(blobs), kind) for kind in _OTHERS)]
    mask = blobs.is_null() if blobs.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(_WHOLE), mask=mask)


def ingested_batches(
    schema: Schema, batches: Iterable[pa.RecordBatch], storage_options: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches in which the bytes at URIs replace the URIs.

    Raises:
        InvalidInputError: If a URI is not absolute; other errors are as `open_store`.
    """
    read = partial(_read_uris, storage_options)
    for batch in batches:
        columns = [
            map_blobs(field, column, read)
            for field, column in zip(schema.fields, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _read_uris(options: Mapping[str, str], field: Field, blobs: pa.Array) -> pa.Array:
    rows = np.flatnonzero(validity_mask(blobs) & validity_mask(blobs.field("uri")))
    if field.blob_version == 1 or len(rows) == 0:
        return blobs
    places = [_place(options, field, blobs[row].as_py()) for row in rows.tolist()]
    found = pa.array(read_places(places), pa.large_binary())
    index = np.arange(len(blobs))
    index[rows] = len(blobs) + np.arange(len(rows))
    data = pa.concat_arrays([blobs.field("data"), found]).take(pa.array(index))
    children = [data, *(pa.nulls(len(blobs), member.type) for member in list(blobs.type)[1:])]
    mask = blobs.is_null() if blobs.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(blobs.type), mask=mask)


def _place(options: Mapping[str, str], field: Field, value: dict[str, Any]) -> BlobPlace:
    if "://" not in value["uri"]:
        raise InvalidInputError(f"column {field.name!r}: {value['uri']!r} is not an absolute URI")
    store, path = open_object(value["uri"], options)
    size = value.get("size")
    whole = size if size is not None else store.source(path).size
    return BlobPlace(store, path, value.get("position") or 0, whole)


def _batches(reader: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        columns = [
            _array(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_marked(field: pa.Field) -> bool:
    is_binary = pt.is_large_binary(field.type) or pt.is_binary(field.type)
    return is_binary and _BLOB in (field.metadata or {})


def _field(field: pa.Field) -> pa.Field:
    if _is_marked(field):
        metadata = {key: value for key, value in field.metadata.items() if key != _BLOB}
        return field.with_type(_SHORT).with_metadata({**metadata, _EXTENSION_NAME: BLOB_V2})
    return field.with_type(_type(field.type))


def _type(kind: pa.DataType) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct([_field(member) for member in kind])
    if pt.is_list(kind) or pt.is_large_list(kind):
        make = pa.list_ if pt.is_list(kind) else pa.large_list
        return make(_field(kind.value_field))
    return kind


def _array(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind, check_metadata=True):
        return array
    mask = array.is_null() if array.null_count else None
    if not pt.is_nested(array.type):
        children = [pc.cast(array, pa.large_binary()), pa.nulls(len(array), pa.string())]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if pt.is_struct(kind):
        children = [_array(array.field(i), member.type) for i, member in enumerate(kind)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    stored = list_offsets(array)
    first, last = stored[0].as_py(), stored[-1].as_py()
    items = _array(array.values.slice(first, last - first), kind.value_type)
    offsets = pa.array(stored.to_numpy() - np.int64(first), stored.type)
    return type(array).from_arrays(offsets, items, type=kind, mask=mask)
