"""The pools: interrupts, processors, forks and the end of the interpreter."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from guard import GUARD_SECONDS

import pilum
from pilum.parallel import ThreadPools, num_threads, submit


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


def test_a_pool_is_created_once_for_all_threads() -> None:
    pools, start = ThreadPools(), threading.Barrier(8, timeout=GUARD_SECONDS)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: (start.wait(), pools.get("pilum"))[1], range(8)))
    assert len(set(map(id, found))) == 1
    assert pools.get("pilum") is found[0]
    found[0].shutdown()


def _count(dataset: bytes, queue: multiprocessing.SimpleQueue[int]) -> None:
    queue.put(pickle.loads(dataset).to_table().num_rows)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pickled_dataset_is_read_in_a_child(tmp_path: Path, method: str) -> None:
    dataset = pilum.write_dataset(pa.table({"x": range(1000)}), tmp_path, max_rows_per_file=100)
    assert dataset.to_table().num_rows == 1000
    context: Any = multiprocessing.get_context(method)
    queue = context.SimpleQueue()
    child = context.Process(target=_count, args=(pickle.dumps(dataset), queue))
    child.start()
    child.join(GUARD_SECONDS)
    assert child.exitcode == 0
    assert queue.get() == 1000


FORKED = """
import os, sys
import pyarrow, pilum
from pilum.parallel import submit, submit_request, submit_sync, submit_waiting

dataset = pilum.write_dataset(pyarrow.table({{"x": range(10)}}), {!r})
for start in (submit, submit_request, submit_sync, submit_waiting):
    assert start(lambda: 7).result() == 7
child = os.fork()
for start in (submit, submit_request, submit_sync, submit_waiting):
    assert start(lambda: 7).result() == 7
assert dataset.to_table().num_rows == 10
if child:
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_parent_and_child_of_a_fork_work_and_exit(tmp_path: Path) -> None:
    code = FORKED.format(str(tmp_path / "table"))
    root = Path(pilum.__file__).parents[1]
    command = [sys.executable, "-W", "ignore", "-c", code]
    subprocess.run(command, check=True, cwd=root, timeout=GUARD_SECONDS)


AFTER_MAIN = """
import threading
from datetime import timedelta
import pyarrow, pilum

def work():
    threading.main_thread().join()
    rows = pyarrow.table({{"x": range(3000), "s": [f"text {{n}}" for n in range(3000)]}})
    dataset = pilum.write_dataset(rows, {0!r}, max_rows_per_file=500)
    dataset.create_scalar_index("s", "BTREE")
    dataset.insert(rows)
    dataset.delete("x = 7")
    dataset.optimize.compact_files()
    dataset.cleanup_old_versions(timedelta(0))
    batches = dataset.to_batches(filter="x < 1000 and s > 'text 5'", batch_size=64)
    print(dataset.count_rows(), sum(batch.num_rows for batch in batches))

threading.Thread(target=work).start()
"""


def test_a_thread_works_on_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    """Python ends its pools with the main thread, before it waits for other threads."""
    command = [sys.executable, "-c", AFTER_MAIN.format(str(tmp_path / "table"))]
    root = Path(pilum.__file__).parents[1]
    result = subprocess.run(command, check=True, cwd=root, capture_output=True, text=True)
    numbers = [n for n in range(1000) if f"text {n}" > "text 5"]
    assert result.stdout.split() == ["5998", str(2 * len(numbers) - 2 * (7 in numbers))]
    assert not result.stderr


LATE = """
import atexit
from pilum.storage.local import LocalStore

atexit.register(lambda: LocalStore({!r}).sink("data/a").finish())
"""


def test_what_is_written_while_the_interpreter_shuts_down_is_written(tmp_path: Path) -> None:
    code = LATE.format(str(tmp_path / "table"))
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(pilum.__file__).parents[1])
    assert (tmp_path / "table" / "data" / "a").is_file()
