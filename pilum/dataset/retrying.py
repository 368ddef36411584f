"""Retries of changes that conflict with concurrent commits."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from pilum.dataset.options import require_count
from pilum.errors import CommitConflictError, CommitContentionError, InvalidInputError
from pilum.table.read.snapshot import Snapshot

__all__ = ["Retries"]

T = TypeVar("T")

_MAX_PAUSE = 8
"""Maximum length of a pause, as a multiple of the time of an attempt."""


@dataclass(frozen=True)
class Retries:
    """The limits of retries.

    Attributes:
        conflict_retries: Maximum number of retries after the first attempt.
        retry_timeout: No retry starts later than this after the call.
    """

    conflict_retries: int = 10
    retry_timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        require_count("conflict_retries", self.conflict_retries)
        if not isinstance(self.retry_timeout, timedelta):
            raise InvalidInputError(
                f"retry_timeout: expected a timedelta, found {self.retry_timeout!r}"
            )

    def run(self, snapshot: Snapshot, change: Callable[[Snapshot], T]) -> T:
        """Run a change on a version, and again on the newest one after a conflict.

        Args:
            snapshot: The version to start with.
            change: Function that makes the change and commits it.

        Raises:
            CommitConflictError: If the change conflicts with another commit in a way that a retry
                cannot resolve.
            CommitContentionError: If every attempt conflicted with a concurrent commit.
        """
        end = time.monotonic() + self.retry_timeout.total_seconds()
        for attempt in range(self.conflict_retries + 1):
            began = time.monotonic()
            try:
                return change(snapshot)
            except CommitConflictError as error:
                if not error.retryable:
                    raise
                if attempt == self.conflict_retries or time.monotonic() >= end:
                    raise CommitContentionError(
                        f"{snapshot.store.uri}: others changed the same rows, {attempt + 1} "
                        f"times; try again later\n  {error}"
                    ) from error
            _pause(time.monotonic() - began, attempt, end)
            newest = Snapshot.latest(snapshot.store)
            snapshot = replace(newest, session=snapshot.session)
        raise AssertionError  # the last attempt returns or raises


def _pause(work_seconds: float, attempt: int, end: float) -> None:
    """Sleep in proportion to the work, longer each time, so that writers spread out."""
    longest = work_seconds * min(2**attempt, _MAX_PAUSE)
    time.sleep(max(0.0, min(random.uniform(0, longest), end - time.monotonic())))
