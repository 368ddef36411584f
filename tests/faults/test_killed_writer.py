"""A writer that is killed at any moment: what it acknowledged is there, what is not is not seen.

One process that has everything imported forks a writer, lets it commit in a loop, and kills it;
again and again. Version n of the table holds number n, and those before it since the last multiple
of 7, at which the writer overwrites; so every version is known beforehand.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest
from faults.helpers import listing, start_python

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
    child = os.fork()
    if child == 0:
        commit_for_ever(path, answers)
    time.sleep(float(line))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print(os.WTERMSIG(status) if os.WIFSIGNALED(status) else "ended by itself", flush=True)
"""
LONGEST_LIFE_SECONDS = 0.15
MOST_KILLS = 120
BUDGET_SECONDS = 18


@pytest.mark.checklist("S2.8")
def test_what_is_acknowledged_is_there(tmp_path: Path) -> None:
    path, answers = tmp_path / "t", tmp_path / "answers"
    moments = random.Random(20)
    started, before, kills = time.monotonic(), 0, 0
    killer = start_python(KILLER, path, answers)
    assert killer.stdin is not None
    assert killer.stdout is not None
    while kills < MOST_KILLS and time.monotonic() - started < BUDGET_SECONDS:
        killer.stdin.write(f"{moments.uniform(0, LONGEST_LIFE_SECONDS)}\n")
        killer.stdin.flush()
        assert killer.stdout.readline().strip() == "9"
        kills += 1
        before = require_whole(path, acknowledged(answers), before)
    killer.stdin.close()
    killer.stdout.close()
    assert killer.wait(10) == 0
    assert kills > 20
    assert before > 5, "it was killed before it could do anything"
    require_whole_history(path, moments)
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


def require_whole_history(path: Path, moments: random.Random) -> None:
    """Every version from the first on; some of them are read again."""
    latest = pilum.dataset(path)
    assert [version["version"] for version in latest.versions()] == [*range(1, latest.version + 1)]
    for version in moments.sample(range(1, latest.version + 1), 10):
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
