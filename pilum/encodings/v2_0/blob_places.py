"""Positions of blob payloads: two words per row, as a `packed_struct`.

    payload of some bytes    position in the file, size
    empty payload            0, 0
    null                     1, 0

Payloads lie before the page, each at a multiple of 64 bytes; the first may be at 0.
Source: docs/format/encodings-2.0.md, "Blobs".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pilum.blocks import validity_mask
from pilum.encodings.v2_0.base import Encoded
from pilum.encodings.v2_0.packed_struct import PackedStruct

__all__ = ["encode_places"]


def encode_places(array: pa.Array) -> Encoded:
    """Encode positions and sizes; nulls get special words."""
    valid = validity_mask(array)
    position, size = (
        array.field(index).to_numpy(zero_copy_only=False).astype(np.uint64) for index in (0, 1)
    )
    position[~valid], size[~valid] = 1, 0
    members = [pa.array(position), pa.array(size)]
    return PackedStruct.encode(pa.StructArray.from_arrays(members, ["position", "size"]), 0)
