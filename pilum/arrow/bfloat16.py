"""Floating-point numbers of 16 bits with the exponent of 32 bits (`lance.bfloat16`).

    float32     seeeeeee emmmmmmm mmmmmmmm mmmmmmmm
    bfloat16    seeeeeee emmmmmmm                      rounded to the nearest, to even if between

A value is stored as two bytes, the lower one first, in a fixed_size_binary[2].
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrow.registration import register, with_storage
from pilum.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from pilum.arrow.frames import PandasBFloat16Type

__all__ = [
    "BFloat16",
    "BFloat16Array",
    "BFloat16Scalar",
    "BFloat16Type",
    "bfloat16_array",
    "from_floats",
    "to_floats",
]

_ITEM = pa.binary(2)
_QUIET_NAN = 0x7FC0
_SHOWN = 10


def _rounded(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Return the bits of the nearest bfloat16 of each value."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    kept = bits >> np.uint32(16)
    rounded = (bits + np.uint32(0x7FFF) + (kept & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), _QUIET_NAN, rounded).astype(np.uint16)


def _floats(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@functools.total_ordering
class BFloat16:
    """One number.

    Args:
        value: The number, which is rounded.
    """

    __slots__ = ("_bits",)

    def __init__(self, value: float) -> None:
        self._bits = int(_rounded(np.array([value], np.float32))[0])

    @classmethod
    def from_bytes(cls, bytes: bytes) -> BFloat16:
        """Return the number with these two bytes, the lower one first.

        Raises:
            InvalidInputError: If there are not two bytes.
        """
        if len(bytes) != _ITEM.byte_width:
            raise InvalidInputError(f"expected 2 bytes of a bfloat16, found {len(bytes)}")
        found = cls.__new__(cls)
        found._bits = int.from_bytes(bytes, "little")
        return found

    def __float__(self) -> float:
        return float(_floats(np.array([self._bits], np.uint16))[0])

    as_float = __float__

    def __bytes__(self) -> bytes:
        return self._bits.to_bytes(2, "little")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16 | float | int) and float(self) == float(other)

    def __lt__(self, other: Any) -> bool:
        return float(self) < float(other)

    def __hash__(self) -> int:
        return hash(float(self))

    def __repr__(self) -> str:
        return f"BFloat16({self})"

    def __str__(self) -> str:
        # As many digits as distinguish it from the next number.
        return np.format_float_positional(np.float32(float(self)), unique=True, trim="-")

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return BFloat16.from_bytes, (bytes(self),)


class BFloat16Type(pa.ExtensionType):  # type: ignore[misc]
    """The type of arrays of such numbers."""

    def __init__(self) -> None:
        super().__init__(_ITEM, "lance.bfloat16")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Any:
        return with_storage(cls(), storage_type)

    def __arrow_ext_class__(self) -> type[BFloat16Array]:
        return BFloat16Array

    def __arrow_ext_scalar_class__(self) -> type[BFloat16Scalar]:
        return BFloat16Scalar

    def to_pandas_dtype(self) -> PandasBFloat16Type:
        """Return the type of columns of pandas."""
        from pilum.arrow.frames import PandasBFloat16Type

        return PandasBFloat16Type()


class BFloat16Scalar(pa.ExtensionScalar):  # type: ignore[misc]
    """One element of an array."""

    def as_py(self, **options: Any) -> BFloat16 | None:
        """Return the number; None for null."""
        return None if self.value is None else BFloat16.from_bytes(self.value.as_py(**options))

    def __eq__(self, other: object) -> bool:
        return bool(self.as_py() == (other.as_py() if isinstance(other, pa.Scalar) else other))

    __hash__ = pa.ExtensionScalar.__hash__


class BFloat16Array(pa.ExtensionArray):  # type: ignore[misc]
    """An array of such numbers."""

    def to_numpy(self, zero_copy_only: bool = False) -> NDArray[Any]:
        """Return the numbers without a copy, with the dtype `bfloat16` of `ml_dtypes`.

        Raises:
            InvalidInputError: If there are nulls.
            MissingDependencyError: If `ml_dtypes` is not installed.
        """
        if self.null_count:
            raise InvalidInputError(f"{self.null_count} nulls have no form in numpy")
        return _bits_of(self).view(_dtype())

    @classmethod
    def from_numpy(cls, array: NDArray[Any]) -> BFloat16Array:
        """Return an array of numbers with the dtype `bfloat16` of `ml_dtypes`, of shape (n,).

        Raises:
            InvalidInputError: If it has another dtype or shape.
            MissingDependencyError: If `ml_dtypes` is not installed.
        """
        if array.dtype != _dtype() or array.ndim != 1:
            raise InvalidInputError(
                f"expected bfloat16 of one dimension, found {array.dtype} of {array.ndim}"
            )
        return _of_bits(np.ascontiguousarray(array).view(np.uint16), None)

    def __str__(self) -> str:
        shown = [str(value) for value in self[:_SHOWN].to_pylist()]
        if len(self) > 2 * _SHOWN:
            shown += ["...", *(str(value) for value in self[-_SHOWN:].to_pylist())]
        else:
            shown += [str(value) for value in self[_SHOWN:].to_pylist()]
        return "[\n  " + ",\n  ".join(shown) + "\n]"

    def __repr__(self) -> str:
        return f"<pilum.arrow.BFloat16Array of {len(self)}>\n{self}"


def bfloat16_array(values: Iterable[Any]) -> BFloat16Array:
    """Return an array of numbers, which are rounded, or None for nulls."""
    plain = [float(value) if isinstance(value, BFloat16) else value for value in values]
    return from_floats(pa.array(plain, pa.float32()))


def from_floats(array: pa.Array) -> BFloat16Array:
    """Round an array of floating-point numbers of any width."""
    filled = array.cast(pa.float32()).fill_null(0)
    valid = None if not array.null_count else array.is_valid().to_numpy(zero_copy_only=False)
    return _of_bits(_rounded(filled.to_numpy()), valid)


def to_floats(array: BFloat16Array, kind: pa.DataType) -> pa.Array:
    """Return the numbers as floating-point numbers of another type."""
    storage = array.storage
    nulls = storage.is_null().to_numpy(zero_copy_only=False) if storage.null_count else None
    return pa.array(_floats(_bits_of(array)), pa.float32(), mask=nulls).cast(kind)


def _bits_of(array: BFloat16Array) -> NDArray[np.uint16]:
    storage = array.storage
    return np.frombuffer(storage.buffers()[1], np.uint16)[storage.offset :][: len(storage)]


def _of_bits(bits: NDArray[np.uint16], valid: NDArray[np.bool_] | None) -> BFloat16Array:
    # Arrow packs the bits of validity, the first one lowest.
    validity = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    found = pa.Array.from_buffers(_ITEM, len(bits), [validity, pa.py_buffer(bits)])
    array: BFloat16Array = pa.ExtensionArray.from_storage(BFloat16Type(), found)
    return array


def _dtype() -> np.dtype[Any]:
    try:
        module: Any = importlib.import_module("ml_dtypes")
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            "numpy has no bfloat16 of its own: pip install ml_dtypes, or use pilum.arrow.cast"
        ) from error
    found: np.dtype[Any] = np.dtype(module.bfloat16)
    return found


register(BFloat16Type())
