"""Tables of the oldest writers: the newest manifest is also a file at the root.

    _latest.manifest          a copy of the newest manifest; some documents say latest.manifest
    _versions/2.manifest      the history, where it was kept

The copy counts where there is no history: it is a table of one version. Whoever commits to such a
table writes the copy down as the version that it is, then commits, then replaces the copy: what the
old documents ask for, so that their readers see the new version. Where there is no copy none is
made. Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from pilum.errors import NotFoundError
from pilum.storage.ahead import in_turn
from pilum.storage.base import Store, write_object
from pilum.table.model.manifest_file import load_message
from pilum.table.model.names import LATEST_PATHS, ManifestName, NamingScheme

__all__ = ["keep_version", "latest_file", "remove_copies", "replace_copies"]


def latest_file(store: Store) -> ManifestName | None:
    """The copy, as a version; None if there is none.

    Raises:
        CorruptFileError: If its bytes contradict the format.
    """
    tasks = [partial(_copy, store, path) for path in LATEST_PATHS]
    return next(filter(None, in_turn(store, tasks)), None)


def _copy(store: Store, path: str) -> ManifestName | None:
    with suppress(NotFoundError):
        return ManifestName(load_message(store, path).version, path, NamingScheme.V1)
    return None


def keep_version(store: Store, name: ManifestName) -> None:
    """Writes a copy down as the version that it is; any other manifest stays as it is."""
    if name.path in LATEST_PATHS:
        store.put_if_absent(name.scheme.manifest_path(name.version), store.read(name.path))


def replace_copies(store: Store, path: str) -> None:
    """Lets the copies that there are be of another manifest.

    Raises:
        OSError: If the store failed; the copies may be old then.
    """
    for copy in LATEST_PATHS:
        if _exists(store, copy):
            write_object(store, copy, store.read(path))


def remove_copies(store: Store) -> None:
    """Removes the copies, of a table whose history their readers cannot follow any more."""
    for copy in LATEST_PATHS:
        store.delete(copy)


def _exists(store: Store, path: str) -> bool:
    try:
        store.source(path).close()
    except NotFoundError:
        return False
    return True
