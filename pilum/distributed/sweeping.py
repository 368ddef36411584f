"""Deletion of the files of one write: the names of all of them start with its uuid."""

from __future__ import annotations

from collections.abc import Callable

from pilum.storage.base import Store
from pilum.table.commit.tombstones import is_tombstone
from pilum.table.model.names import DATA_FOLDER
from pilum.table.write.sidecars import delete_data_file

__all__ = ["sweep"]


def sweep(store: Store, uuid: str, is_kept: Callable[[str], bool] | None = None) -> int:
    """Delete the data files of attempts that were not committed, reported or not.

    Args:
        store: Store of the table.
        uuid: Id of the job, with which the names of its files start.
        is_kept: Predicate for names of files that are, or may become, part of the table; None to
            keep no file.

    Returns:
        The number of files deleted.
    """
    files = [entry.name for entry in store.list(DATA_FOLDER)]
    # A killed attempt may have left only sidecar files.
    beside = [f"{stem}.lance" for stem in store.folders(DATA_FOLDER)]
    names = (name for name in dict.fromkeys(files + beside) if name.startswith(uuid))
    own = (name for name in names if not is_tombstone(name, uuid))
    lost = [name for name in own if is_kept is None or not is_kept(name)]
    for name in lost:
        delete_data_file(store, name)
    return len(lost)
