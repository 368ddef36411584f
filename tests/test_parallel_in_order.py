"""What threads share is written in its order, whoever is ready first."""

from __future__ import annotations

import threading
import time

import pytest

from pilum.parallel import InOrder

LARGE = 1 << 20


def test_small_and_large_pages_are_written_in_their_order() -> None:
    written: list[tuple[str, int]] = []
    queue = InOrder[str, int](lambda key, number: written.append((key, number)))

    def slow(number: int) -> int:
        time.sleep(0.01 * (number % 3))
        return number

    sizes = [10, LARGE, LARGE, 10, LARGE - 1, 600_000, 10, LARGE, LARGE, LARGE, 1]
    for number, size in enumerate(sizes):
        queue.add(f"page {number}", lambda number=number: slow(number), size, is_hard=False)  # type: ignore[misc]
    queue.finish()
    assert written == [(f"page {number}", number) for number in range(len(sizes))]


def test_only_large_pages_with_more_behind_them_are_work_for_others() -> None:
    seen: dict[str, int] = {}
    queue = InOrder[str, int](lambda key, thread: seen.update({key: thread}))
    for number in range(100):
        queue.add(f"small {number}", threading.get_ident, 10_000, is_hard=False)
    queue.add("large", threading.get_ident, LARGE, is_hard=False)
    queue.add("text", threading.get_ident, LARGE // 4, is_hard=True)
    queue.add("small", threading.get_ident, LARGE // 5, is_hard=False)
    queue.add("last", threading.get_ident, LARGE, is_hard=False)
    queue.finish()
    here = threading.get_ident()
    assert {name for name, thread in seen.items() if thread != here} == {"large", "text"}


def test_an_error_reaches_the_caller_and_nothing_behind_it_is_written() -> None:
    written: list[int] = []
    queue = InOrder[int, int](lambda key, _: written.append(key))
    queue.add(0, lambda: 0, LARGE, is_hard=False)
    queue.add(1, lambda: 1 // 0, LARGE, is_hard=False)
    queue.add(2, lambda: 0, 1, is_hard=False)
    with pytest.raises(ZeroDivisionError):
        queue.finish()
    queue.cancel()
    assert written == [0]
