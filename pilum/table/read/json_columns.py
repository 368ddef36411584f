"""JSON columns: text of the extension type arrow.json for users, a binary form in files.

The binary form has sorted keys and 64-bit numbers, so text is returned with the same meaning but
not with the same spelling. Source: docs/format/container.md, "JSON".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum import kernels
from pilum.arrays import retyped
from pilum.blocks import StringBlock, block_of, validity_mask
from pilum.container.mapped import map_fields
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.types import (
    EXTENSION_METADATA,
    EXTENSION_NAME,
    mentions_extensions,
    restored_batches,
    restored_schema,
    restored_table,
)

__all__ = [
    "given_batches",
    "given_schema",
    "given_table",
    "has_json",
    "text_batches",
    "text_schema",
    "with_binary_json",
]

_TEXT = {EXTENSION_NAME: "arrow.json", EXTENSION_METADATA: ""}
_MARK = b"lance.json"
_MAX_TEXT_BYTES = 2**31 - 1


def has_json(field: Field) -> bool:
    """Return whether the field or one of its descendants is JSON."""
    return any(one.is_json for one in field.walk())


def with_binary_json(field: Field, array: pa.Array) -> pa.Array:
    """Convert the JSON text of a column to binary, at any depth; binary values do not change.

    InvalidInputError is raised if a text is not valid JSON.
    """

    def form(leaf: Field, values: pa.Array) -> pa.Array:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        if pt.is_large_binary(values.type):
            return values
        try:
            return _converted(values, pa.large_binary(), kernels.encode_json)
        except ValueError as error:
            raise InvalidInputError(f"column {leaf.name!r} is JSON: {error}") from error

    return map_fields(field, array, _is_json, form) if has_json(field) else array


def given_schema(stored: pa.Schema) -> pa.Schema:
    """Return the schema for users: text for JSON, and extension types known to this process."""
    return restored_schema(_with_text(stored).arrow if _has_json(stored) else stored)


def given_table(table: pa.Table) -> pa.Table:
    """Return the table for users; see `given_schema`."""
    if not _has_json(table.schema):
        return restored_table(table)
    schema = _with_text(table.schema).arrow
    batches = _texts(table.schema, table.to_batches())
    return restored_table(pa.Table.from_batches(batches, schema))


def given_batches(stored: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Return the batches of a stored schema for users; see `given_schema`."""
    if not _has_json(stored):
        return restored_batches(stored, batches)
    return restored_batches(_with_text(stored).arrow, _texts(stored, batches))


def text_schema(stored: pa.Schema) -> pa.Schema:
    """Return the schema with text for JSON; extension types remain as storage."""
    return _with_text(stored).arrow if _has_json(stored) else stored


def text_batches(stored: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    """Return batches of a stored schema with text for JSON; see `text_schema`."""
    return _texts(stored, batches) if _has_json(stored) else batches


def _texts(stored: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
    fields, schema = _fields(stored), _with_text(stored).arrow
    for batch in batches:
        columns = [
            retyped(map_fields(field, column, _is_json, _text), target.type)
            if has_json(field)
            else column
            for field, column, target in zip(fields, batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _text(field: Field, values: pa.Array) -> pa.Array:
    try:
        return _converted(values, pa.string(), kernels.decode_json)
    except CorruptFileError as error:
        raise error.at(f"column {field.name!r}, binary JSON") from None


def _converted(
    values: pa.Array, kind: pa.DataType, convert: Callable[..., tuple[np.ndarray, np.ndarray]]
) -> pa.Array:
    block = block_of(values)
    assert isinstance(block, StringBlock)
    validity = None
    if values.null_count:
        validity = np.packbits(validity_mask(values), bitorder="little")
    offsets, data = convert(block.offsets, block.data, validity)
    if pt.is_string(kind):
        if len(data) > _MAX_TEXT_BYTES:
            raise InvalidInputError(f"{len(data)} bytes of JSON at once; use smaller batches")
        offsets = offsets.astype(np.int32)
    buffers = [None if part is None else pa.py_buffer(part) for part in (validity, offsets, data)]
    return pa.Array.from_buffers(kind, len(values), buffers, values.null_count)


def _with_text(stored: pa.Schema) -> Schema:
    metadata = {key.decode(): value.decode() for key, value in (stored.metadata or {}).items()}
    return Schema(tuple(map(_text_field, _fields(stored))), metadata)


def _fields(stored: pa.Schema) -> tuple[Field, ...]:
    """Return the fields of a result, whose names may contain dots."""
    ids = count()
    return tuple(Field.from_arrow(field, ids) for field in stored)


def _text_field(field: Field) -> Field:
    if field.is_json:
        return replace(field, logical_type="string", metadata={**field.metadata, **_TEXT})
    return replace(field, children=tuple(map(_text_field, field.children)))


def _is_json(field: Field) -> bool:
    return field.is_json


def _has_json(schema: pa.Schema) -> bool:
    return mentions_extensions(schema) and any(map(_is_marked, schema))


def is_json_field(field: pa.Field) -> bool:
    """Return whether an Arrow field is JSON in its stored, binary form."""
    return bool(field.metadata and field.metadata.get(EXTENSION_NAME.encode()) == _MARK)


def _is_marked(field: pa.Field) -> bool:
    if is_json_field(field):
        return True
    kind = field.type
    return pt.is_nested(kind) and any(_is_marked(kind.field(i)) for i in range(kind.num_fields))
