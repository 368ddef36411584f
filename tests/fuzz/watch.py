"""Starts workers, ends those that hang, and saves what they found."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from fuzz.attempt import attempt
from fuzz.seeds import seeds
from guard import GUARD_SECONDS

__all__ = ["Finding", "Result", "fuzz", "replay"]

_TURN_FILES = 4000
_TESTS = Path(__file__).parents[1]


@dataclass(frozen=True)
class Finding:
    """A file that did not end as it should.

    Attributes:
        file: Where it is saved.
        end: What happened.
    """

    file: Path
    end: str


@dataclass
class Result:
    """What came of it: how often each end was met, and what was found."""

    ends: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def fuzz(turns: Iterable[int], workers: int, out: Path, judges_costs: bool) -> Result:
    """Fuzzes with some workers at a time.

    Args:
        turns: A seed for each turn of some thousand files; the same one makes the same files.
        workers: Processes.
        out: Folder for findings.
        judges_costs: Whether a file that takes much time or memory is a finding.
    """
    waiting, lock = iter(turns), threading.Lock()

    def next_seed() -> int | None:
        with lock:
            return next(waiting, None)

    def work(_: int) -> list[Result]:
        return [_turn(seed, out, judges_costs) for seed in iter(next_seed, None)]

    result = Result()
    with ThreadPoolExecutor(workers) as pool:
        for one in chain.from_iterable(pool.map(work, range(workers))):
            result.ends += one.ends
            result.findings += one.findings
    return result


def _turn(seed: int, out: Path, judges_costs: bool) -> Result:
    """One worker from its start to its end."""
    result = Result()
    costs = ["costs"] if judges_costs else []
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(_TESTS.parent), str(_TESTS)])
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", str(seed), str(_TURN_FILES), folder, *costs],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )
        current = Path(folder, "current.lance")
        hung = _wait(process, current)
        said, complaint = process.communicate()
        if process.returncode == 0 and not hung:
            told = json.loads(said.splitlines()[-1])
            result.ends.update(told["ends"])
            for name, data, end in told["found"]:
                result.findings.append(_save(out, name, bytes.fromhex(data), end))
        elif current.exists():
            end = "BAD: hang" if hung else f"BAD: exit {process.returncode}: {complaint[-2000:]}"
            name = current.with_suffix(".txt").read_text()
            result.ends[end.splitlines()[0]] += 1
            result.findings.append(_save(out, name, current.read_bytes(), end))
        else:
            raise RuntimeError(f"the worker did not start: {complaint[-2000:]}")
    return result


def _wait(process: subprocess.Popen[str], current: Path) -> bool:
    """Waits for the end of a process; ends it if its file has been the same for too long."""
    started = time.time()
    while process.poll() is None:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            since = current.stat().st_mtime if current.exists() else started
            if time.time() > since + GUARD_SECONDS:
                process.kill()
                return True
    return False


def _save(out: Path, name: str, data: bytes, end: str) -> Finding:
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{hashlib.sha256(data).hexdigest()[:12]}.lance"
    file.write_bytes(data)
    file.with_suffix(".txt").write_text(f"{name}\n{end}\n")
    return Finding(file, f"{name}: {end}")


def replay(file: Path) -> str:
    """Reads a saved finding again; returns how that ends."""
    name = file.with_suffix(".txt").read_text().splitlines()[0]
    seed = next(seed for seed in seeds() if seed.name == name)
    return attempt(seed, file.read_bytes(), judges_costs=True)
