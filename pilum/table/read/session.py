"""Sessions: caches of open files and of page metadata, shared by datasets.

    fragment    its manifest entry and the footers of its files           FragmentReader
    page        chunk table, repetition index, dictionary                 of a mini-block page

Both kinds share one limit in bytes, and the least recently used entries are evicted first. Files
never change after they are written, so all datasets of a session can share these entries.

A session also keeps which files have been compared with their manifest (`agreement.py`), and parsed
schemas and descriptions of columns and pages, in a small cache of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakValueDictionary

from pilum.cache import Cache, CachePart, CacheStats, Descriptions, FileCaches
from pilum.container.open import open_file
from pilum.container.segments import DataFileReader
from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.read.agreement import Agreement

__all__ = ["DEFAULT_SESSION", "CacheBackend", "Session"]

CacheBackend = str | Mapping[str, object]
"""Cache settings of the reference: `"moka://?capacity=1048576"`, or the same as a dict."""

_BACKEND_KIND = "moka"

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
        self.agreement = Agreement()
        self.descriptions = Descriptions()
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
            caches = FileCaches(self.descriptions, CachePart(self.metadata, key))
            opened = open_file(store.source(path, size), caches)
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
    return _backend_bytes(f"{name}_backend", backend)


def _limit(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 0:
        raise InvalidInputError(f"{name}: expected a number of bytes, found {value!r}")
    return int(value)


def _backend_bytes(name: str, backend: CacheBackend) -> int:
    """Return the capacity of a cache in bytes.

    This library has one kind of cache, which evicts the least recently used entries. Of the
    reference's default kind, only the capacity is used. Other kinds are refused by name.
    """
    kind, options = _parsed_backend(name, backend)
    if kind != _BACKEND_KIND:
        raise InvalidInputError(f"{name}: expected the kind {_BACKEND_KIND!r}, found {kind!r}")
    if unknown := options.keys() - {"capacity"}:
        raise InvalidInputError(f"{name}: unknown options {sorted(unknown)}")
    capacity = options.get("capacity")
    if not isinstance(capacity, str) or not capacity.isdecimal():
        raise InvalidInputError(f"{name}: expected a capacity in bytes, found {capacity!r}")
    return int(capacity)


def _parsed_backend(name: str, backend: CacheBackend) -> tuple[object, Mapping[str, object]]:
    if isinstance(backend, str):
        uri = urlsplit(backend)
        return uri.scheme or backend, dict(parse_qsl(uri.query))
    options = backend.get("options") or {} if isinstance(backend, Mapping) else None
    if not isinstance(backend, Mapping) or not isinstance(options, Mapping):
        raise InvalidInputError(f"{name}: expected a URI or a dict, found {backend!r:.80}")
    return backend.get("kind"), options


DEFAULT_SESSION = Session()
"""The session of datasets that are opened without one."""
