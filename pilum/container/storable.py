"""Check that a file can store the fields of a schema, and the arrays that are written to them."""

from __future__ import annotations

from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt

from pilum.arrays import without_nulls
from pilum.blocks import list_items
from pilum.encodings.rows import check_members
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedTypeError
from pilum.format.blobs import is_prepared
from pilum.format.fields import Field
from pilum.format.version import FileVersion

__all__ = ["check_storage", "checked_storage"]

_BLOB = "lance-encoding:blob"


def check_storage(field: Field, version: FileVersion, *, has_sidecars: bool) -> None:
    """Raise UnsupportedTypeError if a field has packed structs or blobs that a file cannot hold."""
    _check(field, version, has_sidecars, field.name, in_list=False)


def _check(
    field: Field, version: FileVersion, has_sidecars: bool, path: str, *, in_list: bool
) -> None:
    if field.is_plain:
        return
    if field.blob_version == 0 and _BLOB in field.metadata:
        _refuse_blobs(field, path)
    if field.is_packed:
        if version is not FileVersion.V2_0:  # version 2.0 has its own rules, see `v2_0/writer.py`
            _check_packed(field, version, path)
        return
    if field.blob_version == 1 and in_list:
        raise UnsupportedTypeError(f"column {path!r}: files cannot store lists of such blobs")
    if field.blob_version == 2:
        _check_blobs_v2(field, version, has_sidecars, path)
    if field.blob_version:
        return
    for child in field.children:
        below = f"{path}.{child.name}"
        _check(child, version, has_sidecars, below, in_list=in_list or field.is_list)


def _refuse_blobs(field: Field, path: str) -> NoReturn:
    if field.is_struct:
        raise UnsupportedTypeError(
            f"column {path!r}: descriptors of blobs, as scans return them, locate bytes in files "
            "of another table; read the bytes, with blob_handling='all_binary'"
        )
    raise UnsupportedTypeError(
        f"column {path!r}: blobs must be large_binary, not {field.logical_type}"
    )


def _check_blobs_v2(field: Field, version: FileVersion, has_sidecars: bool, path: str) -> None:
    if not version.has_blobs_v2:
        raise UnsupportedTypeError(
            f"column {path!r}: blobs of version 2 need a table of file version 2.2"
        )
    if not (has_sidecars or is_prepared(field)):
        raise UnsupportedTypeError(
            f"column {path!r}: blobs of version 2 need a table, or in a single file the "
            "descriptors that BlobDescriptorArrayBuilder makes"
        )


def _check_packed(field: Field, version: FileVersion, path: str) -> None:
    for child in field.children:
        if child.blob_version:
            raise UnsupportedTypeError(f"column {path}.{child.name}: a blob in a packed struct")
    check_members(field.arrow_type, version, path)


def checked_storage(field: Field, array: pa.Array) -> pa.Array:
    """Return the storage of an array, checked against the field.

    Raises:
        SchemaMismatchError: If its type differs.
        InvalidInputError: If it holds a null where none is allowed.
        UnsupportedTypeError: If it contains structs without members that no file can hold.
    """
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if array.type != field.arrow_type and not _same_type(array.type, field.arrow_type):
        raise SchemaMismatchError(
            f"column {field.name!r}: type {array.type}; expected {field.arrow_type}"
        )
    _check_nulls(field, array, field.name)
    if not pt.is_struct(array.type) or array.type.num_fields or array.null_count:
        _check_empty_structs(field, field.name)
    return array


def _same_type(given: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether types are equal up to names, nullability and metadata of child fields."""
    if given.num_fields != expected.num_fields or given.id != expected.id:
        return False
    if given.num_fields == 0:
        return bool(given == expected)
    if pt.is_fixed_size_list(given) and given.list_size != expected.list_size:
        return False
    if pt.is_struct(given) and [f.name for f in given] != [f.name for f in expected]:
        return False
    return all(
        _same_type(given.field(i).type, expected.field(i).type) for i in range(given.num_fields)
    )


def _check_empty_structs(field: Field, path: str) -> None:
    """Raise an error for structs without members, except valid ones at the top level."""
    if field.is_struct and not field.children:
        raise UnsupportedTypeError(
            f"column {path!r}: a struct without members that is null or nested"
        )
    for child in field.children:
        _check_empty_structs(child, f"{path}.{child.name}")


def _check_nulls(field: Field, array: pa.Array, path: str) -> None:
    if not field.nullable and array.null_count:
        raise InvalidInputError(
            f"column {path!r} is not nullable, but has {array.null_count} nulls"
        )
    if all(map(_may_be_null_below, field.children)):
        return  # nearly always; looking at the items of lists would copy them
    if field.is_list or field.list_size is not None:
        _check_nulls(field.item, list_items(array), f"{path}.{field.item.name}")
    elif field.is_struct:
        valid = _valid(array)
        for index, child in enumerate(field.children):
            _check_nulls(child, valid.field(index), f"{path}.{child.name}")


def _may_be_null_below(field: Field) -> bool:
    return field.nullable and all(map(_may_be_null_below, field.children))


def _valid(array: pa.Array) -> pa.Array:
    """Return the valid values; Arrow cannot make every type of array from nothing."""
    if array.null_count == len(array):
        return array.slice(0, 0)
    return without_nulls(array)
