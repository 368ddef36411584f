"""Choose the encoding of levels: flat, bit-packed to the width of the highest, or run-length.

The choice is made once for all levels of a page; readers support run-length encoding since 2.2.
Source: docs/format/encodings-2.1.md, "What the writer chooses".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import Compressive
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.out_of_line_bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.rle import Rle
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.version import FileVersion
from pilum.levels import Levels

__all__ = ["LevelEncoding", "level_encodings"]

_GROUP = 1024
_RLE_HEAD_BYTES = 8
_RLE_RUN_BYTES = 3
_MAX_RUN = 255
_MAX_CHUNK_LEVELS = 65_535
_MAX_CHUNK_BYTES = 65_535
_MAX_CHUNK_RUNS = (
    _MAX_CHUNK_BYTES - _RLE_HEAD_BYTES
) // _RLE_RUN_BYTES - _MAX_CHUNK_LEVELS // _MAX_RUN
"""Number of runs, of any length, that always fit a chunk."""


@dataclass(frozen=True, slots=True)
class LevelEncoding:
    """The encoding of repetition or definition levels; None if a page has none."""

    encoding: Compressive | None

    @property
    def block(self) -> kernels.Block | None:
        """Return the block for the kernels."""
        return None if self.encoding is None else self.encoding.block()

    def to_proto(self) -> pb.CompressiveEncoding | None:
        """Return the description."""
        return None if self.encoding is None else self.encoding.to_proto()


_NO_LEVELS = LevelEncoding(None)


def level_encodings(levels: Levels, version: FileVersion) -> tuple[LevelEncoding, LevelEncoding]:
    """Return the encodings of the repetition and the definition levels of a page."""
    if not (levels.max_rep or levels.max_def):
        return _NO_LEVELS, _NO_LEVELS
    return (
        LevelEncoding(_encoding(levels.rep, levels.max_rep, version)),
        LevelEncoding(_encoding(levels.def_, levels.max_def, version)),
    )


def _encoding(levels: NDArray[np.uint16], highest: int, version: FileVersion) -> Compressive | None:
    if len(levels) == 0:
        return None
    width = highest.bit_length()
    groups, rest = divmod(len(levels), _GROUP)
    packed_bytes = groups * 128 * width + min(2 * rest, 128 * width)
    if version.has_level_runs and _runs_bytes(levels) < packed_bytes and _runs_fit(levels):
        return Rle(16)
    one_group = len(levels) <= _GROUP
    return (
        Flat(16) if one_group and 128 * width >= 2 * len(levels) else OutOfLineBitpacking(16, width)
    )


def _runs_bytes(levels: NDArray[np.uint16]) -> int:
    return _RLE_HEAD_BYTES + kernels.fixed_costs(levels.view(np.uint8), 16)[0]


def _runs_fit(levels: NDArray[np.uint16]) -> bool:
    """Return whether the runs of every chunk fit, wherever it is cut: their size has 16 bits."""
    starts = np.flatnonzero(levels[1:] != levels[:-1])
    many = starts[_MAX_CHUNK_RUNS:] - starts[:-_MAX_CHUNK_RUNS]
    return bool((many >= _MAX_CHUNK_LEVELS).all())
