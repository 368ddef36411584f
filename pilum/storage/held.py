"""A source for a small file that was read as a whole: its reads are slices of memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.storage.base import Fetched, Ranges

__all__ = ["HeldSource"]


@dataclass(frozen=True, slots=True)
class HeldSource:
    """All bytes of a file.

    Attributes:
        path: The origin of the bytes.
        data: uint8, shape (size,).
    """

    path: str
    data: NDArray[np.uint8]

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.data)

    def read(self, ranges: Ranges) -> Fetched:
        """Return all ranges without copying.

        Raises:
            CorruptFileError: If a range does not lie within the file.
        """
        for offset, size in zip(ranges.offsets.tolist(), ranges.sizes.tolist(), strict=True):
            if offset < 0 or size < 0 or offset + size > len(self.data):
                raise CorruptFileError(
                    f"{size} bytes at {offset} do not lie within the file of {self.size} bytes",
                    self.path,
                )
        return Fetched(self.data, ranges.offsets, ranges.sizes)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
