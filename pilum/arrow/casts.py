"""Casts to and from `bfloat16`, which Arrow does not know."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrow.bfloat16 import BFloat16Type, from_floats, to_floats
from pilum.errors import InvalidInputError

__all__ = ["cast"]

_NAMES = {"bfloat16", "bf16"}


def cast(arr: pa.Array, target_type: pa.DataType | str, *args: Any, **kwargs: Any) -> pa.Array:
    """Cast an array, as `pyarrow.compute.cast`, and also to and from `bfloat16`.

    Args:
        arr: The array.
        target_type: The other type; "bfloat16" or "bf16" for that one.
        args: Further arguments of `pyarrow.compute.cast`.
        kwargs: As `args`.

    Raises:
        InvalidInputError: If a cast to or from `bfloat16` is not one of floating-point numbers, or
            fixed-size lists have different sizes.
    """
    to_bfloat16 = isinstance(target_type, BFloat16Type) or (
        isinstance(target_type, str) and target_type in _NAMES
    )
    if to_bfloat16 and isinstance(arr.type, BFloat16Type):
        return arr
    if isinstance(arr.type, BFloat16Type):
        target = pa.type_for_alias(target_type) if isinstance(target_type, str) else target_type
        if not pt.is_floating(target):
            raise InvalidInputError(f"cannot cast bfloat16 to {target}; cast to a float first")
        return to_floats(arr, target)
    if to_bfloat16:
        if not pt.is_floating(arr.type):
            raise InvalidInputError(f"cannot cast {arr.type} to bfloat16; cast to a float first")
        return from_floats(arr)
    if isinstance(target_type, pa.FixedSizeListType) and pt.is_fixed_size_list(arr.type):
        return _cast_lists(arr, target_type, *args, **kwargs)
    return pc.cast(arr, target_type, *args, **kwargs)


def _cast_lists(
    arr: pa.FixedSizeListArray, target: pa.FixedSizeListType, *args: Any, **kwargs: Any
) -> pa.Array:
    size = arr.type.list_size
    if size != target.list_size:
        raise InvalidInputError(f"cannot cast lists of {size} items to lists of {target.list_size}")
    items = arr.values.slice(arr.offset * size, len(arr) * size)
    nulls = arr.is_null() if arr.null_count else None
    return pa.FixedSizeListArray.from_arrays(
        cast(items, target.value_type, *args, **kwargs), type=target, mask=nulls
    )
