"""Detect pages whose values are all equal, so that one scalar represents them (since 2.2).

Source: docs/format/encodings-2.1.md, "Version 2.2".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.blocks import (
    BitBlock,
    FixedBlock,
    ListBlock,
    StringBlock,
    ValueBlock,
    block_of,
    integers,
)
from pilum.encodings.structural.constant import Scalar
from pilum.levels import Levels

__all__ = ["scalar_of"]

_SAMPLE = 64


def scalar_of(leaf: pa.Array, block: ValueBlock, levels: Levels) -> Scalar | None:
    """Return the value of all valid slots, if they are equal, bit for bit."""
    if isinstance(block, ListBlock):
        return None
    # A few values rule out most pages, so that only likely ones are compared as a whole.
    head: Sequence[int] = range(min(block.num_values, _SAMPLE))
    if levels.max_def:
        head = _valid(levels, levels.def_[:_SAMPLE]).tolist()
    if not _may_be_same(block, head):
        return None
    values = leaf
    if levels.max_def:
        values = leaf.take(integers(_valid(levels, levels.def_)))
    if len(values) == 0:
        return None
    if not _all_same(values):
        return None
    one = block_of(values.slice(0, 1))
    if isinstance(one, BitBlock):
        return Scalar((bytes([values[0].as_py()]),))
    if isinstance(one, FixedBlock):
        return Scalar((one.data.tobytes(),))
    assert isinstance(one, StringBlock)
    first, last = int(one.offsets[0]), int(one.offsets[1])
    offsets = (one.offsets - first).astype(one.offsets.dtype)
    return Scalar((offsets.tobytes(), one.data[first:last].tobytes()))


def _valid(levels: Levels, def_: NDArray[np.uint16]) -> NDArray[np.int64]:
    """Return which of the values of some entries are not null."""
    return np.flatnonzero(def_[def_ <= levels.max_visible] == 0)


def _may_be_same(block: FixedBlock | BitBlock | StringBlock, some: Sequence[int]) -> bool:
    """Return whether some sampled values are equal, if there are any."""
    values = (_bytes_of(block, index) for index in some)
    first = next(values, b"")
    return all(value == first for value in values)


def _bytes_of(block: FixedBlock | BitBlock | StringBlock, index: int) -> bytes:
    if isinstance(block, BitBlock):
        place, bit = divmod(block.first + index, 8)
        return bytes([block.data[place] >> bit & 1])
    if isinstance(block, FixedBlock):
        width = block.bits // 8
        return block.data[index * width : (index + 1) * width].tobytes()
    return block.data[block.offsets[index] : block.offsets[index + 1]].tobytes()


def _all_same(values: pa.Array) -> bool:
    """Return whether all values are equal, bit for bit."""
    block = block_of(values)
    if isinstance(block, BitBlock):
        return values.true_count in (0, len(values))
    if isinstance(block, FixedBlock):
        rows = block.data.reshape(block.num_values, -1)
        return bool((rows == rows[0]).all())
    return bool(pc.all(pc.equal(values, values[0])).as_py())
