"""Commits decided by a key-value store, for object stores without conditional creation.

Version 3 of a table is written in five steps. Entries are keyed by table and version:

    1  put      _versions/…612.manifest-{uuid}      the manifest, under a name of its own
    2  entry    (table, 3) -> …612.manifest-{uuid}  if there is none: this commits the version
    3  copy     _versions/…612.manifest             the manifest under its final name
    4  entry    (table, 3) -> …612.manifest
    5  delete   _versions/…612.manifest-{uuid}

A writer that fails between steps 2 and 5 leaves a version that is committed but not finished. The
next reader or writer that looks for it finds an entry that does not end with `.manifest`, and takes
the remaining steps. They are idempotent, and several processes may take them concurrently. A reader
without write access reads the manifest under its first name. After step 2 a version is committed,
even if a later step fails.

Source: docs/format/table.md, "External manifest stores".
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar
from uuid import uuid4

from pilum.errors import CorruptFileError, NotFoundError, PilumError
from pilum.storage.base import Store, write_object
from pilum.table.model.manifest_file import exists, listed_manifests, newest_listed_manifest
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName, final_name

__all__ = ["ExternalManifests", "ManifestEntries"]

_T = TypeVar("_T")


class ManifestEntries(Protocol):
    """A key-value store with put-if-absent that maps versions to manifests.

    Keys are the location of a table (`Store.uri`) and a version; values are paths below that
    location. Reads must return the newest state. Every failure raises `OSError`; an entry may have
    been written nevertheless. Safe to use from several threads.
    """

    def get(self, table: str, version: int) -> str | None:
        """Return the path of a version, None if there is no entry."""

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """Return the highest version of a table and its path, None without entries."""

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Create the entry of a version unless there is one; exactly one caller succeeds.

        Args:
            table: Location of the table.
            version: Number of the version.
            path: Path of the manifest.
            size: Size of the manifest, bytes.

        Returns:
            Whether this call created the entry.
        """

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replace the entry of a version; do nothing if there is none."""


@dataclass(frozen=True, slots=True)
class ExternalManifests:
    """The handler: entries decide, and the store holds the manifests.

    Attributes:
        entries: The key-value store.
    """

    entries: ManifestEntries

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Take steps 1 and 2, which commit the version, and then steps 3 to 5 if possible."""
        staged = f"{name.path}-{uuid4()}"
        write_object(store, staged, data)
        if not self._decide(store, name.version, staged, len(data)):
            with suppress(OSError):
                store.delete(staged)
            return False
        with suppress(OSError):  # already committed; the next reader continues from here
            write_object(store, name.path, data)
            self._register(store, name, len(data), staged)
        return True

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """Return the versions in the folder of versions, after finishing the newest one.

        Versions after the newest entry were committed without entries; they get one.
        """
        latest = self.latest(store)
        names = listed_manifests(store, since)
        if latest is None:
            return names
        for name in names:
            if name.version > latest.version:
                _ask(self.entries.put_if_absent, store.uri, name.version, name.path, 0)
        return sorted({name.version: name for name in (latest, *names)}.values())

    def latest(self, store: Store) -> ManifestName | None:
        """Return the version of the newest entry, or else the newest in the folder of versions."""
        found = _ask(self.entries.get_latest, store.uri)
        if found is None:
            return newest_listed_manifest(store)
        return self._finished(store, *found)

    def settle(self, store: Store, version: int) -> str | None:
        """Take the remaining steps, if the version has an entry."""
        path = _ask(self.entries.get, store.uri, version)
        return None if path is None else self._finished(store, version, path).path

    def _decide(self, store: Store, version: int, staged: str, size: int) -> bool:
        if _ask(self.entries.put_if_absent, store.uri, version, staged, size):
            return True
        # Clients retry requests whose response was lost, and the retry does not win.
        return _ask(self.entries.get, store.uri, version) == staged

    def _finished(self, store: Store, version: int, path: str) -> ManifestName:
        """Return the final name of a version with an entry, after taking steps 3 to 5 if needed."""
        name = _final_name(store, version, path)
        if path == name.path:
            return name
        try:
            data = store.read(path)
        except NotFoundError:
            if exists(store, name.path):  # finished by another process just now
                return name
            raise CorruptFileError(
                f"version {version} is decided to be a manifest that is not there",
                f"{store.uri}/{path}",
            ) from None
        try:
            write_object(store, name.path, data)
            self._register(store, name, len(data), path)
        except OSError:
            return ManifestName(version, path, name.scheme)
        return name

    def _register(self, store: Store, name: ManifestName, size: int, staged: str) -> None:
        _ask(self.entries.put_if_exists, store.uri, name.version, name.path, size)
        store.delete(staged)


def _final_name(store: Store, version: int, path: str) -> ManifestName:
    final = final_name(path) or path
    name = ManifestName.parse(final.removeprefix(f"{VERSIONS_FOLDER}/"))
    if name is None or name.path != final or name.version != version:
        raise CorruptFileError(f"the entry of version {version} is {path!r}", store.uri)
    return name


def _ask(call: Callable[..., _T], *args: object) -> _T:
    """Call the key-value store, and convert other exceptions than those of pilum to `OSError`."""
    try:
        return call(*args)
    except (OSError, PilumError):
        raise
    except Exception as error:
        raise OSError(f"the external manifest store failed: {error!r}") from error
