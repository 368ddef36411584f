"""Listing of the manifests in a folder of versions, which reads as few names as possible.

Names of the V2 scheme sort newest first. In a store that lists in order, the first name is
therefore the newest version, however many there are, and the versions since a given one come first.

    18446744073709551612.manifest   version 3    ◀ the newest
    18446744073709551613.manifest   version 2    ◀ already known: stop here
    18446744073709551614.manifest   version 1

Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pilum.storage.base import Store
from pilum.table.model.names import (
    VERSIONS_FOLDER,
    ManifestName,
    NamingScheme,
    manifest_names,
    newest_manifest_name,
)
from pilum.table.versions.latest_file import latest_file

__all__ = ["listed_manifests", "newest_listed"]


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
    if not found and (latest := latest_file(store)):
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
            return latest_file(store)
        if first.scheme is NamingScheme.V2:
            return first
    names = store.names(VERSIONS_FOLDER)
    return newest_manifest_name(names, f"{store.uri}/{VERSIONS_FOLDER}") or latest_file(store)


def _until(names: Iterable[str], version: int) -> Iterator[str]:
    """Yield sorted names up to the first with this version number, or a lower one."""
    for text in names:
        yield text
        name = ManifestName.parse(text)
        if name is not None and name.scheme is NamingScheme.V2 and name.version <= version:
            return
