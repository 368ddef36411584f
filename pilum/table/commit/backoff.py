"""Backoff: random pauses between attempts to commit, which grow with every lost attempt.

    lost    1       2       3       4       …      the n-th pause is a random number of slots,
    slots   0..3    0..7    0..15   0..31   …      each as long as the first attempt took

Writers that lost together draw different slots, and every round doubles the number of slots.
Source: docs/format/table.md, "Commit protocol".
"""

from __future__ import annotations

import random
import time

__all__ = ["Backoff"]

_BUDGET_SECONDS = 30.0
_FIRST_SLOTS = 4
_MAX_SLOTS = 256


class Backoff:
    """The pauses of one commit; made when its first attempt begins.

    Args:
        budget_seconds: No pause ends later than this after the first attempt began.
    """

    def __init__(self, budget_seconds: float = _BUDGET_SECONDS) -> None:
        self._budget = min(budget_seconds, _BUDGET_SECONDS)
        self._start = time.monotonic()
        self._unit: float | None = None
        self._slots = _FIRST_SLOTS

    def take(self) -> bool:
        """Sleep; return False without sleeping if the time budget is used up."""
        elapsed = time.monotonic() - self._start
        if self._unit is None:
            self._unit = elapsed  # the first attempt measures how long a commit takes
        seconds = random.randrange(self._slots) * self._unit
        self._slots = min(2 * self._slots, _MAX_SLOTS)
        if elapsed + seconds > self._budget:
            return False
        time.sleep(seconds)
        return True
