"""Limit the levels of a page, so that the levels of every chunk fit.

A chunk contains the entries up to its last value. Long stretches of lists without items, which own
no value, may exceed its capacity. Source: docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa

from pilum import kernels
from pilum.levels import Levels

__all__ = ["LEVEL_BYTES", "levels_fit_chunks", "most_values", "split_rows"]

_BUDGET_BITS = 131_072
_MAX_LEVELS = 65_535

LEVEL_BYTES = _BUDGET_BITS // 8
"""Upper bound of the bytes of the levels of a chunk."""


def _level_bits(levels: Levels) -> int:
    return levels.max_rep.bit_length() + levels.max_def.bit_length()


def most_values(levels: Levels, wanted: int) -> int:
    """Return the most values of a chunk, a power of two: `wanted`, unless levels limit it."""
    room = _BUDGET_BITS // max(_level_bits(levels), 1)
    return min(wanted, 1 << (room.bit_length() - 1))


def _budget(levels: Levels) -> int:
    """Return the number of entries whose levels always fit a chunk."""
    return min(_BUDGET_BITS // max(_level_bits(levels), 1), _MAX_LEVELS)


def levels_fit_chunks(levels: Levels, chunk_values: int) -> bool:
    """Return whether every chunk has room for its levels, wherever it is cut.

    Args:
        levels: Levels of a page.
        chunk_values: The most values of a chunk.
    """
    budget, empties = _budget(levels), levels.num_entries - levels.num_visible
    values = min(chunk_values, levels.num_visible)
    if empties == 0 or empties + values <= budget:
        return True  # even if all entries without a value were adjacent
    return kernels.most_entries(levels.def_, levels.max_visible, values) <= budget


def split_rows(chain: pa.Array, levels: Levels) -> list[pa.Array]:
    """Split rows so that the entries of each piece keep within the budget where possible."""
    starts = levels.row_starts
    cuts = [0]
    while cuts[-1] < len(chain):
        reach = starts[cuts[-1]] + _budget(levels)
        end = int(np.searchsorted(starts, reach, side="right")) - 1
        behind = len(chain) if levels.num_entries <= reach else end
        cuts.append(min(max(behind, cuts[-1] + 1), len(chain)))
    return [chain.slice(a, b - a) for a, b in pairwise(cuts)]
