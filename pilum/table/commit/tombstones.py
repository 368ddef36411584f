"""Tombstones: marks of cancelled jobs, for tasks that could not be stopped in time.

    the cancelling side  mark ── list the files of the job ── delete them
    a late task               finish its file ── look for the mark ── delete its file

Whichever comes first, the file is deleted: either the list contains it, or the task sees the mark.
The mark is an empty object among the data files, named like those of its job; cleanup removes it
when it is old, as any data file that no version contains.
"""

from __future__ import annotations

from pilum.errors import NotFoundError
from pilum.storage.base import Store
from pilum.table.model.names import data_path

__all__ = ["is_tombstone", "leave_tombstone", "was_given_up"]

_NAME = "{}-given-up.lance"


def leave_tombstone(store: Store, uuid: str) -> None:
    """Mark a job as cancelled."""
    store.put(_path(uuid), b"")


def was_given_up(store: Store, uuid: str) -> bool:
    """Return whether a job is marked as cancelled, with one small request."""
    try:
        store.read(_path(uuid))
    except NotFoundError:
        return False
    return True


def is_tombstone(name: str, uuid: str) -> bool:
    """Return whether a name among the data files is the mark of a job."""
    return name == _NAME.format(uuid)


def _path(uuid: str) -> str:
    return data_path(_NAME.format(uuid))
