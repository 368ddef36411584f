"""Columns of Arrow as arrays of NumPy, shared where that is safe.

    numbers, timestamps            shape (n,), shared
    fixed-size lists of numbers    shape (n, size), shared; nested lists have more axes
    tensors of one shape           shape (n, ...), shared
    bfloat16                       as its bits, uint16
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

from pilum.arrays import storage_type
from pilum.errors import InvalidInputError

__all__ = ["numpy_array", "numpy_columns"]


def numpy_columns(batch: pa.RecordBatch) -> dict[str, NDArray[Any]]:
    """Return the columns of a batch as arrays, by name.

    Raises:
        InvalidInputError: If a column of integers or booleans, or the items of a list, has nulls.
    """
    return {
        name: numpy_array(column, name)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }


def numpy_array(column: pa.Array, name: str) -> NDArray[Any]:
    """Return a column as an array; its first axis is that of the rows. See `numpy_columns`."""
    if isinstance(column.type, pa.FixedShapeTensorType) and column.type.permutation is None:
        return numpy_array(column.storage, name).reshape(len(column), *column.type.shape)
    column = _storage(column)
    if pt.is_fixed_size_list(column.type) and _has_shape(column.type):
        return _vectors(column, name)
    if _is_plain(column.type):
        return _numbers(column, name)
    if pt.is_boolean(column.type) and column.null_count:
        _refuse_nulls(column, name)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _storage(column: pa.Array) -> pa.Array:
    while isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    return column


def _has_shape(arrow: pa.DataType) -> bool:
    """Return whether a fixed-size list has numbers at the bottom."""
    items = _items(arrow)
    return _is_plain(items) or bool(pt.is_boolean(items))


def _items(arrow: pa.DataType) -> pa.DataType:
    """Return the type of the values below nested fixed-size lists."""
    while pt.is_fixed_size_list(arrow):
        arrow = storage_type(arrow.value_type)
    return arrow


def _is_plain(arrow: pa.DataType) -> bool:
    """Return whether values are stored as NumPy stores them."""
    kinds = (pt.is_integer, pt.is_floating, pt.is_timestamp, pt.is_duration, _is_two_bytes)
    return any(is_kind(arrow) for is_kind in kinds)


def _is_two_bytes(arrow: pa.DataType) -> bool:
    """Return whether this is the storage of bfloat16."""
    return bool(pt.is_fixed_size_binary(arrow)) and arrow.byte_width == 2


def _vectors(column: pa.FixedSizeListArray, name: str) -> NDArray[Any]:
    size = column.type.list_size
    items = column.values.slice(column.offset * size, len(column) * size)
    if column.null_count and not _is_floating(column.type):
        _refuse_nulls(column, name)
    values = numpy_array(items, name)
    shaped = values.reshape(len(column), size, *values.shape[1:])
    if column.null_count:
        shaped = shaped.copy()
        shaped[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return shaped


def _is_floating(arrow: pa.DataType) -> bool:
    return bool(pt.is_floating(_items(arrow)))


def _numbers(column: pa.Array, name: str) -> NDArray[Any]:
    """Return numbers as a writable array; they are copied if they are in read-only memory."""
    if column.null_count and (pt.is_integer(column.type) or _is_two_bytes(column.type)):
        _refuse_nulls(column, name)
    data = column.buffers()[1]
    if _is_two_bytes(column.type):
        column = pa.Array.from_buffers(pa.uint16(), len(column), [None, data], 0, column.offset)
    values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if values.flags.writeable:  # converted, because of nulls
        return values
    if not data.is_mutable:
        return values.copy()
    first = column.offset * values.itemsize
    return np.frombuffer(data, values.dtype, len(column), first)


def _refuse_nulls(column: pa.Array, name: str) -> NoReturn:
    raise InvalidInputError(
        f"column {name!r}: there is no array for nulls of {column.type}; filter them out, or "
        f"compute a value for them, such as columns={{{name!r}: 'coalesce({name}, 0)'}}"
    )
