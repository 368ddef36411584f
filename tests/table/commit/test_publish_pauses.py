"""Pauses between attempts, without waiting for them."""

from __future__ import annotations

import random

import pytest

from pilum.table.commit import publish
from pilum.table.commit.publish import Backoff


class Clock:
    """The modules `time` and `random` as the pauses see them: time passes only in sleep."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(publish, "time", clock)
    monkeypatch.setattr(publish, "random", random.Random(1))
    return clock


def test_pauses_grow_with_every_loss_and_are_whole_slots(clock: Clock) -> None:
    pauses = Backoff()
    clock.now += 0.01  # the first attempt
    for _ in range(12):
        assert pauses.take()
    slots = [seconds / 0.01 for seconds in clock.slept]
    assert all(abs(number - round(number)) < 1e-6 for number in slots)
    for lost, number in enumerate(slots):
        assert round(number) < min(4 * 2**lost, 256)
    assert max(slots) > 32


def test_a_slow_commit_pauses_longer_and_the_time_is_bounded(clock: Clock) -> None:
    pauses = Backoff()
    clock.now += 2.0
    while pauses.take():
        clock.now += 2.0
    assert clock.now - 100 <= 32
    assert sum(clock.slept) % 2.0 < 1e-6


def test_callers_may_have_less_time() -> None:
    assert not Backoff(0).take()
