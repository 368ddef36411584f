"""The pool: interrupts, processors and forks."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from guard import GUARD_SECONDS

import pilum
from pilum.parallel import num_threads, submit


def test_an_interrupt_is_not_swallowed() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(interrupt).result()
    assert submit(lambda: 1).result() == 1


def test_tasks_run_side_by_side() -> None:
    if num_threads() < 2:
        pytest.skip("one processor")
    barrier = threading.Barrier(2, timeout=GUARD_SECONDS)
    futures = [submit(barrier.wait) for _ in range(2)]
    assert sorted(future.result() for future in futures) == [0, 1]


def _answer(queue: multiprocessing.SimpleQueue[int]) -> None:
    queue.put(submit(lambda: 42).result())


def test_a_child_has_a_pool_of_its_own() -> None:
    assert submit(lambda: 1).result() == 1
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_answer, args=(queue,))
    child.start()
    child.join(GUARD_SECONDS)
    assert child.exitcode == 0
    assert queue.get() == 42


LATE = """
import atexit
from pilum.storage.local import LocalStore

atexit.register(lambda: LocalStore({!r}).sink("data/a").finish())
"""


def test_what_is_written_while_the_interpreter_shuts_down_is_written(tmp_path: Path) -> None:
    code = LATE.format(str(tmp_path / "table"))
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(pilum.__file__).parents[1])
    assert (tmp_path / "table" / "data" / "a").is_file()
