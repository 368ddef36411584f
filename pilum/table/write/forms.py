"""Forms of values: incoming Arrow types that become those of a table, and its plain types.

    table            incoming types that are converted without loss
    string           large_string, string_view; dictionaries of these
    binary           large_binary, binary_view; dictionaries of these
    dictionary<K>    its values, dictionaries with other keys; values must not be too many for K
    list<T>          large_list, list views and vectors of any form of T
    T[n]             lists of any form of T that all have n items
    any type         null

Other types are returned unchanged, so that the caller can compare them and report the difference.

The plain form serves engines that know only storage types, such as Spark:

    table     doc: JSON, binary    b: blob descriptors    n: int64
    plain     doc: string          b: large_binary        n: int64

`pilum.table.write.align` and `pilum.table.write.blob_inputs` convert such rows to the types of
files.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import list_offsets, taken
from pilum.blocks import validity_mask
from pilum.errors import SchemaMismatchError
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.types import EXTENSION_METADATA, EXTENSION_NAME

__all__ = ["converted", "plain_schema", "table_form"]

_TEXTS = frozenset({pa.string(), pa.large_string(), pa.string_view()})
_BYTES = frozenset({pa.binary(), pa.large_binary(), pa.binary_view()})
_BLOB_MARK = {"lance-encoding:blob": "true"}
_JSON_MARK = {EXTENSION_NAME: "arrow.json", EXTENSION_METADATA: ""}


def table_form(arrow: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    """Return the incoming type with every equivalent part replaced by the table's type.

    Structs of the data may have members in another order, or fewer of them.
    """
    if arrow == wanted or isinstance(arrow, pa.BaseExtensionType):
        return arrow
    if pt.is_null(arrow):
        return wanted
    if pt.is_dictionary(wanted):
        values = arrow.value_type if pt.is_dictionary(arrow) else arrow
        same = table_form(values, wanted.value_type) == wanted.value_type
        return wanted if same else arrow
    if pt.is_dictionary(arrow):
        same = table_form(arrow.value_type, wanted) == wanted
        return wanted if same else arrow
    for family in (_TEXTS, _BYTES):
        if arrow in family and wanted in family:
            return wanted
    if pt.is_struct(arrow) and pt.is_struct(wanted):
        return pa.struct([_member_form(field, wanted) for field in arrow])
    if pt.is_map(arrow) and pt.is_map(wanted):
        key, item = arrow.key_field, arrow.item_field
        return pa.map_(
            key.with_type(table_form(key.type, wanted.key_type)),
            item.with_type(table_form(item.type, wanted.item_type)),
            keys_sorted=arrow.keys_sorted,
        )
    if _is_listing(arrow) and _is_listing(wanted):
        return _list_form(arrow, wanted)
    return arrow


def _member_form(field: pa.Field, wanted: pa.StructType) -> pa.Field:
    index = wanted.get_field_index(field.name)
    return field if index < 0 else field.with_type(table_form(field.type, wanted.field(index).type))


def _list_form(arrow: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    item = arrow.value_field.with_type(table_form(arrow.value_type, wanted.value_type))
    if pt.is_fixed_size_list(wanted):
        is_other = pt.is_fixed_size_list(arrow) and arrow.list_size != wanted.list_size
        return pa.list_(item, arrow.list_size if is_other else wanted.list_size)
    return pa.large_list(item) if pt.is_large_list(wanted) else pa.list_(item)


def _is_listing(arrow: pa.DataType) -> bool:
    return any(
        is_kind(arrow)
        for is_kind in (
            pt.is_list,
            pt.is_large_list,
            pt.is_fixed_size_list,
            pt.is_list_view,
            pt.is_large_list_view,
        )
    )


def converted(array: pa.Array, form: pa.DataType, name: str) -> pa.Array:
    """Return values converted to a type that `table_form` returned.

    SchemaMismatchError is raised if a value of the column `name` does not fit that type.
    """
    try:
        return _converted(array, form)
    except pa.ArrowInvalid as error:
        raise SchemaMismatchError(
            f"column {name!r}: values of type {array.type} do not fit {form}: {error}"
        ) from error


def _converted(array: pa.Array, form: pa.DataType) -> pa.Array:
    if array.type == form:
        return array
    if pt.is_null(array.type):
        return pa.nulls(len(array), form)
    if pt.is_dictionary(array.type) and pt.is_dictionary(form):
        if array.type.value_type == form.value_type:
            return array.cast(form)
        values = _converted(array.dictionary, form.value_type)
        made = pa.DictionaryArray.from_arrays(array.indices, values, safe=False)
        return made.cast(form)
    if pt.is_dictionary(array.type):
        return _converted(array.dictionary_decode(), form)
    if pt.is_dictionary(form):
        return _converted(array, form.value_type).dictionary_encode().cast(form)
    if pt.is_struct(form):
        members = [_converted(array.field(i), form.field(i).type) for i in range(form.num_fields)]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(form), mask=mask)
    if pt.is_map(form) or _is_listing(form):
        return _converted_lists(array, form)
    return array.cast(form)


def _converted_lists(array: pa.Array, form: pa.DataType) -> pa.Array:
    if pt.is_list_view(array.type) or pt.is_large_list_view(array.type):
        array = _without_view(array, form.field(0))
    items = _converted(array.values, form.field(0).type)
    if items.type != array.type.field(0).type:
        field = form.field(0)
        if pt.is_map(form):
            same = form
        elif pt.is_fixed_size_list(array.type):
            same = pa.list_(field, array.type.list_size)
        else:
            same = (pa.large_list if pt.is_large_list(array.type) else pa.list_)(field)
        own = array.buffers()[: 1 if pt.is_fixed_size_list(same) else 2]
        array = pa.Array.from_buffers(
            same, len(array), own, array.null_count, array.offset, children=[items]
        )
    if pt.is_fixed_size_list(form) and not pt.is_fixed_size_list(array.type):
        return _vectors(array, form)
    return array.cast(form)


def _without_view(views: pa.Array, field: pa.Field) -> pa.Array:
    """Return list views as lists of converted items.

    Arrow 26 itself converts slices of list views to invalid lists.
    """
    valid = validity_mask(views)
    sizes = np.where(valid, views.sizes.to_numpy(), 0).astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    starts = views.offsets.to_numpy() - offsets[:-1]
    places = pa.array(np.arange(offsets[-1]) + np.repeat(starts, sizes))
    items = taken(_converted(views.values, field.type), places)
    mask = None if valid.all() else pa.array(~valid)
    lists: pa.Array = pa.LargeListArray.from_arrays(
        pa.array(offsets), items, type=pa.large_list(field), mask=mask
    )
    return lists


def _vectors(lists: pa.Array, form: pa.FixedSizeListType) -> pa.Array:
    """Return lists that have the length of vectors as vectors; null lists may have any length."""
    offsets = list_offsets(lists).to_numpy()
    valid, size = validity_mask(lists), form.list_size
    sizes = np.unique(np.diff(offsets)[valid])
    if any(sizes != size):
        raise pa.ArrowInvalid(f"lists of {sizes.tolist()} items")
    places = offsets[:-1, None] + np.arange(size)
    nulls = np.repeat(~valid, size)
    items = taken(lists.values, pa.array(places.ravel(), mask=nulls))
    mask = None if valid.all() else pa.array(~valid)
    return pa.FixedSizeListArray.from_arrays(items, type=form, mask=mask)


def plain_schema(schema: Schema) -> pa.Schema:
    """Return the columns of a table in their plain form; the metadata mark their original types."""
    return Schema(tuple(map(_plain, schema.fields)), schema.metadata).arrow


def _plain(field: Field) -> Field:
    if field.is_plain:
        return field
    if field.is_json:
        metadata = {**field.metadata, **_JSON_MARK}
        return replace(field, logical_type="string", metadata=metadata, children=())
    if field.blob_version:
        return replace(field, logical_type="large_binary", metadata=_BLOB_MARK, children=())
    return replace(field, children=tuple(map(_plain, field.children)))
