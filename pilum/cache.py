"""A cache with a limit of bytes that evicts the least recently used values first.

The code that stores a value declares how many bytes it counts. The sum therefore does not depend on
the allocator or on the moment, and a limit can be tested.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from pilum.parallel import renew_in_child

__all__ = ["Cache", "CachePart", "CacheSlot", "CacheStats"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """The content of a cache, and the number of its hits and misses.

    Attributes:
        hits: Look-ups that found their value.
        misses: Look-ups that did not.
        num_entries: The number of cached values.
        size_bytes: The bytes that they count.
    """

    hits: int
    misses: int
    num_entries: int
    size_bytes: int


class Cache:
    """Values by key; the least recently used are evicted first. Safe to use from several threads.

    A child process starts with an empty cache: another thread may have been using this one when the
    process was forked.

    Args:
        limit_bytes: The cached values never count more than this; a larger value is not kept at
            all.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Start again with an empty cache and a fresh lock."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size_bytes = self._hits = self._misses = 0

    def get(self, key: Hashable) -> Any | None:
        """Return the value of a key; None if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Cache a value, replacing the last one of this key.

        Args:
            key: A value of any hashable type.
            value: Any value except None.
            size_bytes: The bytes that the value counts.
        """
        with self._lock:
            self._drop(key)
            self._keep(key, value, size_bytes)

    def put_if_absent(self, key: Hashable, value: Any, size_bytes: int) -> Any:
        """Cache a value unless another thread was faster; return the one that is cached."""
        with self._lock:
            if entry := self._entries.get(key):
                return entry[0]
            self._keep(key, value, size_bytes)
            return value

    def resize(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Update the size of a value that has grown; does nothing if it is no longer cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0] is value:
                self._drop(key)
                self._keep(key, value, size_bytes)

    def clear(self) -> None:
        """Drop all values; the counts of hits and misses are kept."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The bytes that the cached values count."""
        return self._size_bytes

    def stats(self) -> CacheStats:
        """Return the counts since the cache was created."""
        with self._lock:
            return CacheStats(self._hits, self._misses, len(self._entries), self._size_bytes)

    def _drop(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size_bytes -= entry[1]

    def _keep(self, key: Hashable, value: Any, size_bytes: int) -> None:
        if size_bytes > self.limit_bytes:
            return
        self._entries[key] = value, size_bytes
        self._size_bytes += size_bytes
        while self._size_bytes > self.limit_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size_bytes -= freed


@dataclass(frozen=True, slots=True)
class CacheSlot:
    """The place of one value in a cache."""

    cache: Cache
    key: Hashable

    def get(self) -> Any | None:
        """Return the value; None if it is not cached."""
        return self.cache.get(self.key)

    def put(self, value: Any, size_bytes: int) -> None:
        """Cache the value."""
        self.cache.put(self.key, value, size_bytes)


@dataclass(frozen=True, slots=True)
class CachePart:
    """The slots of one owner in a cache, such as those of all pages of a file."""

    cache: Cache
    owner: Hashable

    def slot(self, *place: Hashable) -> CacheSlot:
        """Return the slot of one value."""
        return CacheSlot(self.cache, (self.owner, *place))
