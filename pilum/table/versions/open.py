"""Opening of tables: from a location and options to a store with a commit handler.

    path, file://…                        no external entries: the store itself decides
    s3+ddb://bucket/path?ddbTableName=T   entries in the DynamoDB table T; the files are in S3
    storage option "manifest_store"       entries in a database, whatever the location:
        sqlite:///absolute/path.db
        postgresql://user@host/database
        dynamodb://T

Everyone who uses a table must specify the same: a version written without the entries may be lost.
Source: docs/guide/concurrency.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.storage.open import open_store
from pilum.table.versions.commit_handler import (
    CommitHandler,
    CommitLock,
    ConditionalPut,
    LockedPut,
    TableStore,
)
from pilum.table.versions.entries import DynamoEntries, PostgresEntries, SqliteEntries
from pilum.table.versions.external_manifests import ExternalManifests, ManifestEntries

__all__ = ["handler_named", "open_table"]

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

    Storage options may have `manifest_store`. InvalidInputError is raised if several arguments
    specify how versions are decided: `commit_lock` keeps writers apart, `commit_handler` decides.
    """
    options = dict(storage_options or {})
    location, _ = _without_parameter(os.fspath(uri))
    deciders: list[CommitHandler] = [
        *_named(uri, options),
        *([LockedPut(commit_lock)] if commit_lock else []),
        *([commit_handler] if commit_handler else []),
    ]
    if any(decider != deciders[0] for decider in deciders):
        raise InvalidInputError(
            f"{location}: only one may decide about versions: an s3+ddb:// location, the storage "
            f"option {_OPTION!r}, commit_lock or commit_handler"
        )
    ours = {_OPTION, _ENDPOINT_OPTION}
    of_store = {key: value for key, value in options.items() if key.lower() not in ours}
    store = open_store(location, of_store)
    return TableStore(store, deciders[0]) if deciders else store


def handler_named(
    uri: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> CommitHandler:
    """Return the commit handler of a table that is opened without a lock or handler."""
    return next(_named(uri, storage_options or {}), ConditionalPut())


def _named(uri: str | os.PathLike[str], options: Mapping[str, str]) -> Iterator[CommitHandler]:
    """Yield the commit handlers that the location and the options specify."""
    _, dynamo = _without_parameter(os.fspath(uri))
    if dynamo:
        yield ExternalManifests(DynamoEntries.of(dynamo, options))
    if (option := options.get(_OPTION)) is not None:
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
