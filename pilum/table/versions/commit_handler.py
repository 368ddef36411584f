"""Commit handlers: how manifests are published and found. All commits use this interface.

    handler                     what decides about a version
    ConditionalPut              creating the manifest under its final name, if that is free
    LockedPut                   checking and writing the final name while a lock is held
    ExternalManifests           an entry of a key-value store (`external_manifests.py`)

A handler is not bound to a table: each call takes the store, so that one handler serves a table and
its branches. It is attached to the store, as `TableStore`; everything that commits or looks for a
version uses `handler_of(store)`. Detached versions do not use a handler, because their random
numbers cannot conflict.

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
)
from pilum.storage.base import Store, write_object
from pilum.storage.open import open_beside
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.names import ManifestName
from pilum.table.versions.listing import exists, listed_manifests, newest_listed

__all__ = [
    "CommitHandler",
    "CommitLock",
    "ConditionalPut",
    "LockedPut",
    "TableStore",
    "handler_of",
    "open_line",
]

CommitLock = Callable[[int], AbstractContextManager[object]]
"""Takes the number of a version and returns a context in which no one else writes this version."""


_REFUSALS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM}
    | {errno.EROFS}
)
"""Immediate errors of a file system, after which no write can still succeed later."""


class CommitHandler(Protocol):
    """Interface that decides which manifest becomes a version. Safe to use from several threads."""

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Publish a manifest as its version, unless that version exists.

        Returns:
            Whether the manifest is now the version; False only if the version certainly belongs to
            another writer.

        Raises:
            OSError: If the outcome is unknown.
            CommitError: If the manifest certainly did not become the version.
        """
        ...

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """Return all versions in the history, oldest first; those before `since` may be omitted.

        Raises:
            CorruptFileError: If two naming schemes are mixed.
        """
        ...

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version, None if there is no table."""
        ...

    def settle(self, store: Store, version: int) -> str | None:
        """Finish a commit that the writer of a version started but did not complete.

        Returns:
            Path of the manifest, if the version is decided by something other than its final name.
        """
        ...


@dataclass(frozen=True, slots=True)
class ConditionalPut:
    """Relies on the store to let exactly one writer create a name."""

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Create the manifest unless one with its name exists.

        Raises:
            CommitError: If the file system refused, and the version still does not exist.
            OSError: If the store failed in another way.
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
        """Return the versions in the folder of versions."""
        return listed_manifests(store, since)

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version in the folder of versions."""
        return newest_listed(store)

    def settle(self, store: Store, version: int) -> str | None:
        """Do nothing: commits of this handler are atomic."""
        del store, version
        return None


@dataclass(frozen=True, slots=True)
class LockedPut(ConditionalPut):
    """Uses a lock provided by the user, for stores that cannot create conditionally.

    Attributes:
        lock: Entered with the number of the version; left after the manifest is written, or with an
            exception if it was not.
    """

    lock: CommitLock

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Check for the manifest and write it, both under the lock.

        Raises:
            CommitError: If the lock could not be acquired.
            CommitConflictError: If the lock reports that the version is taken, but it does not
                exist.
            CommitStatusUnknownError: If releasing the lock failed after the write.
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
class TableStore(StoreWrapper):
    """A store together with the handler that decides about its versions.

    Attributes:
        handler: The commit handler.
    """

    handler: CommitHandler


_CONDITIONAL_PUT = ConditionalPut()


def handler_of(store: Store) -> CommitHandler:
    """Return the commit handler of the table in a store."""
    while isinstance(store, StoreWrapper):
        if isinstance(store, TableStore):
            return store.handler
        store = store.wrapped
    return _CONDITIONAL_PUT


def open_line(store: Store, uri: str) -> Store:
    """Open the store of another line of a table, with the same commit handler.

    Args:
        store: Store of one line, such as a branch.
        uri: Location of the other line.
    """
    other = open_beside(store, uri)
    return TableStore(other, handler_of(store)) if isinstance(store, TableStore) else other


def _require_absent(store: Store, name: ManifestName) -> None:
    if exists(store, name.path):
        raise CommitConflictError(f"{store.uri} has a version {name.version} already")
