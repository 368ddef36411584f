"""Columns of Arrow as arrays of NumPy, shared where that is safe.

    numbers, timestamps            shape (n,), shared
    fixed-size lists of numbers    shape (n, size), shared; nested lists have more axes
    tensors of one shape           shape (n, ...), shared
    bfloat16                       as its bits, uint16, shared
    booleans                       shape (n,), converted
    anything else                  shape (n,), dtype object, converted

Arrays are writable, so that they can be changed in place: bytes that are mapped from a file are
copied once, because writing to them would end the process. Values that are null become NaN, or NaT;
columns of integers and booleans with nulls are refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.errors import InvalidInputError
from pilum.format.types import BFLOAT16

__all__ = ["is_bfloat16", "items_of", "numpy_array", "numpy_columns"]

_BFLOAT16_NAN = 0x7FC0


def numpy_columns(batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """Return the columns of a batch as arrays, by name.

    Raises:
        InvalidInputError: If a column of integers or booleans, or the items of a list, has nulls,
            or numpy cannot hold a value, such as a time with nanoseconds.
    """
    return {
        field.name: numpy_array(column, field)
        for field, column in zip(batch.schema, batch.columns, strict=True)
    }


def numpy_array(column: pa.Array, field: pa.Field) -> NDArray[Any]:
    """Return a column as an array; its first axis is that of the rows. See `numpy_columns`."""
    kind = column.type
    if is_bfloat16(field):
        return _bits(_storage(column))
    if isinstance(kind, pa.FixedShapeTensorType) and kind.permutation is None:
        flat = numpy_array(column.storage, field.with_type(kind.storage_type))
        return flat.reshape(len(column), *kind.shape)
    column = _storage(column)
    items = items_of(field)
    if pt.is_fixed_size_list(column.type) and (_is_number(items.type) or is_bfloat16(items)):
        return _vectors(column, field)
    if _is_number(column.type):
        return _numbers(column, field)
    try:
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid as error:  # such as times with nanoseconds
        raise InvalidInputError(f"column {field.name!r} is no array of numpy: {error}") from error
    return values


def is_bfloat16(field: pa.Field) -> bool:
    """Return whether values are bfloat16, even if that type is not registered with Arrow."""
    if isinstance(field.type, pa.BaseExtensionType):
        return bool(field.type.extension_name == BFLOAT16)
    return (field.metadata or {}).get(b"ARROW:extension:name") == BFLOAT16.encode()


def items_of(field: pa.Field) -> pa.Field:
    """Return the field of the values below nested fixed-size lists; other fields as they are."""
    while pt.is_fixed_size_list(storage := _storage_type(field.type)):
        field = storage.value_field
    return field


def _storage_type(arrow: pa.DataType) -> pa.DataType:
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def _storage(column: pa.Array) -> pa.Array:
    return column.storage if isinstance(column.type, pa.BaseExtensionType) else column


def _is_number(arrow: pa.DataType) -> bool:
    kinds = (pt.is_integer, pt.is_floating, pt.is_timestamp, pt.is_duration, pt.is_boolean)
    return any(is_kind(arrow) for is_kind in kinds)


def _vectors(column: pa.FixedSizeListArray, field: pa.Field) -> NDArray[Any]:
    size, item = column.type.list_size, _storage_type(field.type).value_field
    item = item.with_name(field.name)
    items = items_of(field)
    if column.null_count and not (pt.is_floating(items.type) or is_bfloat16(items)):
        _refuse_nulls(column, field)
    values = numpy_array(column.values.slice(column.offset * size, len(column) * size), item)
    shaped = values.reshape(len(column), size, *values.shape[1:])
    if column.null_count:
        shaped = shaped.copy()
        nan = np.nan if shaped.dtype.kind == "f" else _BFLOAT16_NAN
        shaped[column.is_null().to_numpy(zero_copy_only=False)] = nan
    return shaped


def _bits(column: pa.Array) -> NDArray[Any]:
    """Return the bits of bfloat16, with those of NaN for nulls."""
    data = column.buffers()[1]
    numbers = pa.Array.from_buffers(pa.uint16(), len(column), [None, data], 0, column.offset)
    values = _shared(numbers.to_numpy(), numbers)
    if column.null_count:
        values = values.copy()
        values[column.is_null().to_numpy(zero_copy_only=False)] = _BFLOAT16_NAN
    return values


def _numbers(column: pa.Array, field: pa.Field) -> NDArray[Any]:
    """Return numbers as a writable array."""
    if column.null_count and (pt.is_integer(column.type) or pt.is_boolean(column.type)):
        _refuse_nulls(column, field)
    return _shared(column.to_numpy(zero_copy_only=False), column)


def _shared(values: NDArray[Any], column: pa.Array) -> NDArray[Any]:
    """Return the values of a column as a writable array; a copy if their memory is read-only."""
    data = column.buffers()[1]
    if values.flags.writeable:  # converted, because of nulls or bits
        return values
    if data is None or not data.is_mutable:
        return values.copy()
    first = column.offset * values.itemsize
    return np.frombuffer(data, values.dtype, len(column), first)


def _refuse_nulls(column: pa.Array, field: pa.Field) -> NoReturn:
    raise InvalidInputError(
        f"column {field.name!r}: there is no array for nulls of {column.type}; filter them out, or "
        f"compute a value for them, such as columns={{{field.name!r}: 'coalesce({field.name}, 0)'}}"
    )
