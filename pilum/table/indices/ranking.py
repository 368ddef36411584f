"""Rows in the order of their distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses

__all__ = ["Nearest"]


@dataclass(frozen=True, eq=False)
class Nearest:
    """Rows with their distances: nearest first, at equal distances in the order of their ids.

    Attributes:
        ids: Row ids, uint64; addresses in tables without stable row ids.
        distances: float32.
    """

    ids: Addresses
    distances: NDArray[np.float32]

    @classmethod
    def of(cls, parts: Sequence[Nearest], k: int) -> Nearest:
        """Return the `k` nearest rows of several parts."""
        if len(parts) == 1 and len(parts[0]) <= k:
            return parts[0]
        ids = np.concatenate([np.empty(0, np.uint64), *(one.ids for one in parts)])
        distances = np.concatenate([np.empty(0, np.float32), *(one.distances for one in parts)])
        return cls.ordered(ids, distances, k)

    @classmethod
    def ordered(cls, ids: Addresses, distances: NDArray[np.float32], k: int) -> Nearest:
        """Return the `k` nearest of some rows in any order."""
        if len(ids) > k:
            few = distances <= np.partition(distances, k - 1)[k - 1]
            ids, distances = ids[few], distances[few]
        order = np.lexsort((ids, distances))[:k]
        return cls(ids[order], distances[order])

    def within(self, lower: float | None, upper: float | None) -> Nearest:
        """Return the rows whose distance is at least `lower` and less than `upper`."""
        if lower is None and upper is None:
            return self
        is_kept = np.ones(len(self.ids), np.bool_)
        if lower is not None:
            is_kept &= self.distances >= np.float32(lower)
        if upper is not None:
            is_kept &= self.distances < np.float32(upper)
        return Nearest(self.ids[is_kept], self.distances[is_kept])

    def __len__(self) -> int:
        return len(self.ids)
