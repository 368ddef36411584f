"""Commit handlers: which one decides about the versions of a table, and how the table is opened.

    handler                     what decides about a version
    ConditionalPut              creating the manifest under its final name, if that is free
    LockedPut                   checking and writing the final name while a lock is held
    ExternalManifests           an entry of a key-value store (`external_manifests.py`)

All commits use this interface. A handler is not bound to a table: each call takes the store, so
that one handler serves a table and its branches. It is attached to the store, as `TableStore`;
everything that commits or looks for a version uses `handler_of(store)`. Detached versions do not
use a handler, because their random numbers cannot conflict.

`open_table` takes the handler from its arguments, or from the location and the storage options:

    path, file://…                        no external entries: the store itself decides
    s3+ddb://bucket/path?ddbTableName=T   entries in the DynamoDB table T; the files are in S3
    storage option "manifest_store"       entries in a database, whatever the location:
        sqlite:///absolute/path.db
        postgresql://user@host/database
        dynamodb://T

Everyone who uses a table must specify the same: a version written without the entries may be lost.
Source: docs/format/table.md, "Files" and "Commit protocol"; docs/guide/concurrency.md.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from urllib.parse import parse_qsl, unquote

from pilum.arguments import require_dict, require_function
from pilum.errors import (
    CommitConflictError,
    CommitError,
    CommitStatusUnknownError,
    InvalidInputError,
)
from pilum.storage.base import Store, write_object
from pilum.storage.open import location_text
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.base_options import open_line_store, open_with_bases
from pilum.table.model.manifest_file import exists, listed_manifests, newest_listed_manifest
from pilum.table.model.names import ManifestName
from pilum.table.versions.entries import DynamoEntries, PostgresEntries, SqliteEntries
from pilum.table.versions.external_manifests import ExternalManifests, ManifestEntries

__all__ = [
    "CommitHandler",
    "CommitLock",
    "ConditionalPut",
    "ListingHandler",
    "LockedPut",
    "TableStore",
    "forget_versions",
    "handler_named",
    "handler_of",
    "latest_manifest",
    "list_manifests",
    "open_line",
    "open_table",
]

CommitLock = Callable[[int], AbstractContextManager[object]]
"""Takes the number of a version and returns a context in which no one else writes this version."""


_REFUSALS = frozenset(
    {errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM}
    | {errno.EROFS}
)
"""Immediate errors of a file system, after which no write can still succeed later."""


@runtime_checkable
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


@runtime_checkable
class ListingHandler(Protocol):
    """A commit handler with a list of versions that files do not change."""

    def forget(self, store: Store, versions: Sequence[int]) -> None:
        """Remove versions, in ascending order, from the list, before their files are deleted.

        Raises:
            UnsupportedFeatureError: If that is not possible.
            OSError: If it failed.
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
        return listed_manifests(store, since)

    def latest(self, store: Store) -> ManifestName | None:
        """Return the newest version in the folder of versions."""
        return newest_listed_manifest(store)

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

    def __post_init__(self) -> None:
        require_function("commit_lock", self.lock)

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


def forget_versions(store: Store, versions: Sequence[int]) -> None:
    """Remove versions from the list of the commit handler, if it has one; as `ListingHandler`."""
    handler = handler_of(store)
    if versions and isinstance(handler, ListingHandler):
        handler.forget(store, versions)


def open_line(store: Store, uri: str) -> Store:
    """Open the store of another line of a table, such as a branch, with the same commit handler."""
    other = open_line_store(store, uri)
    return TableStore(other, handler_of(store)) if isinstance(store, TableStore) else other


def _require_absent(store: Store, name: ManifestName) -> None:
    if exists(store, name.path):
        raise CommitConflictError(f"{store.uri} has a version {name.version} already")


_DYNAMO_SCHEME = "s3+ddb://"
_TABLE_PARAMETER = "ddbTableName"
_OPTION = "manifest_store"
_ENDPOINT_OPTION = "dynamodb_endpoint"


def open_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    commit_lock: CommitLock | None = None,
    commit_handler: CommitHandler | None = None,
) -> Store:
    """Open the store of a table, as `open_store`. Nothing is read or written yet.

    Storage options may have `manifest_store`, and options of base paths. InvalidInputError is
    raised if several arguments specify how versions are decided: `commit_lock` keeps writers apart,
    `commit_handler` decides.
    """
    options = require_dict("storage_options", storage_options) if storage_options else {}
    location, dynamo = _without_parameter(location_text(uri))
    deciders: list[CommitHandler] = [
        *_named(dynamo, options),
        *([LockedPut(commit_lock)] if commit_lock else []),
        *([commit_handler] if commit_handler else []),
    ]
    for decider in deciders:
        if not isinstance(decider, CommitHandler):
            raise InvalidInputError(
                f"commit_handler: expected a CommitHandler, found {decider!r:.80}"
            )
    if len(deciders) > 1 and any(decider != deciders[0] for decider in deciders):
        raise InvalidInputError(
            f"{location}: only one may decide about versions: an s3+ddb:// location, the storage "
            f"option {_OPTION!r}, commit_lock or commit_handler"
        )
    ours = {_OPTION, _ENDPOINT_OPTION}
    of_store = {key: value for key, value in options.items() if key.lower() not in ours}
    store = open_with_bases(location, of_store)
    return TableStore(store, deciders[0]) if deciders else store


def handler_named(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> CommitHandler:
    """Return the commit handler of a table that is opened without a lock or handler."""
    _, dynamo = _without_parameter(location_text(uri))
    return next(_named(dynamo, storage_options or {}), ConditionalPut())


def _named(dynamo: str | None, options: Mapping[str, str]) -> Iterator[CommitHandler]:
    """Yield the commit handlers that a DynamoDB table of the location and the options specify."""
    if dynamo:
        yield ExternalManifests(DynamoEntries.of(dynamo, options))
    for key, option in options.items():
        if key.lower() == _OPTION:
            yield ExternalManifests(_entries(option, options))


def _without_parameter(uri: str) -> tuple[str, str | None]:
    """Return the location of the files, and the DynamoDB table if one is specified."""
    if not uri.startswith(_DYNAMO_SCHEME):
        return uri, None
    location, _, query = uri.partition("?")
    parameters = parse_qsl(query)
    if len(parameters) != 1 or parameters[0][0] != _TABLE_PARAMETER:
        raise InvalidInputError(f"{uri}: expected s3+ddb://bucket/path?{_TABLE_PARAMETER}=name")
    return "s3://" + location.removeprefix(_DYNAMO_SCHEME), parameters[0][1]


def _entries(text: str, options: Mapping[str, str]) -> ManifestEntries:
    scheme, found, rest = str(text).partition("://")
    if scheme == "sqlite" and rest.startswith("/"):
        return SqliteEntries(unquote(rest))
    if scheme in {"postgresql", "postgres"}:
        return PostgresEntries(str(text))
    if scheme == "dynamodb" and found and rest:
        return DynamoEntries.of(rest, options)
    raise InvalidInputError(
        f"storage option {_OPTION!r}: expected sqlite:///absolute/path, postgresql://… or "
        f"dynamodb://table, found {text!r}"
    )
