"""A writer that is killed at any moment: what it acknowledged is there, what is not is not seen.

One process that has everything imported forks a writer, lets it commit in a loop, and kills it a
moment after so many commits; again and again. Version n of the table holds number n, and those
before it since the last multiple of 7, at which the writer overwrites; so every version is known
beforehand.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from faults.helpers import listing, start_python
from guard import GUARD_SECONDS

import pilum
from pilum.errors import DatasetNotFoundError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = [pytest.mark.reference, pytest.mark.slow]

KILLER = """
import os
import signal
import sys
import time

import pyarrow as pa
import pilum
from pilum.errors import DatasetNotFoundError


def commit_for_ever(path, answers):
    try:
        number = pilum.dataset(path).version + 1
    except DatasetNotFoundError:
        number = 1
    while True:
        rows = {
            "number": pa.array([number] * 20),
            "text": pa.array([f"number {number}"] * 20),
            "vector": pa.array([[float(number)] * 4] * 20, pa.list_(pa.float32(), 4)),
        }
        mode = "append" if number % 7 else "overwrite"
        found = pilum.write_dataset(rows, path, mode=mode, max_rows_per_file=8)
        os.write(answers, f"{found.version} {number}\\n".encode())
        number += 1


pa.array([1])  # imports pandas, if there is one
path, answers = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for line in sys.stdin:
    commits, moment = line.split()
    size = os.fstat(answers).st_size
    child = os.fork()
    if child == 0:
        commit_for_ever(path, answers)
    for _ in range(int(commits)):
        while os.fstat(answers).st_size == size:
            time.sleep(0.001)
        size = os.fstat(answers).st_size
    time.sleep(float(moment))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else "ended by itself", flush=True)
"""
KILLS = 40
MOST_COMMITS = 2
LONGEST_MOMENT_SECONDS = 0.05


@pytest.mark.checklist("S2.8")
@pytest.mark.seeds(1)
def test_what_is_acknowledged_is_there(tmp_path: Path, seed: int) -> None:
    path, answers = tmp_path / "t", tmp_path / "answers"
    drawn, before = random.Random(seed), 0
    killer = start_python(KILLER, path, answers)
    assert killer.stdin is not None
    assert killer.stdout is not None
    for _ in range(KILLS):
        commits, moment = drawn.randint(0, MOST_COMMITS), drawn.uniform(0, LONGEST_MOMENT_SECONDS)
        killer.stdin.write(f"{commits} {moment}\n")
        killer.stdin.flush()
        assert killer.stdout.readline().strip() == "9"
        before = require_whole(path, acknowledged(answers), before)
    killer.stdin.close()
    killer.stdout.close()
    assert killer.wait(GUARD_SECONDS) == 0
    require_whole_history(path, drawn)
    require_going_on(path)


def acknowledged(answers: Path) -> int:
    """The newest version that a writer was told of; each was told its own."""
    lines = answers.read_text().splitlines()
    for line in lines:
        version, number = line.split()
        assert version == number
    return int(lines[-1].split()[0]) if lines else 0


def require_whole(path: Path, answered: int, before: int) -> int:
    """The table has all that was acknowledged, and at most one commit that could not be."""
    least = max(answered, before)
    if least == 0 and not list(path.glob("_versions/*.manifest")):
        with pytest.raises(DatasetNotFoundError):
            pilum.dataset(path)
        return 0
    ours, theirs = pilum.dataset(path), lance.dataset(str(path))
    assert ours.version in (least, least + 1)
    assert theirs.version == ours.version
    require_content(ours, ours.version)
    require_content(theirs, ours.version)
    return ours.version


def require_content(dataset: Any, version: int) -> None:
    first = max(version // 7 * 7, 1)
    expected = [number for number in range(first, version + 1) for _ in range(20)]
    rows = dataset.to_table().to_pydict()
    assert rows["number"] == expected
    assert rows["text"] == [f"number {number}" for number in expected]
    assert rows["vector"] == [[float(number)] * 4 for number in expected]


def require_whole_history(path: Path, drawn: random.Random) -> None:
    """Every version from the first on; some of them are read again."""
    latest = pilum.dataset(path)
    assert [version["version"] for version in latest.versions()] == [*range(1, latest.version + 1)]
    for version in drawn.sample(range(1, latest.version + 1), 10):
        require_content(latest.checkout_version(version), version)
        require_content(lance.dataset(str(path), version=version), version)
    lance.dataset(str(path)).validate()


def require_going_on(path: Path) -> None:
    """What the dead left behind is in nobody's way."""
    left_behind = listing(path)
    rows = pilum.dataset(path).to_table()
    version = pilum.dataset(path).version
    pilum.write_dataset(rows, path, mode="append")
    lance.write_dataset(rows, str(path), mode="append")
    assert pilum.dataset(path).version == version + 2
    assert pilum.dataset(path).count_rows() == 3 * rows.num_rows
    hint = "_versions/latest_version_hint.json"
    after = listing(path)
    assert {
        name: data for name, data in left_behind.items() if name != hint
    }.items() <= after.items()
