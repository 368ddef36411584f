"""A naive twin of the search in graphs of near vectors (HNSW); see `pilum.kernels.reference`.

entry point ──closest linked node, until none is closer──▶ level by level, down to level 1
            ──walk of level 0, which keeps the `ef` nearest nodes──▶ the first k of them
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Levels", "levels_of", "walk"]

Levels: TypeAlias = Sequence[Mapping[int, Sequence[int]]]
"""The linked nodes of each node, level by level."""


def levels_of(
    vector_ids: NDArray[np.uint32],
    offsets: NDArray[np.int32],
    linked: NDArray[np.uint32],
    num_nodes: int,
) -> Levels:
    """Return the levels of stored rows: a level ends where the ids no longer ascend."""
    levels: list[dict[int, list[int]]] = []
    before = num_nodes
    for row, node in enumerate(vector_ids.tolist()):
        if row == 0 or (row >= num_nodes and node <= before):
            levels.append({})
        before = node
        levels[-1][node] = linked[offsets[row] : offsets[row + 1]].tolist()
    return levels


def walk(
    levels: Levels,
    entry_point: int,
    distance: Callable[[int], float],
    ef: int,
    passes: Callable[[int], bool] = lambda node: True,
) -> list[int]:
    """Return the nearest nodes that a walk finds, at most `ef`, in ascending order.

    Args:
        levels: The graph.
        entry_point: Where the walk starts.
        distance: The distance of a node from the query.
        ef: Number of nodes that are kept.
        passes: Whether a node may be returned; others are walked through.
    """
    nearest = entry_point
    for level in levels[:0:-1]:
        while True:
            closest = min([nearest, *level.get(nearest, [])], key=distance)
            if distance(closest) >= distance(nearest):
                break
            nearest = closest
    seen, candidates = {nearest}, [(distance(nearest), nearest)]
    found = [(-distance(nearest), -nearest)] if passes(nearest) else []
    while candidates:
        current, node = heapq.heappop(candidates)
        if len(found) == ef and current > -found[0][0]:
            break
        for linked in levels[0][node]:
            if linked in seen:
                continue
            seen.add(linked)
            away = distance(linked)
            if len(found) < ef or away <= -found[0][0]:
                heapq.heappush(candidates, (away, linked))
                if passes(linked):
                    heapq.heappush(found, (-away, -linked))
                    if len(found) > ef:
                        heapq.heappop(found)
    return [-node for _, node in sorted(found, reverse=True)]
