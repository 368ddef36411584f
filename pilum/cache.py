"""Values that are kept because they are likely to be needed again, within a limit of bytes.

Who puts a value in says how many bytes it counts, so the sum does not depend on the allocator or
on the moment, and a limit can be tested. The least recently used values go first.
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
    """What a cache holds, and how well it did.

    Attributes:
        hits: Look-ups that found their value.
        misses: Look-ups that did not.
        num_entries: Values at hand.
        size_bytes: Bytes that they count.
    """

    hits: int
    misses: int
    num_entries: int
    size_bytes: int


class Cache:
    """Values by key, the least recently used out first. Safe to use from several threads.

    A child process starts with an empty cache: another thread may have been at work on this one
    when the process was forked.

    Args:
        limit_bytes: The values at hand never count more; a larger value is not kept at all.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Begins anew, with a lock that nobody holds."""
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._size_bytes = self._hits = self._misses = 0

    def get(self, key: Hashable) -> Any | None:
        """The value of a key, None if it is not at hand."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                self._misses += 1
                return None
            self._hits += 1
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Keeps a value, in the place of the last one of this key.

        Args:
            key: Of any type that hashes.
            value: Anything but None.
            size_bytes: What it counts.
        """
        with self._lock:
            self._drop(key)
            self._keep(key, value, size_bytes)

    def put_if_absent(self, key: Hashable, value: Any, size_bytes: int) -> Any:
        """Keeps a value unless another thread was faster; returns the one that is kept."""
        with self._lock:
            if entry := self._entries.get(key):
                return entry[0]
            self._keep(key, value, size_bytes)
            return value

    def resize(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Counts a value anew, as it has grown; nothing if it is no longer kept."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[0] is value:
                self._drop(key)
                self._keep(key, value, size_bytes)

    def clear(self) -> None:
        """Drops all values; hits and misses stay."""
        with self._lock:
            self._entries.clear()
            self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes that the values at hand count."""
        return self._size_bytes

    def stats(self) -> CacheStats:
        """Counts since the cache was made."""
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
        """The value, None if it is not at hand."""
        return self.cache.get(self.key)

    def put(self, value: Any, size_bytes: int) -> None:
        """Keeps the value."""
        self.cache.put(self.key, value, size_bytes)


@dataclass(frozen=True, slots=True)
class CachePart:
    """The places of one owner in a cache, such as those of all pages of a file."""

    cache: Cache
    owner: Hashable

    def slot(self, *place: Hashable) -> CacheSlot:
        """One of them."""
        return CacheSlot(self.cache, (self.owner, *place))
