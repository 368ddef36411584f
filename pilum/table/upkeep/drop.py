"""Drop a table: remove its newest manifests first, so that no reader sees part of a version."""

from __future__ import annotations

import shutil

from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.storage.base import Store, entries_below
from pilum.storage.local import LocalStore
from pilum.storage.wrapper import StoreWrapper
from pilum.table.versions.commit_handler import (
    ConditionalPut,
    handler_of,
    latest_manifest,
    list_manifests,
)
from pilum.table.versions.history import Line, no_table

__all__ = ["drop_table"]


def drop_table(store: Store) -> None:
    """Delete a table and all other files in its folder; files in base paths stay.

    Raises:
        DatasetNotFoundError: If there is no table; other folders are never touched.
        InvalidInputError: If this is a branch of a table.
        UnsupportedFeatureError: If an external store holds its versions.
    """
    if latest_manifest(store) is None:
        raise no_table(store)
    if Line.at(store).branch is not None:
        raise InvalidInputError(f"{store.uri} is a branch: use `branches.delete` of the table")
    if not isinstance(handler_of(store), ConditionalPut):
        raise UnsupportedFeatureError(f"{store.uri}: an external store holds its versions")
    for name in reversed(list_manifests(store)):
        store.delete(name.path)
    for path, _ in list(entries_below(store, "")):
        store.delete(path)
    while isinstance(store, StoreWrapper):
        store = store.wrapped
    if isinstance(store, LocalStore):  # only file systems have folders without files
        shutil.rmtree(store.root, ignore_errors=True)
