"""Sets of small numbers, such as ids of fragments, in compressed form."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, MutableSet
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import InvalidInputError

__all__ = ["Bitmap", "roaring"]

_MAX = 2**32 - 1


class Bitmap(MutableSet[int]):
    """A set of integers from 0 to 4,294,967,295, in ascending order.

    Every operation of sets takes any iterable of such integers.

    Args:
        values: The integers, or an Arrow array of them; None for an empty set.
    """

    __slots__ = ("_set",)

    def __init__(self, values: Iterable[int] | pa.Array | pa.ChunkedArray | None = None) -> None:
        """Copy the values.

        Raises:
            InvalidInputError: If a value is not such an integer.
        """
        self._set = _set_of(() if values is None else values)

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int) and 0 <= value <= _MAX and value in self._set

    def __iter__(self) -> Iterator[int]:
        return iter(self._set)

    def __len__(self) -> int:
        return len(self._set)

    def __repr__(self) -> str:
        return f"Bitmap({list(self._set)})"

    def __reduce__(self) -> tuple[type[Bitmap], tuple[list[int]]]:
        return Bitmap, (list(self._set),)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Bitmap):
            return bool(self._set == other._set)
        return isinstance(other, set | frozenset) and set(self) == other

    __hash__ = None  # type: ignore[assignment]  # it can change

    def add(self, value: int) -> None:
        """Add a value."""
        self._set |= _set_of((value,))

    def discard(self, value: int) -> None:
        """Remove a value if the set has it."""
        if value in self:
            self._set.remove(value)

    def pop(self) -> int:
        """Remove the smallest value and return it; raise KeyError if there is none."""
        if not self._set:
            raise KeyError("pop from an empty bitmap")
        return int(self._set.pop())

    def clear(self) -> None:
        """Remove all values."""
        self._set = BitMap()

    def copy(self) -> Bitmap:
        """Return a set with the same values."""
        return self._of(self._set)

    def update(self, values: Iterable[int]) -> None:
        """Add all values."""
        self._set |= _set_of(values)

    def intersection(self, other: Iterable[int]) -> Bitmap:
        """Return the values that both have."""
        return self._of(self._set & _set_of(other))

    def union(self, other: Iterable[int]) -> Bitmap:
        """Return the values that one of the two has."""
        return self._of(self._set | _set_of(other))

    def difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that the other one does not have."""
        return self._of(self._set - _set_of(other))

    def symmetric_difference(self, other: Iterable[int]) -> Bitmap:
        """Return the values that exactly one of the two has."""
        return self._of(self._set ^ _set_of(other))

    def issubset(self, other: Iterable[int]) -> bool:
        """Return whether the other one has all values of this one."""
        return bool(self._set <= _set_of(other))

    def issuperset(self, other: Iterable[int]) -> bool:
        """Return whether this one has all values of the other one."""
        return bool(self._set >= _set_of(other))

    def isdisjoint(self, other: Iterable[int]) -> bool:
        """Return whether the two have no value in common."""
        return not self._set.intersect(_set_of(other))

    def __and__(self, other: Iterable[int]) -> Bitmap:
        return self.intersection(other)

    def __or__(self, other: Iterable[int]) -> Bitmap:  # type: ignore[override]
        return self.union(other)

    def __sub__(self, other: Iterable[int]) -> Bitmap:
        return self.difference(other)

    def __xor__(self, other: Iterable[int]) -> Bitmap:  # type: ignore[override]
        return self.symmetric_difference(other)

    def __rsub__(self, other: Iterable[int]) -> Bitmap:
        return self._of(_set_of(other) - self._set)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __iand__(self, other: Iterable[int]) -> Self:
        self._set &= _set_of(other)
        return self

    def __ior__(self, other: Iterable[int]) -> Self:  # type: ignore[override]
        self.update(other)
        return self

    def __isub__(self, other: Iterable[int]) -> Self:
        self._set -= _set_of(other)
        return self

    def __ixor__(self, other: Iterable[int]) -> Self:  # type: ignore[override]
        self._set ^= _set_of(other)
        return self

    def __le__(self, other: Iterable[int]) -> bool:
        return self.issubset(other)

    def __ge__(self, other: Iterable[int]) -> bool:
        return self.issuperset(other)

    def __lt__(self, other: Iterable[int]) -> bool:
        return bool(self._set < _set_of(other))

    def __gt__(self, other: Iterable[int]) -> bool:
        return bool(self._set > _set_of(other))

    @staticmethod
    def _of(values: Any) -> Bitmap:
        found = Bitmap()
        found._set = BitMap(values)
        return found


def _set_of(values: Iterable[int] | pa.Array | pa.ChunkedArray) -> Any:
    if isinstance(values, Bitmap):
        return values._set
    if isinstance(values, BitMap):
        return BitMap(values)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        found = np.asarray(values)
    else:
        found = np.asarray(list(values)) if isinstance(values, Iterable) else np.asarray(values)
    if not found.size and found.ndim == 1:
        return BitMap()
    if found.ndim != 1 or found.dtype.kind not in "iu" or found.min() < 0 or found.max() > _MAX:
        raise InvalidInputError(f"a bitmap takes integers from 0 to {_MAX}, found {values!r:.80}")
    return roaring(found.astype(np.uint32))


def roaring(numbers: NDArray[np.uint32]) -> BitMap:
    """Return a set of numbers, without containers of runs.

    An array of Python is copied as a whole, one of NumPy number by number.
    """
    return BitMap(array("I", numbers.tobytes()), optimize=False)
