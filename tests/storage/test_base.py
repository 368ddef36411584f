"""Tasks that wait for a store."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import partial

import pytest
from guard import GUARD_SECONDS

from pilum.storage.base import prefetch, run_all
from pilum.storage.local import LocalStore


@dataclass(frozen=True)
class FarAway(LocalStore):
    @property
    def is_remote(self) -> bool:
        return True


def test_results_come_in_order() -> None:
    for store in (LocalStore("/"), FarAway("/")):
        assert run_all(store, (partial(int, number) for number in range(100))) == list(range(100))
        assert run_all(store, []) == []


def test_tasks_for_what_is_far_away_run_side_by_side() -> None:
    meeting = threading.Barrier(8, timeout=GUARD_SECONDS)
    assert len(set(run_all(FarAway("/"), 8 * [meeting.wait]))) == 8


def test_no_more_is_begun_than_needed_soon() -> None:
    begun: list[int] = []
    tasks = (partial(begun.append, number) for number in range(1000))
    assert next(prefetch(FarAway("/"), tasks)) is None
    assert len(begun) <= 32
    next(prefetch(LocalStore("/"), iter(tasks)))


def test_a_failure_is_raised_in_its_turn() -> None:
    for store in (LocalStore("/"), FarAway("/")):
        results = prefetch(store, [partial(int, "1"), partial(int, "x"), partial(int, "3")])
        assert next(results) == 1
        with pytest.raises(ValueError, match="x"):
            next(results)
