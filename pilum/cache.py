"""Caches with a limit of bytes.

Cache          values by key; the least recently used are evicted first
Descriptions   parsed descriptions by their bytes; the oldest are evicted first
FileCaches     the caches of an open file: both of them

The code that stores a value declares how many bytes it counts. The sum therefore does not depend on
the allocator or on the moment, and a limit can be tested.

Most files of a table have the same schema, and many pages the same description. Small files often
have the same column metadata, byte for byte. They share the parsed objects, which saves time and
memory in tables of very many files or columns.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from pilum.parallel import renew_in_child

__all__ = ["Cache", "CachePart", "CacheSlot", "CacheStats", "Descriptions", "FileCaches"]


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

    The values never count more than `limit_bytes`; a larger one is not kept at all. A child process
    starts with an empty cache: another thread may have been using this one at the fork.
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

    def get_all(self, keys: Iterable[Hashable]) -> list[Any | None]:
        """Return the values of several keys; None for each that is not cached."""
        with self._lock:
            found: list[Any | None] = []
            for key in keys:
                entry = self._entries.get(key)
                if entry is None:
                    self._misses += 1
                    found.append(None)
                else:
                    self._hits += 1
                    self._entries.move_to_end(key)
                    found.append(entry[0])
            return found

    def put(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Cache a value other than None, replacing the last one of this key."""
        with self._lock:
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

    def _keep(self, key: Hashable, value: Any, size_bytes: int) -> None:
        """Replace the value of a key."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._size_bytes -= entry[1]
        if size_bytes > self.limit_bytes:
            return
        self._entries[key] = value, size_bytes
        self._size_bytes += size_bytes
        while self._size_bytes > self.limit_bytes:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size_bytes -= freed


class CacheSlot(NamedTuple):
    """The place of one value in a cache."""

    cache: Cache
    key: Hashable

    def get(self) -> Any | None:
        """Return the value; None if it is not cached."""
        return self.cache.get(self.key)

    def put(self, value: Any, size_bytes: int) -> None:
        """Cache the value."""
        self.cache.put(self.key, value, size_bytes)


class CachePart(NamedTuple):
    """The slots of one owner in a cache, such as those of all pages of a file."""

    cache: Cache
    owner: Hashable

    def slot(self, *place: Hashable) -> CacheSlot:
        """Return the slot of one value."""
        return CacheSlot(self.cache, (self.owner, *place))


T = TypeVar("T")

_LIMIT_BYTES = 16 * 1024 * 1024
_PAGE_CACHE_BYTES = 64 * 1024 * 1024
_OBJECT_BYTES = 512
_PARSED_FACTOR = 8
"""Bytes of memory per byte of a serialised description."""


class Descriptions:
    """Parsed descriptions by their bytes, in bounded memory. Safe to use from several threads.

    Finding one takes no lock, as tables have very many pages. The oldest are evicted first.
    """

    def __init__(self, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Start again with no descriptions and a fresh lock."""
        self._lock = threading.Lock()
        self._found: dict[tuple[Hashable, ...], tuple[Any, int]] = {}
        self._size_bytes = 0

    def parsed(self, parse: Callable[..., T], data: bytes, *context: Hashable) -> T:
        """Return `parse(data, *context)`, or an earlier result for the same arguments.

        The result, immutable, depends on the arguments only: the serialised description, and such
        context as the version of the file.
        """
        key = parse, data, *context
        found = self._found.get(key)
        if found is None:
            size_bytes = _OBJECT_BYTES + _PARSED_FACTOR * len(data)
            found = self._keep(key, parse(data, *context), size_bytes)
        result: T = found[0]
        return result

    def _keep(self, key: tuple[Hashable, ...], parsed: Any, size_bytes: int) -> tuple[Any, int]:
        with self._lock:
            entry = self._found.get(key)
            if entry is None:
                entry = self._found[key] = parsed, size_bytes
                self._size_bytes += size_bytes
            while self._size_bytes > self._limit_bytes:
                self._size_bytes -= self._found.pop(next(iter(self._found)))[1]
            return entry


SHARED_DESCRIPTIONS = Descriptions()
"""The descriptions of all sessions and indices of the process."""

_INDEX_PAGES = Cache(_PAGE_CACHE_BYTES)


class FileCaches(NamedTuple):
    """The caches of an open file.

    The parsed descriptions are shared with other files; `pages` has what pages need for every
    random access, such as tables of chunks.
    """

    descriptions: Descriptions
    pages: CachePart

    @classmethod
    def private(cls, path: str, descriptions: Descriptions | None = None) -> FileCaches:
        """Return caches for one file; its descriptions may be shared."""
        return cls(descriptions or Descriptions(), CachePart(Cache(_PAGE_CACHE_BYTES), path))

    @classmethod
    def of_index(cls) -> FileCaches:
        """Return caches for a file of an index, in the memory of all such files of the process."""
        return cls(SHARED_DESCRIPTIONS, CachePart(_INDEX_PAGES, object()))
