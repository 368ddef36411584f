"""Few combinations of many axes: every two values of two axes meet at least once."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

__all__ = ["covering"]

_Pair = tuple[tuple[str, Any], tuple[str, Any]]
_CANDIDATES = 30


def covering(axes: Mapping[str, Sequence[Any]], seed: int = 1) -> list[dict[str, Any]]:
    """Combinations that together hold all pairs, the same for the same seed.

    Args:
        axes: The values of each axis.
        seed: Of the choice among candidates.
    """
    source = random.Random(seed)
    left = {
        pair
        for one, other in combinations(axes, 2)
        for pair in product(((one, v) for v in axes[one]), ((other, v) for v in axes[other]))
    }
    chosen = []
    while left:
        first = source.choice(sorted(left, key=repr))
        candidates = [_candidate(axes, first, source) for _ in range(_CANDIDATES)]
        best = max(candidates, key=lambda row: len(left & _pairs(row)))
        left -= _pairs(best)
        chosen.append(best)
    return chosen


def _candidate(
    axes: Mapping[str, Sequence[Any]], pair: _Pair, source: random.Random
) -> dict[str, Any]:
    return {name: source.choice(values) for name, values in axes.items()} | dict(pair)


def _pairs(row: Mapping[str, Any]) -> set[_Pair]:
    return set(combinations(row.items(), 2))
