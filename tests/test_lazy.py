"""Cached properties and threads: two that need each other, one value for all, and forks."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from guard import GUARD_SECONDS

from pilum.lazy import cached_property


class Part:
    """A part whose name needs the title of another part, and the reverse."""

    def __init__(self, meet: Callable[[], object], other: Part | None = None) -> None:
        self.meet = meet
        self.other = other

    @cached_property
    def name(self) -> str:
        self.meet()
        return self.other.title if self.other else "part"

    @cached_property
    def title(self) -> str:
        self.meet()
        return self.other.name if self.other else "part"

    @cached_property
    def fresh(self) -> object:
        self.meet()
        return object()


def _in_threads(*tasks: Callable[[], object]) -> list[object]:
    with ThreadPoolExecutor(len(tasks)) as threads:
        return [future.result() for future in [threads.submit(task) for task in tasks]]


def test_threads_do_not_wait_for_each_other() -> None:
    """The barrier breaks if the inner properties are computed one after the other."""
    meet = threading.Barrier(2, timeout=GUARD_SECONDS).wait
    one, other = Part(meet, Part(meet)), Part(meet, Part(meet))
    assert _in_threads(lambda: one.name, lambda: other.title) == ["part", "part"]


def test_threads_get_one_value() -> None:
    part = Part(threading.Barrier(8, timeout=GUARD_SECONDS).wait)
    values = _in_threads(*[lambda: part.fresh] * 8)
    assert len(set(map(id, values))) == 1
    assert part.fresh is values[0]


def test_a_fork_does_not_keep_a_property_locked() -> None:
    begun, end = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        end.wait(GUARD_SECONDS)

    slow = Part(wait)
    thread = threading.Thread(target=lambda: slow.name)
    thread.start()
    assert begun.wait(GUARD_SECONDS)
    child = multiprocessing.get_context("fork").Process(target=lambda: Part(lambda: None).name)
    child.start()
    child.join(GUARD_SECONDS)
    is_hung = child.exitcode is None
    child.kill()
    end.set()
    thread.join()
    assert not is_hung
