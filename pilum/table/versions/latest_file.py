"""Tables of the oldest writers, which also keep the newest manifest in a file at the root.

    _latest.manifest          a copy of the newest manifest; some documents say latest.manifest
    _versions/2.manifest      the history, if it was kept

If there is no history, the copy is the table: a table of one version. A commit to such a table
first stores the copy as the version that it is, then commits, then replaces the copy. The old
documents require this, so that old readers see the new version. If there is no copy, none is
created. Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from pilum.errors import NotFoundError
from pilum.storage.base import Store, write_object
from pilum.storage.prefetch import prefetch
from pilum.table.model.manifest_file import load_message
from pilum.table.model.names import LATEST_PATHS, ManifestName, NamingScheme

__all__ = ["keep_version", "latest_file", "remove_copies", "replace_copies"]


def latest_file(store: Store) -> ManifestName | None:
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
        if _exists(store, copy):
            write_object(store, copy, store.read(path))


def remove_copies(store: Store) -> None:
    """Remove the copies of a table whose history old readers can no longer follow."""
    for copy in LATEST_PATHS:
        store.delete(copy)


def _exists(store: Store, path: str) -> bool:
    try:
        store.source(path).close()
    except NotFoundError:
        return False
    return True
