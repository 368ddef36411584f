"""Answers of indices: sets of row references, with SQL's three truth values.

    a = 5            rows 3 9         nulls 4           exact
    NOT a = 5        all but 3 4 9    nulls 4           exact: null is neither true nor false
    s LIKE '%ab%'    rows 1 2 7                         at most: some of them may not match

A row reference is a uint64: the address of a row or its stable row id, as the index type stores
it. A set lists rows, or says which rows it does not contain, so that NOT costs nothing. It is a
sorted array, a Roaring bitmap or bits of adjacent rows, as the index or a scan has it; two bitmaps
are combined as bitmaps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap64

from pilum.format.rows import Addresses
from pilum.kernels import places_of_bits

__all__ = ["Answer", "RowBits", "RowSet", "distinct", "is_among"]

Integer = TypeVar("Integer", bound=np.integer)

_EMPTY = np.empty(0, dtype=np.uint64)


class RowBits(NamedTuple):
    """Adjacent rows of a fragment, with a bit for each.

    Attributes:
        first: The reference of the first row, less than 2^63.
        bitmap: The bits, least significant first.
        start: The number of the bit of the first row.
        num_rows: The number of rows.
        num_set: The number of rows whose bit is set.
    """

    first: int
    bitmap: NDArray[np.uint8]
    start: int
    num_rows: int
    num_set: int


class RowSet:
    """A set of row references; immutable.

    Args:
        listed: uint64, sorted and distinct; or a Roaring bitmap, which is not copied.
        is_complement: Whether the set contains all rows except the listed ones.

    Attributes:
        is_complement: See above.
        bits: The rows in `listed` as bits, in ascending order, if they are kept as such.
    """

    __slots__ = ("_bitmap", "_listed", "bits", "is_complement")

    def __init__(self, listed: Addresses | BitMap64 = _EMPTY, is_complement: bool = False) -> None:
        self._bitmap: BitMap64 | None = None
        self._listed: Addresses | None = None
        self.bits: Sequence[RowBits] | None = None
        if isinstance(listed, BitMap64):
            self._bitmap = listed
        else:
            self._listed = listed
        self.is_complement = is_complement

    @classmethod
    def of(cls, references: Addresses) -> RowSet:
        """Build a set from references in any order, which may repeat."""
        if _is_ascending(references):
            return cls(references)
        ordered = np.sort(references)
        return cls(ordered if _is_ascending(ordered) else distinct(ordered))

    @classmethod
    def of_bits(cls, bits: Sequence[RowBits]) -> RowSet:
        """Build a set of the rows whose bits are set, given runs of rows in ascending order."""
        made = cls()
        made._listed, made.bits = None, bits
        return made

    @property
    def listed(self) -> Addresses:
        """The references that the set contains or, of a complement, does not; uint64, sorted."""
        if self._listed is None and self.bits is not None:
            found = [places_of_bits(r.bitmap, r.start, r.num_rows, r.first) for r in self.bits]
            self._listed = np.concatenate([_EMPTY, *[rows.view(np.uint64) for rows in found]])
        if self._listed is None:
            assert self._bitmap is not None
            self._listed = np.frombuffer(self._bitmap.to_array(), dtype=np.uint64)
        return self._listed

    @property
    def num_listed(self) -> int:
        """The number of references in `listed`."""
        if self.bits is not None:
            return sum([run.num_set for run in self.bits])
        return len(self.listed if self._bitmap is None else self._bitmap)

    @property
    def size_bytes(self) -> int:
        """The approximate memory of the set, without what is derived from it."""
        if self.bits is not None:
            return sum([run.bitmap.nbytes for run in self.bits])
        return 8 * self.num_listed

    def count_listed(self, first: int, stop: int) -> int:
        """Return how many of `listed` are in [first, stop)."""
        if self._bitmap is not None:
            return int(self._bitmap.range_cardinality(first, stop))
        low, high = self.listed.searchsorted(np.array([first, stop], np.uint64)).tolist()
        return int(high - low)

    @property
    def bitmap(self) -> BitMap64 | None:
        """The references in `listed` as a Roaring bitmap, if they are kept as such."""
        return self._bitmap

    @property
    def is_empty(self) -> bool:
        """Whether the set certainly contains no row."""
        return not self.is_complement and self.num_listed == 0

    def contains(self, references: Addresses) -> NDArray[np.bool_]:
        """Return for each reference whether the set contains it; they may be in any order."""
        return np.asarray(is_among(references, self.listed) ^ self.is_complement)

    def within(self, references: Addresses) -> Addresses:
        """Return those of some sorted references that the set contains."""
        if not self.is_complement and self.num_listed < len(references):
            return self.listed[is_among(self.listed, references)]
        return references[self.contains(references)]

    def __invert__(self) -> RowSet:
        inverse = RowSet(_EMPTY, not self.is_complement)
        inverse._listed, inverse._bitmap, inverse.bits = self._listed, self._bitmap, self.bits
        return inverse

    def __and__(self, other: RowSet) -> RowSet:
        if self.is_complement and other.is_complement:
            return ~(~self | ~other)
        if self.is_complement:
            return other & self
        if self._bitmap is not None and other._bitmap is not None:
            is_without = other.is_complement
            one, two = self._bitmap, other._bitmap
            return RowSet(one - two if is_without else one & two)
        return RowSet(other.within(self.listed))

    def __or__(self, other: RowSet) -> RowSet:
        if self.is_complement or other.is_complement:
            return ~(~self & ~other)
        if self._bitmap is not None and other._bitmap is not None:
            return RowSet(self._bitmap | other._bitmap)
        return RowSet(_union(self.listed, other.listed))

    def __sub__(self, other: RowSet) -> RowSet:
        return self & ~other


_NO_ROWS = RowSet()


class Answer:
    """The answer of an index to a condition; immutable.

    The rows for which the condition is null only matter where it is negated. So an index may pass
    a function, which is called at the first access to `nulls` and reads what it needs.

    Attributes:
        rows: The rows for which it is true; if not `is_exact`, the only rows for which it can be.
        is_exact: Whether the condition need not be tested again.
    """

    __slots__ = ("_nulls", "is_exact", "rows")

    def __init__(
        self,
        rows: RowSet,
        nulls: RowSet | Callable[[], RowSet] = _NO_ROWS,
        is_exact: bool = True,
    ) -> None:
        self.rows = rows
        self.is_exact = is_exact
        self._nulls = nulls

    @property
    def nulls(self) -> RowSet:
        """The rows for which it is null; unknown, and empty, if not `is_exact`.

        Raises:
            CorruptFileError: If the index has to read a file that is damaged.
        """
        if not isinstance(self._nulls, RowSet):
            self._nulls = self._nulls()
        return self._nulls

    def __and__(self, other: Answer) -> Answer:
        rows = self.rows & other.rows
        if not (self.is_exact and other.is_exact):
            return Answer(rows, is_exact=False)
        return Answer(rows, lambda: ((self.rows | self.nulls) & (other.rows | other.nulls)) - rows)

    def __or__(self, other: Answer) -> Answer:
        rows = self.rows | other.rows
        if not (self.is_exact and other.is_exact):
            return Answer(rows, is_exact=False)
        return Answer(rows, lambda: (self.nulls | other.nulls) - rows)

    def __invert__(self) -> Answer:
        """Negate an exact answer; what is known at most cannot be negated."""
        assert self.is_exact
        return Answer(~(self.rows | self.nulls), self._nulls)


def _is_ascending(references: Addresses) -> bool:
    return len(references) < 2 or bool((references[:-1] < references[1:]).all())


def is_among(references: NDArray[Integer], others: NDArray[Integer]) -> NDArray[np.bool_]:
    """Return for each of some references whether it is in a sorted array."""
    if len(others) == 0:
        return np.zeros(len(references), dtype=np.bool_)
    places = others.searchsorted(references)
    places[places == len(others)] = 0
    return np.asarray(others[places] == references)


def _union(left: Addresses, right: Addresses) -> Addresses:
    if len(left) == 0 or len(right) == 0:
        return right if len(left) == 0 else left
    both = np.concatenate((left, right))
    both.sort(kind="stable")  # a stable sort merges sorted runs
    return distinct(both)


def distinct(ordered: Addresses) -> Addresses:
    """Return sorted references without duplicates; much faster than `np.unique`."""
    is_first = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]
