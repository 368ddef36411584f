"""Commits that a key-value store decides, for object stores that cannot create conditionally.

Four steps write version 3 of a table whose entries are keyed by table and version:

    1  put      _versions/…612.manifest-{uuid}      the manifest, under a name of its own
    2  entry    (table, 3) -> …612.manifest-{uuid}  unless there is one: this decides
    3  copy     _versions/…612.manifest             to its final name
    4  entry    (table, 3) -> …612.manifest
    5  delete   _versions/…612.manifest-{uuid}

Whoever dies between 2 and 5 leaves a version that is decided and not finished. The next one who
looks for it, reader or writer, sees an entry that does not end with `.manifest` and takes the
steps that are left: they may be taken twice, and by several at once. A reader that may not write
reads the manifest where it stands. After step 2 a writer has committed, whatever fails then.

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
from pilum.table.model.names import VERSIONS_FOLDER, ManifestName, final_name
from pilum.table.versions.commit_handler import exists
from pilum.table.versions.listing import listed_manifests, newest_listed

__all__ = ["ExternalManifests", "ManifestEntries"]

_T = TypeVar("_T")


class ManifestEntries(Protocol):
    """A key-value store with put-if-absent that says which manifest is which version.

    Keys are the location of a table (`Store.uri`) and a version, values are paths below that
    location. Every answer must be that of the newest state. Whatever goes wrong is an `OSError`;
    an entry may have been written all the same. Safe to use from several threads.
    """

    def get(self, table: str, version: int) -> str | None:
        """The path of a version, None if there is no entry."""
        ...

    def get_latest(self, table: str) -> tuple[int, str] | None:
        """The highest version of a table and its path, None without entries."""
        ...

    def put_if_absent(self, table: str, version: int, path: str, size: int) -> bool:
        """Creates the entry of a version unless there is one; exactly one caller wins.

        Args:
            table: Location.
            version: Number.
            path: Of the manifest.
            size: Of the manifest, bytes.

        Returns:
            Whether this call created it.
        """
        ...

    def put_if_exists(self, table: str, version: int, path: str, size: int) -> None:
        """Replaces the entry of a version; nothing happens if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class ExternalManifests:
    """The handler: entries decide, the store holds the bytes.

    Attributes:
        entries: The key-value store.
    """

    entries: ManifestEntries

    def publish(self, store: Store, name: ManifestName, data: bytes) -> bool:
        """Steps 1 and 2, which commit, and the others as far as they succeed."""
        staged = f"{name.path}-{uuid4()}"
        write_object(store, staged, data)
        if not self._decide(store, name.version, staged, len(data)):
            with suppress(OSError):
                store.delete(staged)
            return False
        with suppress(OSError):  # committed already; whoever reads next goes on from here
            write_object(store, name.path, data)
            self._register(store, name, len(data), staged)
        return True

    def names(self, store: Store, since: int = 0) -> list[ManifestName]:
        """What the folder of versions holds, once the newest is finished.

        Versions beyond it were committed past the entries; they get theirs.
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
        """The newest entry, else the newest that the folder of versions holds."""
        found = _ask(self.entries.get_latest, store.uri)
        if found is None:
            return newest_listed(store)
        return self._finished(store, *found)

    def settle(self, store: Store, version: int) -> str | None:
        """Takes the steps that are left, if the version has an entry."""
        path = _ask(self.entries.get, store.uri, version)
        return None if path is None else self._finished(store, version, path).path

    def _decide(self, store: Store, version: int, staged: str, size: int) -> bool:
        if _ask(self.entries.put_if_absent, store.uri, version, staged, size):
            return True
        # Clients repeat requests whose answer got lost, and the repetition loses.
        return _ask(self.entries.get, store.uri, version) == staged

    def _finished(self, store: Store, version: int, path: str) -> ManifestName:
        """The name of a version that has an entry, after steps 3 to 5 if they are due."""
        name = _final_name(store, version, path)
        if path == name.path:
            return name
        try:
            data = store.read(path)
        except NotFoundError:
            if exists(store, name.path):  # somebody else has just finished
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
    """Calls the key-value store; whatever it raises is an `OSError`, or one of ours."""
    try:
        return call(*args)
    except (OSError, PilumError):
        raise
    except Exception as error:
        raise OSError(f"the external manifest store failed: {error!r}") from error
