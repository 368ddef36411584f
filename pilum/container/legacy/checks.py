"""Reject values that a legacy file would not preserve, before they are written.

    numbers, times, lists, structs …   a null comes back as some value, as an empty list
    strings and binary, nullable       an empty one comes back as null
    dictionaries                       a null comes back as the first value

The reference implementation writes all of these and loses them silently. Source:
docs/format/legacy.md, "What is lost".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.container.legacy.page_kinds import is_var_binary
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.format.blobs import has_blobs
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.version import FileVersion

__all__ = ["require_kept", "require_storable", "require_type"]

_INSTEAD = "files of version 2.1 store them"


def require_storable(schema: Schema, version: FileVersion, has_sidecars: bool) -> None:
    """Raise UnsupportedTypeError for a schema that legacy files cannot store."""
    for field in schema.fields:
        require_type(field, field.name)
        if has_blobs(field):
            raise UnsupportedTypeError(
                f"column {field.name!r}: blobs are written since file version 2.0, not {version}"
            )


def require_type(field: Field, path: str) -> None:
    """Raise UnsupportedTypeError for a type that legacy files cannot store."""
    kind = field.arrow_type
    for child in field.children:
        require_type(child, f"{path}.{child.name}")
    if field.is_struct and not field.children:
        raise UnsupportedTypeError(
            f"column {path!r}: legacy files cannot store structs without members"
        )
    if pt.is_dictionary(kind):
        values = kind.value_type
        if not is_var_binary(values) and not pt.is_integer(values):
            raise UnsupportedTypeError(f"column {path!r}: legacy files cannot store {kind}")
    known = field.is_struct or field.logical_type in {
        "list",
        "large_list",
        "list.struct",
        "large_list.struct",
    }
    fixed_size = pt.is_fixed_size_list(kind) and not field.children
    if pt.is_nested(kind) and not known and not fixed_size:
        raise UnsupportedTypeError(f"column {path!r}: legacy files cannot store {kind}")


def require_kept(field: Field, array: pa.Array, path: str) -> None:
    """Raise InvalidInputError if a legacy file would lose nulls or empty strings of a field."""
    kind = array.type
    if is_var_binary(kind):
        _require_no_empty(field, array, path)
        return
    if pt.is_null(kind):
        return
    if array.null_count:
        raise InvalidInputError(
            f"column {path!r}: {array.null_count} nulls, which legacy files cannot store for "
            f"{_named(kind)}; {_INSTEAD}"
        )
    if field.is_struct:
        for index, child in enumerate(field.children):
            require_kept(child, array.field(index), f"{path}.{child.name}")
    elif field.is_list:
        require_kept(field.item, array.flatten(), f"{path}.{field.item.name}")
    elif pt.is_fixed_size_list(kind):
        _require_items(array, path)
    elif pt.is_dictionary(kind):
        _require_values(array, path)


def _require_no_empty(field: Field, array: pa.Array, path: str) -> None:
    if not field.nullable:
        if array.null_count:
            raise InvalidInputError(
                f"column {path!r} is not nullable, but has {array.null_count} nulls"
            )
        return
    empty = pc.sum(pc.equal(pc.binary_length(array), 0)).as_py()
    if empty:
        raise InvalidInputError(
            f"column {path!r}: {empty} empty values, which legacy files return as nulls if the "
            f"column is nullable; declare it not nullable, or {_INSTEAD}"
        )


def _require_items(array: pa.Array, path: str) -> None:
    while pt.is_fixed_size_list(array.type):
        array = array.flatten()
        if array.null_count:
            raise InvalidInputError(
                f"column {path!r}: {array.null_count} items are null, which legacy files cannot "
                f"store; {_INSTEAD}"
            )


def _require_values(array: pa.DictionaryArray, path: str) -> None:
    values = array.dictionary
    lost = values.null_count
    if is_var_binary(values.type):
        lost += pc.sum(pc.equal(pc.binary_length(values), 0)).as_py() or 0
    if lost:
        raise InvalidInputError(
            f"column {path!r}: {lost} values of its dictionary are null or empty, which legacy "
            f"files do not distinguish; {_INSTEAD}"
        )


def _named(kind: pa.DataType) -> str:
    if pt.is_struct(kind):
        return "structs"
    return "lists" if pt.is_list(kind) or pt.is_large_list(kind) else f"values of type {kind}"
