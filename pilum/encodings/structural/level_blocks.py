"""How the writer stores levels: flat, or bit-packed in as many bits as the highest needs.

The choice is made once for all levels of a page. Source: docs/format/encodings-2.1.md, "Levels".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.out_of_line_bitpacking import OutOfLineBitpacking
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["level_encoding", "level_width"]


def level_width(levels: NDArray[np.uint16], highest: int) -> int | None:
    """Bits in which levels are stored: packed where that is smaller than 16, None without any."""
    if len(levels) == 0:
        return None
    width = highest.bit_length()
    one_group = len(levels) <= 1024
    return 16 if one_group and 128 * width >= 2 * len(levels) else width


def level_encoding(width: int | None) -> pb.CompressiveEncoding | None:
    """The description of levels of that width, None without any."""
    if width is None:
        return None
    encoding = Flat(16) if width == 16 else OutOfLineBitpacking(16, width)
    return encoding.to_proto()
