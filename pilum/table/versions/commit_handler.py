"""Commit handlers: how manifests are published and found. All commits use this interface.

    handler                     what decides about a version
    ConditionalPut              creating the manifest under its final name, if that is free
    LockedPut                   checking and writing the final name while a lock is held
    ExternalManifests           an entry of a key-value store (`external_manifests.py`)

A handler is not bound to a table: each call takes the store, so that one handler serves a table and
its branches. It is attached to the store, as `TableStore`; everything that commits or looks for a
version uses `handler_of(store)`. Detached versions do not use a handler, because their random
numbers cannot conflict.

Manifests are listed by reading as few names as possible. Names of the V2 scheme sort newest first.
In a store that lists in order, the first name is therefore the newest version, however many there
are, and the versions since a given one come first:

    18446744073709551612.manifest   version 3    ◀ the newest
    18446744073709551613.manifest   version 2    ◀ already known: stop here
    18446744073709551614.manifest   version 1

The oldest writers keep a copy of the newest manifest at the root of the table (`_latest.manifest`,
in the first tables `latest.manifest`). If there is no history, the copy is the table: a table of
one version. A commit to such a table first stores the copy as the version that it is, then commits,
then replaces the copy. The old documents require this, so that old readers see the new version. If
there is no copy, none is created.

Source: docs/format/table.md, "Files" and "Commit protocol".
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pilum.errors import CommitConflictError, CommitError, CommitStatusUnknownError, NotFoundError
from pilum.storage.base import Store, prefetch, write_object
from pilum.storage.open import open_beside
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.manifest_file import load_message
from pilum.table.model.names import (
    LATEST_PATHS,
    VERSIONS_FOLDER,
    ManifestName,
    NamingScheme,
    manifest_names,
    newest_manifest_name,
)

__all__ = [
    "CommitHandler",
    "CommitLock",
    "ConditionalPut",
    "LockedPut",
    "TableStore",
    "exists",
    "handler_of",
    "keep_version",
    "latest_manifest",
    "list_manifests",
    "open_line",
    "remove_copies",
    "replace_copies",
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

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """Return all versions in the history, oldest first; those before `since` may be omitted.

        Raises:
            CorruptFileError: If two naming schemes are mixed.
        """

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version, None if there is no table."""

    def settle(self, store: Store, version: int) -> str | None:
        """Finish a commit that the writer of a version started but did not complete.

        Returns:
            Path of the manifest, if the version is decided by something other than its final name.
        """


@dataclass(frozen=True, slots=True)
class ConditionalPut:
    """Relies on the store to let exactly one writer create a name."""

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Create the manifest unless one with its name exists.

        CommitError is raised if the file system refused, and the version still does not exist.
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
        names: Iterable[str] = store.names(VERSIONS_FOLDER)
        if store.lists_in_order:
            names = _until(names, since)
        found = manifest_names(names, f"{store.uri}/{VERSIONS_FOLDER}", since)
        if not found and (latest := _latest_file(store)):
            found = [latest]
        return found

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version in the folder of versions."""
        if store.lists_in_order:
            parsed = map(ManifestName.parse, store.names(VERSIONS_FOLDER))
            first = next(filter(None, parsed), None)
            if first is None:
                return _latest_file(store)
            if first.scheme is NamingScheme.V2:
                return first
        names = store.names(VERSIONS_FOLDER)
        return newest_manifest_name(names, f"{store.uri}/{VERSIONS_FOLDER}") or _latest_file(store)

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
    """A store together with the handler that decides about its versions."""

    handler: CommitHandler


_CONDITIONAL_PUT = ConditionalPut()


def handler_of(store: Store) -> CommitHandler:
    """Return the commit handler of the table in a store."""
    while isinstance(store, StoreWrapper):
        if isinstance(store, TableStore):
            return store.handler
        store = store.wrapped
    return _CONDITIONAL_PUT


def list_manifests(store: Store, since: int = 0) -> list[ManifestName]:
    """Return the manifests of all versions in the history, oldest first; none if there is no table.

    Versions before `since` may be omitted.
    """
    return handler_of(store).names(store, since)


def latest_manifest(store: Store) -> ManifestName | None:
    """Return the manifest of the newest version, None if there is no table."""
    return handler_of(store).latest(store)


def open_line(store: Store, uri: str) -> Store:
    """Open the store of another line of a table, such as a branch, with the same commit handler."""
    other = open_beside(store, uri)
    return TableStore(other, handler_of(store)) if isinstance(store, TableStore) else other


def _require_absent(store: Store, name: ManifestName) -> None:
    if exists(store, name.path):
        raise CommitConflictError(f"{store.uri} has a version {name.version} already")


def _until(names: Iterable[str], version: int) -> Iterator[str]:
    """Yield sorted names up to the first with this version number, or a lower one."""
    for text in names:
        yield text
        name = ManifestName.parse(text)
        if name is not None and name.scheme is NamingScheme.V2 and name.version <= version:
            return


def _latest_file(store: Store) -> ManifestName | None:
    """Return the copy as a version; None if there is none."""
    tasks = [partial(_copy, store, path) for path in LATEST_PATHS]
    return next(filter(None, prefetch(store, tasks)), None)


def _copy(store: Store, path: str) -> ManifestName | None:
    with suppress(NotFoundError):
        return ManifestName(load_message(store, path).version, path, NamingScheme.V1)
    return None


def keep_version(store: Store, name: ManifestName) -> None:
    """Store a copy as the version that it is; do nothing for any other manifest."""
    if name.path in LATEST_PATHS:
        store.put_if_absent(name.scheme.manifest_path(name.version), store.read(name.path))


def replace_copies(store: Store, path: str) -> None:
    """Replace the existing copies by another manifest; if the store fails, they may be outdated."""
    for copy in LATEST_PATHS:
        if exists(store, copy):
            write_object(store, copy, store.read(path))


def remove_copies(store: Store) -> None:
    """Remove the copies of a table whose history old readers can no longer follow."""
    for copy in LATEST_PATHS:
        store.delete(copy)


def exists(store: Store, path: str) -> bool:
    """Return whether an object of this name exists."""
    try:
        store.source(path).close()
    except NotFoundError:
        return False
    return True
