"""The caches of an open file: what it shares with other files, and what its pages keep.

Most files of a table have the same schema, and many pages the same description. Small files often
have the same column metadata, byte for byte. They share the parsed objects, which saves time and
memory in tables of very many files or columns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from pilum.cache import Cache, CachePart
from pilum.parallel import renew_in_child

__all__ = ["Descriptions", "FileCaches"]

T = TypeVar("T")

_LIMIT_BYTES = 16 * 1024 * 1024
_PAGE_CACHE_BYTES = 64 * 1024 * 1024
_OBJECT_BYTES = 512
_PARSED_FACTOR = 8
"""Bytes of memory per byte of a serialised description."""


class Descriptions:
    """Parsed descriptions by their bytes, in bounded memory. Safe to use from several threads.

    Finding one takes no lock, as tables have very many pages. The oldest are evicted first.

    Args:
        limit_bytes: The approximate memory of the descriptions, bytes.
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

        Args:
            parse: A function whose result depends on its arguments only, and is immutable.
            data: The serialised description.
            context: Other arguments, such as the version of the file.
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


@dataclass(frozen=True, slots=True)
class FileCaches:
    """The caches of an open file.

    Attributes:
        descriptions: Parsed descriptions that it shares with other files.
        pages: What its pages need for every random access, such as tables of chunks.
    """

    descriptions: Descriptions
    pages: CachePart

    @classmethod
    def private(cls, path: str, descriptions: Descriptions | None = None) -> FileCaches:
        """Return caches for one file; its descriptions may be shared."""
        return cls(descriptions or Descriptions(), CachePart(Cache(_PAGE_CACHE_BYTES), path))
