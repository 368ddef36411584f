"""Columns of `bfloat16` in pandas."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pandas.api.extensions import ExtensionArray, ExtensionDtype, register_extension_dtype

from pilum.arrow.bfloat16 import BFloat16, BFloat16Array, BFloat16Type, bfloat16_array

__all__ = ["PandasBFloat16Array", "PandasBFloat16Type"]


@register_extension_dtype
class PandasBFloat16Type(ExtensionDtype):  # type: ignore[misc]
    """The dtype of such columns."""

    kind = "f"
    na_value = None
    name = "lance.bfloat16"
    type = BFloat16
    _is_numeric = True

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> PandasBFloat16Array:
        return PandasBFloat16Array(array)

    @classmethod
    def construct_array_type(cls) -> builtins.type[PandasBFloat16Array]:
        """Return the class of columns."""
        return PandasBFloat16Array

    @classmethod
    def construct_from_string(cls, string: str) -> PandasBFloat16Type:
        """Return the dtype; raise TypeError, as pandas demands, for another name."""
        if string != cls.name:
            raise TypeError(f"{string!r} is not {cls.name!r}")
        return cls()


class PandasBFloat16Array(ExtensionArray):  # type: ignore[misc]
    """A column of such numbers.

    Args:
        data: The numbers, as an array or a chunked array of Arrow.
    """

    dtype = PandasBFloat16Type()

    def __init__(self, data: pa.Array | pa.ChunkedArray) -> None:
        self.data = data

    @classmethod
    def _from_sequence(
        cls, scalars: Sequence[Any], *, dtype: Any = None, copy: bool = False
    ) -> PandasBFloat16Array:
        return cls(bfloat16_array(scalars))

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> PandasBFloat16Array:
        """Return a column of numbers with the dtype `bfloat16` of `ml_dtypes`."""
        return cls(BFloat16Array.from_numpy(array))

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[PandasBFloat16Array]) -> PandasBFloat16Array:
        return cls(_joined([array.data for array in to_concat]))

    def __getitem__(self, item: Any) -> Any:
        if isinstance(item, int | np.integer):
            return self.data[int(item)].as_py()
        if isinstance(item, slice):
            return PandasBFloat16Array(self.data[item])
        places = np.asarray(item)
        picked = self.data.filter if places.dtype == np.bool_ else self.data.take
        return PandasBFloat16Array(picked(pa.array(places)))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def nbytes(self) -> int:
        """The size of the numbers in bytes."""
        return int(self.data.nbytes)

    def isna(self) -> NDArray[np.bool_]:
        """Return which elements are null."""
        return np.asarray(self.data.is_null())

    def take(
        self, indices: Sequence[int], *, allow_fill: bool = False, fill_value: Any = None
    ) -> PandasBFloat16Array:
        """Return elements by position; with `allow_fill`, -1 means null."""
        places = np.asarray(indices, np.int64)
        if not allow_fill:
            places = np.where(places < 0, places + len(self), places)
        mask = places < 0 if allow_fill else None
        return PandasBFloat16Array(self.data.take(pa.array(places, mask=mask)))

    def copy(self) -> PandasBFloat16Array:
        """Return the same column; Arrow arrays never change."""
        return PandasBFloat16Array(self.data)

    def to_numpy(self, *arguments: Any, **keywords: Any) -> NDArray[Any]:
        """Return the numbers with the dtype `bfloat16` of `ml_dtypes`."""
        array = _joined([self.data])
        return BFloat16Array.to_numpy(array)

    def __arrow_array__(self, type: pa.DataType | None = None) -> Any:
        return self.data


def _joined(parts: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    chunks = [
        chunk.storage
        for part in parts
        for chunk in (part.chunks if isinstance(part, pa.ChunkedArray) else [part])
    ]
    storage = pa.concat_arrays(chunks) if chunks else pa.array([], pa.binary(2))
    return pa.ExtensionArray.from_storage(BFloat16Type(), storage)
