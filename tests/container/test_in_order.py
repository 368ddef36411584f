"""What threads share is written in its order, whoever is ready first."""

from __future__ import annotations

import threading
import time

import pytest

from pilum.container.in_order import InOrder

LARGE = 1 << 20


def test_small_and_large_pages_are_written_in_their_order() -> None:
    written: list[tuple[str, int]] = []
    queue = InOrder[str, int](lambda key, number: written.append((key, number)))

    def slow(number: int) -> int:
        time.sleep(0.01 * (number % 3))
        return number

    sizes = [10, LARGE, LARGE, 10, LARGE - 1, 600_000, 10, LARGE, LARGE, LARGE, 1]
    for number, size in enumerate(sizes):
        queue.encode(f"page {number}", lambda number=number: slow(number), size)  # type: ignore[misc]
    queue.finish()
    assert written == [(f"page {number}", number) for number in range(len(sizes))]


def test_only_large_pages_are_work_for_other_threads() -> None:
    seen: dict[str, int] = {}
    queue = InOrder[str, int](lambda key, thread: seen.update({key: thread}))
    queue.encode("small", threading.get_ident, 100)
    queue.encode("large", threading.get_ident, LARGE)
    queue.encode("last", threading.get_ident, LARGE, is_last=True)
    queue.finish()
    here = threading.get_ident()
    assert seen["small"] == seen["last"] == here
    assert seen["large"] != here


def test_an_error_reaches_the_caller_and_nothing_behind_it_is_written() -> None:
    written: list[int] = []
    queue = InOrder[int, int](lambda key, _: written.append(key))
    queue.encode(0, lambda: 0, LARGE)
    queue.encode(1, lambda: 1 // 0, LARGE)
    queue.encode(2, lambda: 0, 1)
    with pytest.raises(ZeroDivisionError):
        queue.finish()
    queue.cancel()
    assert written == [0]
