"""Reinterpret an array as another type of the same layout, through Arrow's C interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

__all__ = ["retyped", "storage_type"]


def retyped(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Return the same buffers as an array of another type; nothing is copied or checked.

    Types that the metadata of nested fields name remain storage; Arrow would otherwise convert
    them.
    """
    return pa.array(_Retyped(array, storage_type(arrow_type)))


@dataclass(frozen=True, slots=True)
class _Retyped:
    """An object that Arrow imports: the schema of a type, and the buffers of an array."""

    array: pa.Array
    arrow_type: pa.DataType

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.arrow_type.__arrow_c_schema__(), self.array.__arrow_c_array__()[1]


def storage_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type with storage in place of extension types, and no metadata, at any depth."""
    if isinstance(arrow, pa.BaseExtensionType):
        return storage_type(arrow.storage_type)
    if pt.is_struct(arrow):
        return pa.struct([_storage_field(member) for member in arrow])
    if pt.is_list(arrow):
        return pa.list_(_storage_field(arrow.value_field))
    if pt.is_large_list(arrow):
        return pa.large_list(_storage_field(arrow.value_field))
    if pt.is_fixed_size_list(arrow):
        return pa.list_(_storage_field(arrow.value_field), arrow.list_size)
    if pt.is_map(arrow):
        return pa.map_(_storage_field(arrow.key_field), _storage_field(arrow.item_field))
    return arrow


def _storage_field(field: pa.Field) -> pa.Field:
    return field.with_type(storage_type(field.type)).remove_metadata()
