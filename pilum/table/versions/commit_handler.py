"""How the next manifest gets its name, and how manifests are found: the seam of all commits.

    handler                     a version is decided by
    ConditionalPut              creating the manifest under its final name, unless there is one
    LockedPut                   the same name, looked at and written while a lock is held
    ExternalManifests           an entry of a key-value store (`external/`)

A handler knows no table: it is told the store each time, so that one serves a table and its
branches. It travels with the store, as `TableStore`; all that commits or looks for a version asks
`handler_of(store)`. Detached versions, whose random numbers nobody competes for, do without.

Source: docs/format/table.md, "Commit protocol".
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from pilum.errors import (
    CommitConflictError,
    CommitError,
    CommitStatusUnknownError,
    NotFoundError,
)
from pilum.storage.around import StoreAround
from pilum.storage.base import Store, write_object
from pilum.storage.open import open_beside
from pilum.table.model.names import ManifestName
from pilum.table.versions.listing import listed_manifests, newest_listed

__all__ = [
    "CommitHandler",
    "CommitLock",
    "ConditionalPut",
    "LockedPut",
    "TableStore",
    "exists",
    "handler_of",
    "open_line",
]

CommitLock = Callable[[int], AbstractContextManager[object]]
"""Given the number of a version, a context in which nobody else writes that version."""


_REFUSALS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM}
    | {errno.EROFS}
)
"""What a file system says at once: nothing is under way that could still arrive."""


class CommitHandler(Protocol):
    """Decides which manifest becomes a version. Safe to use from several threads."""

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Makes a manifest the one of its version, unless that version exists.

        Returns:
            Whether it is now; False only if the version is another's for certain.

        Raises:
            OSError: If it is not known what became of it.
            CommitError: If the manifest certainly did not become the version.
        """
        ...

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """All versions in history, oldest first; those before `since` may be left out.

        Raises:
            CorruptFileError: If two naming schemes are mixed.
        """
        ...

    def latest(self, store: Store) -> ManifestName | None:
        """The newest version, None if there is no table."""
        ...

    def settle(self, store: Store, version: int) -> str | None:
        """Finishes what the writer of a version began and did not end.

        Returns:
            Path of the manifest if the version is decided elsewhere than by its final name.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConditionalPut:
    """The store itself lets exactly one writer create a name."""

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Creates the manifest unless there is one of its name.

        Raises:
            CommitError: If the file system refused, and there is no such version afterwards.
            OSError: If the store failed otherwise.
        """
        try:
            return store.put_if_absent(name.path, data)
        except OSError as error:
            if error.errno in _REFUSALS and not store.is_remote and not exists(store, name.path):
                raise CommitError(
                    f"{store.uri}: version {name.version} could not be written: {error}"
                ) from error
            raise

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """What the folder of versions holds."""
        return listed_manifests(store, since)

    def latest(self, store: Store) -> ManifestName | None:
        """The newest that the folder of versions holds."""
        return newest_listed(store)

    def settle(self, store: Store, version: int) -> str | None:
        """Nothing is ever half done."""
        del store, version
        return None


@dataclass(frozen=True, slots=True)
class LockedPut(ConditionalPut):
    """A lock of the user keeps writers apart, for stores that cannot.

    Attributes:
        lock: Entered with the number of the version; left when the manifest is written, or with
            an exception if it was not.
    """

    lock: CommitLock

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Looks for the manifest and writes it, both under the lock.

        Raises:
            CommitError: If the lock could not be entered.
            CommitConflictError: If the lock says that the version is taken, and there is none.
            CommitStatusUnknownError: If leaving the lock failed after the write.
            OSError: If the write failed.
        """
        written = False
        try:
            with ExitStack() as stack:
                self._enter(stack, store, name.version)
                _require_absent(store, name)
                write_object(store, name.path, data)
                written = True
        except Exception as error:
            if written:
                raise CommitStatusUnknownError(
                    f"{store.uri}: version {name.version} was written, but leaving the commit lock "
                    f"failed: {error!r}; look whether it is still there before doing it again",
                    version=name.version,
                ) from error
            if isinstance(error, CommitConflictError) and exists(store, name.path):
                return False
            if isinstance(error, CommitError | OSError):
                raise
            raise OSError(f"{store.uri}: leaving the commit lock failed: {error!r}") from error
        return written

    def _enter(self, stack: ExitStack, store: Store, version: int) -> None:
        try:
            stack.enter_context(self.lock(version))
        except CommitConflictError:
            raise
        except Exception as error:
            raise CommitError(
                f"{store.uri}: no lock for version {version}, so nothing was committed: {error!r}"
            ) from error


@dataclass(frozen=True)
class TableStore(StoreAround):
    """A store together with the way in which its versions are decided.

    Attributes:
        handler: Who decides.
    """

    handler: CommitHandler


_CONDITIONAL_PUT = ConditionalPut()


def handler_of(store: Store) -> CommitHandler:
    """Who decides about the versions of the table in a store."""
    while isinstance(store, StoreAround):
        if isinstance(store, TableStore):
            return store.handler
        store = store.own
    return _CONDITIONAL_PUT


def open_line(store: Store, uri: str) -> Store:
    """Opens the store of another line of a table: its versions are decided in the same way.

    Args:
        store: Of one line, such as a branch.
        uri: Of the other.
    """
    other = open_beside(store, uri)
    return TableStore(other, handler_of(store)) if isinstance(store, TableStore) else other


def exists(store: Store, path: str) -> bool:
    """Whether there is an object of this name."""
    try:
        store.source(path).close()
    except NotFoundError:
        return False
    return True


def _require_absent(store: Store, name: ManifestName) -> None:
    if exists(store, name.path):
        raise CommitConflictError(f"{store.uri} has a version {name.version} already")
