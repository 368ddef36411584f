"""Tables in the folders of a root.

root/
  orders.lance/                        the table "orders": a folder with a version, or with
    .lance-reserved                      a declaration, for a writer that is about to create it
    .lance-deregistered                  a mark by which it is not listed, though its files stay
  1f3a9c07_sales$orders/               a table that the manifest table lists
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

from pilum.dataset.lance_dataset import LanceDataset, dataset
from pilum.namespace.ids import is_name
from pilum.storage.base import Store, prefetch
from pilum.storage.local import LocalStore
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName
from pilum.table.read.session import Session

__all__ = ["SUFFIX", "Folders", "State"]

_RESERVED: Final = ".lance-reserved"
_DEREGISTERED: Final = ".lance-deregistered"
_MARK: Final = b"reserved"
"""The content of both marks."""
SUFFIX: Final = ".lance"
_PLAIN: Final = " !$&'()*+,/:;=@"


@dataclass(frozen=True)
class State:
    """Contents of the folder of a table."""

    reserved: bool
    deregistered: bool
    has_versions: bool

    @property
    def exists(self) -> bool:
        """Whether the folder is used."""
        return self.reserved or self.has_versions

    @property
    def is_listed(self) -> bool:
        """Whether the folder alone makes it a table."""
        return self.exists and not self.deregistered


@dataclass(frozen=True)
class Folders:
    """The folders of a root.

    Attributes:
        store: The store of the root.
        options: Options with which tables are opened.
        session: Session of the tables.
    """

    store: Store
    options: dict[str, str]
    session: Session | None

    @property
    def root(self) -> str:
        """Location of the root."""
        return self.store.uri.rstrip("/")

    def location(self, folder: str) -> str:
        """Return the location of a folder, in which URIs quote what is not part of the name."""
        return f"{self.root}/{quote(folder, safe=_PLAIN) if '://' in self.root else folder}"

    def folder(self, location: str) -> str:
        """Return the folder of a location, which may also be relative to the root."""
        name = location.removeprefix(f"{self.root}/")
        is_quoted = name != location and "://" in self.root
        return (unquote(name) if is_quoted else name).rstrip("/")

    def uri(self, folder: str) -> str:
        """Return the location of a folder as a URI, also if it is a path."""
        location = self.location(folder)
        return Path(location).as_uri() if location.startswith("/") else location

    def open(self, folder: str, version: Any = None) -> LanceDataset:
        """Open the table of a folder."""
        return dataset(
            self.location(folder), version, storage_options=self.options, session=self.session
        )

    def state(self, folder: str) -> State:
        """Return what a folder contains."""
        marks = {entry.name for entry in self.store.list(folder)}
        names = self.store.names(f"{folder}/{VERSIONS_FOLDER}")  # others may be of a killed drop
        has_versions = any(ManifestName.parse(name) is not None for name in names)
        return State(_RESERVED in marks, _DEREGISTERED in marks, has_versions)

    def listed(self, include_declared: bool) -> Iterator[str]:
        """Yield the names of the tables that have folders of their names."""
        folders = [name for name in self.store.folders("") if name.endswith(SUFFIX)]
        tasks = [partial(self.state, folder) for folder in folders]
        for folder, state in zip(folders, prefetch(self.store, tasks), strict=True):
            name = folder.removesuffix(SUFFIX)
            if state.is_listed and (state.has_versions or include_declared) and is_name(name):
                yield name

    def reserve(self, folder: str) -> bool:
        """Mark a folder as that of a table which is about to be written, unless it is marked."""
        return self.store.put_if_absent(f"{folder}/{_RESERVED}", _MARK)

    def deregister(self, folder: str) -> None:
        """Mark a folder as that of no table."""
        self.store.put(f"{folder}/{_DEREGISTERED}", _MARK)

    def register(self, folder: str) -> None:
        """Remove the mark of `deregister`."""
        self.store.delete(f"{folder}/{_DEREGISTERED}")

    def drop(self, folder: str) -> None:
        """Delete the files of a table."""
        if self.state(folder).has_versions:
            LanceDataset.drop(self.location(folder), self.options)
            return
        for mark in (_RESERVED, _DEREGISTERED):
            self.store.delete(f"{folder}/{mark}")
        if isinstance(self.store, LocalStore):  # only file systems have empty folders
            with suppress(OSError):
                os.rmdir(self.location(folder))
