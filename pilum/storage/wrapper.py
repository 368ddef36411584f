"""A wrapper around a store, for values that are distinguished by the store they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilum.storage.base import Entry, IoCounter, Sink, Source, Store

__all__ = ["StoreWrapper"]


@dataclass(frozen=True)
class StoreWrapper:
    """A store that passes every call to the store it wraps; see `pilum.storage.base.Store`."""

    wrapped: Store

    @property
    def uri(self) -> str:
        """The location of the root, as users write it."""
        return self.wrapped.uri

    @property
    def identity(self) -> str:
        """A string that identifies the store within this process."""
        return self.wrapped.identity

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` gives names in lexical order."""
        return self.wrapped.lists_in_order

    @property
    def options(self) -> dict[str, str]:
        """The storage options that users passed."""
        return self.wrapped.options

    @property
    def is_remote(self) -> bool:
        """Whether concurrent requests to the store are worthwhile."""
        return self.wrapped.is_remote

    @property
    def io(self) -> IoCounter:
        """The counter of what all stores of this root read and write."""
        return self.wrapped.io

    def source(self, path: str, size: int | None = None) -> Source:
        """Open an object for ranged reads."""
        return self.wrapped.source(path, size)

    def read(self, path: str) -> bytes:
        """Read a whole object."""
        return self.wrapped.read(path)

    def sink(self, path: str) -> Sink:
        """Start a new object and return its sink."""
        return self.wrapped.sink(path)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole object, replacing one of the same name."""
        self.wrapped.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole object unless one of the same name exists."""
        return self.wrapped.put_if_absent(path, data)

    def list(self, folder: str) -> Iterator[Entry]:
        """List the objects directly in a folder."""
        return self.wrapped.list(folder)

    def names(self, folder: str) -> Iterator[str]:
        """Return the names of the objects directly in a folder."""
        return self.wrapped.names(folder)

    def folders(self, folder: str) -> Iterator[str]:
        """Return the names of the folders directly in a folder."""
        return self.wrapped.folders(folder)

    def delete(self, path: str) -> None:
        """Remove an object."""
        self.wrapped.delete(path)
