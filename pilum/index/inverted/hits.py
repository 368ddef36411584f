"""Rows that a full-text query found, with their scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import Addresses

__all__ = ["Hits"]


@dataclass(frozen=True, eq=False)
class Hits:
    """Rows with their scores; a row may occur several times if documents are elements of lists.

    Attributes:
        references: Row references, uint64.
        scores: float32.
        elements: For documents that are elements of lists, the index at each level, uint32.
        are_ordered: Whether they are known to be in the order of `best`.
    """

    references: Addresses
    scores: NDArray[np.float32]
    elements: tuple[NDArray[np.uint32], ...] = ()
    are_ordered: bool = False

    def __len__(self) -> int:
        return len(self.references)

    @classmethod
    def joined(cls, parts: Sequence[Hits]) -> Hits:
        """Join hits, one after the other."""
        if not parts:
            return cls(np.empty(0, np.uint64), np.empty(0, np.float32))
        if len(parts) == 1:
            return parts[0]
        levels = zip(*(part.elements for part in parts), strict=True)
        return cls(
            np.concatenate([part.references for part in parts]),
            np.concatenate([part.scores for part in parts]),
            tuple(np.concatenate(level) for level in levels),
        )

    def take(self, places: NDArray[np.int64] | NDArray[np.bool_]) -> Hits:
        """Return some of the hits."""
        elements = tuple(level[places] for level in self.elements)
        return Hits(self.references[places], self.scores[places], elements)

    def best(self, k: int | None) -> Hits:
        """Return the `k` best, of equal scores the lowest references; all of them without `k`."""
        if self.are_ordered and (k is None or len(self) <= k):
            return self
        return self.take(np.lexsort((self.references, -self.scores))[:k])

    def greatest(self) -> Hits:
        """Return each row once, with the greatest of its scores."""
        ordered = self.best(None)
        _, first = np.unique(ordered.references, return_index=True)
        return ordered.take(np.sort(first))

    def both(self, other: Hits) -> Hits:
        """Return the rows of both, with the sums of their scores."""
        mine, places = self._match(other)
        kept = self.take(mine)
        return Hits(kept.references, kept.scores + other.scores[places])

    def plus(self, other: Hits, factor: np.float32 | int = 1) -> Hits:
        """Return these rows, with the scores that others have among them added."""
        mine, places = self._match(other)
        scores = self.scores.copy()
        scores[mine] += np.float32(factor) * other.scores[places]
        return Hits(self.references, scores, self.elements)

    def any(self, other: Hits) -> Hits:
        """Return the rows of any, with the sums of their scores."""
        mine, _ = other._match(self)
        rest = np.ones(len(other), np.bool_)
        rest[mine] = False
        return Hits.joined([self.plus(other), other.take(rest)])

    def without(self, other: Hits) -> Hits:
        """Return the rows that others do not have."""
        return self.take(np.isin(self.references, other.references, invert=True))

    def element_lists(self) -> pa.Array | None:
        """Return the index of each element as a list of uint32; None if documents are rows."""
        if not self.elements:
            return None
        values = np.stack(self.elements, axis=1).reshape(-1)
        offsets = np.arange(len(self) + 1, dtype=np.int32) * len(self.elements)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values, pa.uint32()))

    def _match(self, other: Hits) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return where rows are that both have, here and there."""
        order = np.argsort(other.references, kind="stable")
        if not len(order):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        there = other.references[order]
        places = there.searchsorted(self.references)
        places[places == len(there)] = 0
        mine = np.flatnonzero(there[places] == self.references)
        return mine, order[places[mine]]
