"""Starts workers, ends those that hang, and saves what they found."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fuzz.attempt import attempt
from fuzz.seeds import seeds

__all__ = ["Finding", "Result", "fuzz", "replay"]

_TURN_SECONDS = 60.0
_HANG_SECONDS = 20.0
"""A file that is read for so long is a finding."""
_START_SECONDS = 120.0
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


def fuzz(seconds: float, seed: int, workers: int, out: Path) -> Result:
    """Fuzzes with some workers at a time.

    Args:
        seconds: How long.
        seed: Of the random numbers; with the same one the same files are made.
        workers: Processes.
        out: Folder for findings.
    """
    result = Result()
    deadline = time.monotonic() + seconds
    with ThreadPoolExecutor(workers) as pool:
        for one in pool.map(lambda number: _work(seed + number, deadline, out), range(workers)):
            result.ends += one.ends
            result.findings += one.findings
    return result


def _work(seed: int, deadline: float, out: Path) -> Result:
    result, number = Result(), seed * 1000
    while (left := deadline - time.monotonic()) > 1:
        _turn(number, min(left, _TURN_SECONDS), out, result)
        number += 1
    return result


def _turn(seed: int, seconds: float, out: Path, result: Result) -> None:
    """One worker from its start to its end."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join([str(_TESTS.parent), str(_TESTS)])
        process = subprocess.Popen(
            [sys.executable, "-m", "fuzz.worker", str(seed), str(seconds), folder],
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


def _wait(process: subprocess.Popen[str], current: Path) -> bool:
    """Waits for the end of a process; ends it if its file has been the same for too long."""
    started = time.time()
    while process.poll() is None:
        try:
            process.wait(1)
        except subprocess.TimeoutExpired:
            since = current.stat().st_mtime if current.exists() else None
            limit = started + _START_SECONDS if since is None else since + _HANG_SECONDS
            if time.time() > limit:
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
    return attempt(seed, file.read_bytes())
