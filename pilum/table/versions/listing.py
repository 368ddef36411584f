"""Listing of the manifests in a folder of versions, which reads as few names as possible.

Names of the V2 scheme sort newest first. In a store that lists in order, the first name is
therefore the newest version, however many there are, and the versions since a given one come first.

    18446744073709551612.manifest   version 3    ◀ the newest
    18446744073709551613.manifest   version 2    ◀ already known: stop here
    18446744073709551614.manifest   version 1

The oldest writers keep a copy of the newest manifest at the root of the table:

    _latest.manifest         a copy of the newest manifest; in the first tables `latest.manifest`
    _versions/2.manifest     the history, if it was kept

If there is no history, the copy is the table: a table of one version. A commit to such a table
first stores the copy as the version that it is, then commits, then replaces the copy. The old
documents require this, so that old readers see the new version. If there is no copy, none is
created. Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from pilum.errors import NotFoundError
from pilum.storage.base import Store, write_object
from pilum.storage.prefetch import prefetch
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
    "exists",
    "keep_version",
    "listed_manifests",
    "newest_listed",
    "remove_copies",
    "replace_copies",
]


def listed_manifests(store: Store, since: int = 0) -> list[ManifestName]:
    """Return the manifests of a version and all later ones, oldest first, maybe with earlier ones.

    Args:
        store: Store of the table.
        since: First version that is needed; 0 for all.

    Raises:
        CorruptFileError: If two naming schemes are found.
    """
    names: Iterable[str] = store.names(VERSIONS_FOLDER)
    if store.lists_in_order:
        names = _until(names, since)
    found = manifest_names(names, f"{store.uri}/{VERSIONS_FOLDER}", since)
    if not found and (latest := _latest_file(store)):
        found = [latest]
    return found


def newest_listed(store: Store) -> ManifestName | None:
    """Return the manifest of the newest version, None if there is none.

    Raises:
        CorruptFileError: If two naming schemes are found.
    """
    if store.lists_in_order:
        parsed = map(ManifestName.parse, store.names(VERSIONS_FOLDER))
        first = next(filter(None, parsed), None)
        if first is None:
            return _latest_file(store)
        if first.scheme is NamingScheme.V2:
            return first
    names = store.names(VERSIONS_FOLDER)
    return newest_manifest_name(names, f"{store.uri}/{VERSIONS_FOLDER}") or _latest_file(store)


def _until(names: Iterable[str], version: int) -> Iterator[str]:
    """Yield sorted names up to the first with this version number, or a lower one."""
    for text in names:
        yield text
        name = ManifestName.parse(text)
        if name is not None and name.scheme is NamingScheme.V2 and name.version <= version:
            return


def _latest_file(store: Store) -> ManifestName | None:
    """Return the copy as a version; None if there is none.

    Raises:
        CorruptFileError: If the bytes of the copy contradict the format.
    """
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
    """Replace the existing copies by another manifest.

    Raises:
        OSError: If the store failed; the copies may then be outdated.
    """
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
