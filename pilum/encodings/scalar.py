"""Whether all values of a page are the same, so that one of them stands for all (since 2.2).

Source: docs/format/encodings-2.1.md, "Version 2.2".
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pilum.blocks import BitBlock, FixedBlock, ListBlock, StringBlock, ValueBlock, block_of
from pilum.encodings.structural.constant import Scalar
from pilum.levels import Levels

__all__ = ["scalar_of"]

_SAMPLE = 64


def scalar_of(leaf: pa.Array, block: ValueBlock, levels: Levels) -> Scalar | None:
    """The value of all valid slots, if they are the same."""
    if isinstance(block, ListBlock):
        return None
    mask = None
    if levels.max_def:
        mask = pa.array(levels.def_[levels.def_ <= levels.max_visible] == 0)
    # A few values tell most pages apart, so that only likely ones are compared as a whole.
    for count in (_SAMPLE, len(leaf)):
        values = leaf.slice(0, count)
        valid = values if mask is None else values.filter(mask.slice(0, count))
        if len(valid) and not _all_same(valid):
            return None
    if len(valid) == 0:
        return None
    one = block_of(valid.slice(0, 1))
    if isinstance(one, BitBlock):
        return Scalar((bytes([valid[0].as_py()]),))
    if isinstance(one, FixedBlock):
        return Scalar((one.data.tobytes(),))
    assert isinstance(one, StringBlock)
    first, last = int(one.offsets[0]), int(one.offsets[1])
    offsets = (one.offsets - first).astype(one.offsets.dtype)
    return Scalar((offsets.tobytes(), one.data[first:last].tobytes()))


def _all_same(values: pa.Array) -> bool:
    """Whether all values are the same, bit for bit."""
    block = block_of(values)
    if isinstance(block, FixedBlock):
        rows = block.data.reshape(block.num_values, -1)
        return bool((rows == rows[0]).all())
    return bool(pc.all(pc.equal(values, values[0])).as_py())
