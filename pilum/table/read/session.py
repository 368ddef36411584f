"""Sessions: caches of open files and of page metadata, shared by datasets.

    fragment    its manifest entry and the footers of its files           FragmentReader
    page        chunk table, repetition index, dictionary                 of a mini-block page

Both kinds share one limit in bytes, and the least recently used entries are evicted first. Files
never change after they are written, so all datasets of a session can share these entries.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from pilum.cache import Cache, CachePart, CacheStats
from pilum.container.open import open_file
from pilum.container.segments import DataFileReader
from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.read.cache_backend import CacheBackend, backend_bytes

__all__ = ["Session", "default_session"]

_METADATA_CACHE_BYTES = 512 * 1024 * 1024
_INDEX_CACHE_BYTES = 6 * 1024 * 1024 * 1024


class Session:
    """Caches that datasets share. Safe to use from several threads.

    Datasets that are opened without a session share a session of the process. A child process
    starts with empty caches.
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        *,
        index_cache_backend: CacheBackend | None = None,
        metadata_cache_backend: CacheBackend | None = None,
    ) -> None:
        """Create a session with empty caches.

        Args:
            index_cache_size_bytes: Maximum size of opened indices, bytes; 6 GiB if None.
            metadata_cache_size_bytes: Maximum size of open files and of page metadata read by
                random access, bytes; 512 MiB if None.
            index_cache_backend: Alternative to `index_cache_size_bytes`:
                "moka://?capacity=1048576", or a dict with "kind" and "options".
            metadata_cache_backend: Alternative to `metadata_cache_size_bytes`.

        Raises:
            InvalidInputError: If a limit is not a number of bytes, a backend has an unknown kind,
                or both a limit and a backend are given.
        """
        index_bytes = _capacity("index_cache", index_cache_size_bytes, index_cache_backend)
        metadata_bytes = _capacity(
            "metadata_cache", metadata_cache_size_bytes, metadata_cache_backend
        )
        self.indices = Cache(_INDEX_CACHE_BYTES if index_bytes is None else index_bytes)
        self.metadata = Cache(_METADATA_CACHE_BYTES if metadata_bytes is None else metadata_bytes)
        self._files: WeakValueDictionary[str, DataFileReader] = WeakValueDictionary()

    def size_bytes(self) -> int:
        """Return the size of both caches in bytes."""
        return self.indices.size_bytes + self.metadata.size_bytes

    def index_cache_size_bytes(self) -> int:
        """Return the size of opened indices in bytes."""
        return self.indices.size_bytes

    def metadata_cache_stats(self) -> CacheStats:
        """Return hits, misses and size of the cache of files and pages."""
        return self.metadata.stats()

    def index_cache_stats(self) -> CacheStats:
        """Return hits, misses and size of the cache of indices."""
        return self.indices.stats()

    def is_same_as(self, other: Session) -> bool:
        """Return whether both objects are the same session."""
        return self is other

    def open_file(self, store: Store, path: str, size: int | None) -> DataFileReader:
        """Return the reader of a file, which is shared by all of its users."""
        key = f"{store.identity}/{path}:{size}"
        reader = self._files.get(key)
        if reader is None:
            opened = open_file(store.source(path, size), CachePart(self.metadata, key))
            reader = self._files.setdefault(key, opened)
        return reader

    def __repr__(self) -> str:
        return (
            f"Session(index_cache_size_bytes={self.indices.size_bytes}, "
            f"metadata_cache_size_bytes={self.metadata.size_bytes})"
        )


def _capacity(name: str, size_bytes: int | None, backend: CacheBackend | None) -> int | None:
    if backend is None:
        return _limit(f"{name}_size_bytes", size_bytes)
    if size_bytes is not None:
        raise InvalidInputError(f"pass {name}_size_bytes or {name}_backend, not both")
    return backend_bytes(f"{name}_backend", backend)


def _limit(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
        raise InvalidInputError(f"{name}: expected a number of bytes, found {value!r}")
    return int(value)


_default = Session()


def default_session() -> Session:
    """Return the session of datasets that are opened without one."""
    return _default
