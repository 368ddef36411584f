"""Counters of the requests that went to a store, and of the bytes that they moved.

A request is one call to the store that moves bytes of one object: a ranged read (adjacent ranges
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
    """Requests and bytes between two points in time.

    Attributes:
        read_iops: The number of read requests.
        read_bytes: The bytes that were read.
        write_iops: The number of write requests.
        written_bytes: The bytes that were written.
    """

    read_iops: int = 0
    read_bytes: int = 0
    write_iops: int = 0
    written_bytes: int = 0


class IoCounter:
    """A counter of the requests of all stores of one location. Safe to use from several threads.

    A child process counts from zero.
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
        """Return the counter of a location: files that are kept open serve every store there."""
        return _counters.of(location)

    def renew(self) -> None:
        """Count from zero, with a fresh lock."""
        self._lock = threading.Lock()
        self._reset()

    def __reduce__(self) -> tuple[Callable[[str], IoCounter], tuple[str]]:
        return IoCounter.of, (self._location,)

    def count_read(self, num_bytes: int) -> None:
        """Count one read request."""
        with self._lock:
            self._read_iops += 1
            self._read_bytes += num_bytes

    def count_write(self, num_bytes: int) -> None:
        """Count one write request."""
        with self._lock:
            self._write_iops += 1
            self._written_bytes += num_bytes

    def snapshot(self) -> IOStats:
        """Return the counts since the last `take`."""
        with self._lock:
            return self._counted()

    def take(self) -> IOStats:
        """Return the counts since the last `take`, and start again from zero."""
        with self._lock:
            counted = self._counted()
            self._reset()
            return counted

    def _counted(self) -> IOStats:
        return IOStats(self._read_iops, self._read_bytes, self._write_iops, self._written_bytes)

    def _reset(self) -> None:
        self._read_iops = self._read_bytes = self._write_iops = self._written_bytes = 0


class _Counters:
    """The counters of this process, one for each location with a store."""

    def __init__(self) -> None:
        self._by_location: WeakValueDictionary[str, IoCounter] = WeakValueDictionary()
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Take a fresh lock."""
        self._lock = threading.Lock()

    def of(self, location: str) -> IoCounter:
        """Return the counter of a location."""
        with self._lock:
            found = self._by_location.get(location)
            if found is None:
                found = self._by_location[location] = IoCounter(location)
            return found


_counters = _Counters()
