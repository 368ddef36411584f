"""Delete the files of one write: the names of all of them start with its uuid.

    the cancelling side  mark ── list the files of the job ── delete them
    a late task               finish its file ── look for the mark ── delete its file

Tasks that could not be stopped in time find a mark, the tombstone of their job. Whichever comes
first, the file is deleted: either the list contains it, or the task sees the mark. The mark is an
empty object among the data files, named like those of its job; cleanup removes it when it is old,
as any data file that no version contains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilum.distributed.jobs import Attempt, WriteJob
from pilum.errors import NotFoundError
from pilum.storage.base import Store
from pilum.table.model.names import DATA_FOLDER, data_path
from pilum.table.versions.commit_handler import open_table
from pilum.table.write.sidecars import discard_file
from pilum.tracing import JOB_EVENTS, emit

__all__ = ["leave_tombstone", "sweep", "sweep_attempts", "was_given_up"]

_NAME = "{}-given-up.lance"


def sweep(store: Store, uuid: str, is_kept: Callable[[str], bool] | None = None) -> int:
    """Delete the data files of attempts that were not committed, and return their number.

    Names of files start with the uuid of their job. Those for which `is_kept` is true are, or may
    become, part of the table.
    """
    files = [entry.name for entry in store.list(DATA_FOLDER)]
    # A killed attempt may have left only sidecar files.
    beside = [f"{stem}.lance" for stem in store.folders(DATA_FOLDER)]
    names = (name for name in dict.fromkeys(files + beside) if name.startswith(uuid))
    own = (name for name in names if not _is_tombstone(name, uuid))
    lost = [name for name in own if is_kept is None or not is_kept(name)]
    for name in lost:
        discard_file(store, data_path(name))
    if lost:
        emit(JOB_EVENTS, event="swept", uri=store.uri, files=len(lost))
    return len(lost)


def sweep_attempts(job: WriteJob, winners: Sequence[Attempt]) -> None:
    """Delete the files of other attempts than those that count, if there were any."""
    if not any(winner.number for winner in winners):
        return
    prefixes = tuple(f"{winner.prefix(job.uuid)}-" for winner in winners)
    store = open_table(job.uri, job.storage_options)
    sweep(store, job.uuid, lambda name: name.startswith(prefixes))


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


def _is_tombstone(name: str, uuid: str) -> bool:
    """Return whether a name among the data files is the mark of a job."""
    return name == _NAME.format(uuid)


def _path(uuid: str) -> str:
    return data_path(_NAME.format(uuid))
