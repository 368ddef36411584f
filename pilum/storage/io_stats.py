"""How many requests went to a store, and how many bytes they moved.

A request is one call to the store that moves the bytes of one object: a ranged read (neighbours
that were joined count as one), a whole read, a put, or one piece of an object that is written in
pieces. Listing, deleting and asking for a size move no bytes and are not counted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from pilum.parallel import renew_in_child

__all__ = ["IOStats", "IoCounter"]


@dataclass(frozen=True, slots=True)
class IOStats:
    """Requests and bytes between two moments.

    Attributes:
        read_iops: Requests that read.
        read_bytes: Bytes that they read.
        write_iops: Requests that wrote.
        written_bytes: Bytes that they wrote.
    """

    read_iops: int = 0
    read_bytes: int = 0
    write_iops: int = 0
    written_bytes: int = 0


class IoCounter:
    """Counts for the stores of one location. Safe to use from several threads.

    A child process counts from zero.

    Args:
        location: Where the stores are.
    """

    __slots__ = (
        "__weakref__",
        "_location",
        "_lock",
        "_read_bytes",
        "_read_iops",
        "_write_iops",
        "_written_bytes",
    )

    def __init__(self, location: str = "") -> None:
        self._location = location
        self.renew()
        renew_in_child(self)

    @classmethod
    def of(cls, location: str) -> IoCounter:
        """The counter of a location: files that are kept open serve every store there."""
        return _counters.setdefault(location, cls(location))

    def renew(self) -> None:
        """Counts from zero, with a lock that nobody holds."""
        self._lock = threading.Lock()
        self._reset()

    def __reduce__(self) -> tuple[Callable[[str], IoCounter], tuple[str]]:
        return IoCounter.of, (self._location,)

    def count_read(self, num_bytes: int) -> None:
        """Adds one request that read."""
        with self._lock:
            self._read_iops += 1
            self._read_bytes += num_bytes

    def count_write(self, num_bytes: int) -> None:
        """Adds one request that wrote."""
        with self._lock:
            self._write_iops += 1
            self._written_bytes += num_bytes

    def snapshot(self) -> IOStats:
        """What was counted since the last `take`."""
        with self._lock:
            return self._counted()

    def take(self) -> IOStats:
        """What was counted since the last `take`; starts again from zero."""
        with self._lock:
            counted = self._counted()
            self._reset()
            return counted

    def _counted(self) -> IOStats:
        return IOStats(self._read_iops, self._read_bytes, self._write_iops, self._written_bytes)

    def _reset(self) -> None:
        self._read_iops = self._read_bytes = self._write_iops = self._written_bytes = 0


_counters: WeakValueDictionary[str, IoCounter] = WeakValueDictionary()
