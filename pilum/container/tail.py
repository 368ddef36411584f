"""The end of a file, which is read first; parts that lie in it need no further request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.storage.base import MemorySource, Plan, Ranges, Source

__all__ = ["Tail"]

_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Tail:
    """The last bytes of a file, or all bytes of a short file.

    Attributes:
        start: Position of the first byte in the file.
        data: uint8, shape (n,).
    """

    start: int
    data: NDArray[np.uint8]

    @classmethod
    def read(cls, source: Source) -> Tail:
        """Read the end of a file."""
        if isinstance(source, MemorySource):
            return cls(0, source.data)
        start = max(source.size - _BYTES, 0)
        return cls(start, source.read(Ranges.of((start, source.size - start)))[0])

    def holds(self, position: int) -> bool:
        """Return whether it contains the bytes from a position on."""
        return position >= self.start

    def slice(self, position: int, size: int) -> NDArray[np.uint8]:
        """Return bytes of the file from a position that the tail holds."""
        return self.data[position - self.start : position - self.start + size]

    def since(self, position: int) -> Tail:
        """Return the tail from a position on, copied if it is shorter than this one."""
        if position <= self.start:
            return self
        return Tail(position, self.data[position - self.start :].copy())

    def extended(self, position: int) -> Plan[Tail]:
        """Read the bytes from an earlier position on."""
        fetched = yield Ranges.of((position, self.start - position))
        return Tail(position, np.concatenate((fetched[0], self.data)))

    def all_at(self, places: Sequence[tuple[int, int]]) -> Plan[list[NDArray[np.uint8]]]:
        """Return bytes at several positions; those before the tail are read together."""
        missing = [place for place in places if not self.holds(place[0])]
        fetched = iter((yield Ranges.of(*missing)) if missing else ())
        return [self.slice(at, size) if self.holds(at) else next(fetched) for at, size in places]

    def bytes_at(self, position: int, size: int) -> Plan[NDArray[np.uint8]]:
        """Return bytes of the file, which are read only if they lie before the tail."""
        if self.holds(position):
            return self.slice(position, size)
        fetched = yield Ranges.of((position, size))
        return fetched[0]
