"""Rows with their strings and bytes in the form of a scan; see `pilum.format.text_forms`.

A plain scan decodes pages into this form. What a filter, a sort or an expression needs is read in
the form of the table, and its result is converted here. Extension types keep their storage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import with_members
from pilum.blocks import StringBlock, block_of, validity_mask
from pilum.container.assemble import string_views
from pilum.container.mapped import map_fields
from pilum.encodings.base import Layer
from pilum.format.fields import Field, keeps_types
from pilum.format.text_forms import TextForm, formed, has_forms

__all__ = ["formed_array", "formed_batches", "formed_schema"]


def formed_schema(schema: pa.Schema, form: TextForm) -> pa.Schema:
    """Return the schema of a result with strings and bytes in a form, at any depth."""
    return pa.schema([_formed_field(field, form) for field in schema], schema.metadata)


def formed_batches(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: TextForm
) -> Iterator[pa.RecordBatch]:
    """Yield batches of a schema with strings and bytes in a form; see `formed_schema`."""
    target = formed_schema(schema, form)
    for batch in batches:
        columns = [
            column if column.type == own.type else column.cast(own.type)
            for own, column in zip(target, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=target)


def _formed_field(field: pa.Field, form: TextForm) -> pa.Field:
    metadata = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
    return field if keeps_types(metadata) else field.with_type(_formed_type(field.type, form))


def _formed_type(arrow: pa.DataType, form: TextForm) -> pa.DataType:
    if isinstance(arrow, pa.BaseExtensionType):
        return arrow
    if has_forms(arrow):
        return formed(arrow, form)
    if pt.is_map(arrow):
        entries = arrow.key_field, arrow.item_field
        return pa.map_(*(_formed_field(entry, form) for entry in entries))
    return with_members(arrow, lambda member: _formed_field(member, form))


def formed_array(field: Field, array: pa.Array) -> pa.Array:
    """Return the values of a field in its form, which they may have already."""
    if array.type == field.arrow_type:
        return array
    return map_fields(field, array, _has_form, _formed)


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
