"""Tasks: what an engine has to offer, and how attempts of a task are distinguished.

    driver    items ──▶ engine ──▶ work(item, attempt) on some machine ──▶ results ──▶ driver
                                   └── again, as another attempt, if the machine fails

All jobs of this package whose tasks read no rows of the engine run on this interface. An engine may
start several attempts of a task and returns the result of one of them. Each attempt gives its files
names of its own, so the files of the others can be deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from pilum.arguments import optional_count, require_count
from pilum.distributed.jobs import Attempt, WriteJob
from pilum.distributed.splits import group_splits, plan_splits
from pilum.distributed.sweeping import sweep_attempts
from pilum.distributed.versions import TableVersion
from pilum.table.model.fragment import Fragment

__all__ = [
    "Tasks",
    "fragment_groups",
    "optional_count",
    "require_count",
    "run_for_job",
    "stored_bytes",
]

T = TypeVar("T")
R = TypeVar("R")

_TASK_BYTES = 128 << 20
_WHOLE = 1 << 62


class Tasks(Protocol):
    """An engine that runs tasks."""

    def run(self, items: Sequence[T], work: Callable[[T, Attempt], R]) -> list[R]:
        """Run one task per item.

        Args:
            items: Picklable items, small in total.
            work: A picklable function.

        Returns:
            The picklable results, in the order of the items.

        Raises:
            InvalidInputError: If a task raised it: such errors are permanent and are not retried.
                UnsupportedFormatError likewise.
        """


def run_for_job(
    tasks: Tasks, items: Sequence[T], work: Callable[[T, Attempt], R], job: WriteJob
) -> list[R]:
    """Run tasks that write files of a job; delete the files of attempts that did not count."""
    found = tasks.run(items, partial(_with_attempt, work))
    sweep_attempts(job, [attempt for attempt, _ in found])
    return [result for _, result in found]


def _with_attempt(work: Callable[[T, Attempt], R], item: T, attempt: Attempt) -> tuple[Attempt, R]:
    return attempt, work(item, attempt)


def fragment_groups(version: TableVersion, task_bytes: int = _TASK_BYTES) -> list[tuple[int, ...]]:
    """Group the ids of adjacent fragments by about `task_bytes` bytes of files."""
    groups = group_splits(plan_splits(version, _WHOLE), task_bytes)
    return [tuple(split.fragment_id for split in group) for group in groups]


def stored_bytes(fragments: Iterable[Fragment]) -> int:
    """Return the total known size of the data files of fragments, in bytes."""
    return sum(file.size_bytes or 0 for fragment in fragments for file in fragment.all_files)
