"""A store around another one, for what is to be told apart by its store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pilum.storage.base import Entry, Sink, Source, Store
from pilum.storage.io_stats import IoCounter

__all__ = ["StoreAround"]


@dataclass(frozen=True)
class StoreAround:
    """Does what the store in it does; see `pilum.storage.base.Store`.

    Attributes:
        own: Where the bytes are.
    """

    own: Store

    @property
    def uri(self) -> str:
        """Where the root is, as users name it."""
        return self.own.uri

    @property
    def identity(self) -> str:
        """Tells it apart in this process."""
        return self.own.identity

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` gives names in lexical order."""
        return self.own.lists_in_order

    @property
    def options(self) -> dict[str, str]:
        """What users gave it as storage options."""
        return self.own.options

    @property
    def is_remote(self) -> bool:
        """Whether several requests at once are worth it."""
        return self.own.is_remote

    @property
    def io(self) -> IoCounter:
        """Counts what all stores of this root read and write."""
        return self.own.io

    def source(self, path: str, size: int | None = None) -> Source:
        """Opens an object for ranged reads."""
        return self.own.source(path, size)

    def read(self, path: str) -> bytes:
        """Reads a whole object."""
        return self.own.read(path)

    def sink(self, path: str) -> Sink:
        """Starts a new object."""
        return self.own.sink(path)

    def put(self, path: str, data: bytes) -> None:
        """Writes an object whole, replacing one of that name."""
        self.own.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes an object whole unless one of that name exists."""
        return self.own.put_if_absent(path, data)

    def list(self, folder: str) -> Iterator[Entry]:
        """Lists the objects directly in a folder."""
        return self.own.list(folder)

    def names(self, folder: str) -> Iterator[str]:
        """Names of the objects directly in a folder."""
        return self.own.names(folder)

    def folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in a folder."""
        return self.own.folders(folder)

    def delete(self, path: str) -> None:
        """Removes an object."""
        self.own.delete(path)
