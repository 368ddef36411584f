"""Rows with their strings and bytes in the form of a scan; see `pilum.format.text_forms`.

A plain scan decodes pages into this form. What a filter, a sort or an expression needs is read in
the form of the table, and its result is converted here. Extension types keep their storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.blocks import StringBlock, block_of, validity_mask
from pilum.container.assemble import string_views
from pilum.container.mapped import map_fields
from pilum.encodings.base import Layer
from pilum.format.schema import Field, Schema
from pilum.format.text_forms import TextForm

__all__ = ["formed_array", "formed_batches", "formed_schema", "formed_table"]


def formed_schema(schema: pa.Schema, form: TextForm) -> pa.Schema:
    """Return the schema with strings and bytes in a form, at any depth."""
    fields = zip(schema, _fields(schema, form), strict=True)
    return pa.schema(
        [own if field is None else own.with_type(field.arrow_type) for own, field in fields],
        schema.metadata,
    )


def formed_table(table: pa.Table, form: TextForm) -> pa.Table:
    """Return the table with strings and bytes in a form; see `formed_schema`."""
    schema, fields = formed_schema(table.schema, form), _fields(table.schema, form)
    columns = [
        column
        if field is None
        else pa.chunked_array([formed_array(field, one) for one in column.chunks], target.type)
        for field, column, target in zip(fields, table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def formed_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: TextForm
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a schema with strings and bytes in a form; see `formed_schema`."""
    target, fields = formed_schema(schema, form), _fields(schema, form)
    for batch in batches:
        columns = [
            column if field is None else formed_array(field, column)
            for field, column in zip(fields, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def formed_array(field: Field, array: pa.Array) -> pa.Array:
    """Return the values of a field in its form, which they may have already."""
    if array.type == field.arrow_type:
        return array
    return map_fields(field, array, _has_form, _formed)


def _fields(schema: pa.Schema, form: TextForm) -> list[Field | None]:
    """Return the fields in a form; None for those that it does not change."""
    fields = [
        None if isinstance(own.type, pa.BaseExtensionType) else field.in_form(form)
        for own, field in zip(schema, Schema.from_arrow(schema).fields, strict=True)
    ]
    return [field if field and any(map(_has_form, field.walk())) else None for field in fields]


def _has_form(field: Field) -> bool:
    return field.has_form


def _formed(field: Field, values: pa.Array) -> pa.Array:
    if field.form == "dictionaries":
        return values.dictionary_encode()
    if pt.is_dictionary(values.type):
        values = values.dictionary_decode()
    if not len(values):
        return pa.nulls(0, field.arrow_type)
    block = block_of(values)
    assert isinstance(block, StringBlock)
    validity = None
    if values.null_count:
        validity = np.packbits(validity_mask(values), bitorder="little")
    layer = Layer(len(values), validity, values.null_count, None)
    return string_views(field.arrow_type, layer, block.offsets, block.data)
