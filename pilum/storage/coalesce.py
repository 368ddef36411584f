"""Coalesce many ranges into few reads: which parts of a file to read, and their places in a buffer.

Ranges are sorted, and adjacent ones are joined if reading their gap costs less than another read.
Every joined region has the same offset modulo 64 as in the file, so that data which the format
aligns is also aligned in memory.

    wanted     |aa|   |bb| ....... 1 MB ....... |cc|
    regions    |aa----bb|                       |cc|        two reads into one buffer
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum.kernels import lay_out_ranges

__all__ = ["ALIGNMENT_BYTES", "GAP_BYTES", "Layout", "lay_out"]

ALIGNMENT_BYTES = 64

GAP_BYTES = 16 * 1024
"""Copying this many more bytes out of the page cache takes about as long as one more `pread`; other
stores have a gap of their own.
"""


class Layout(NamedTuple):
    """Disjoint parts of a file that cover some ranges, and their places in one buffer.

    Attributes:
        regions: Offset in the file, size, and place in the buffer of each part.
        starts: int64, shape (ranges,), where each range begins in the buffer.
        size_bytes: Size of the buffer.
    """

    regions: list[tuple[int, int, int]]
    starts: NDArray[np.int64]
    size_bytes: int


def lay_out(
    offsets: NDArray[np.int64],
    sizes: NDArray[np.int64],
    file_size: int,
    gap_bytes: int = GAP_BYTES,
) -> Layout | int:
    """Plan the reads of some ranges; those no further apart than `gap_bytes` are read together.

    Returns:
        The layout, or the index of the first range that does not lie within the file.
    """
    made = lay_out_ranges(offsets, sizes, file_size, gap_bytes)
    return made if isinstance(made, int) else Layout._make(made)
