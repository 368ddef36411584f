"""Runs changes of a table in processes that die at a chosen file-system effect.

The script reads jobs from standard input, one JSON text per line, and forks for each:

    {"operation": "append", "path": "/…/t", "kill_at": 7}   ->   {"survived": false, "effects": 7}

Effects are what changes the file system: creating, writing, renaming, linking and removing files,
and making folders. The one at which the process dies does not happen; of a write, half does.
The process ends with `os._exit`: as with kill -9, nothing of it runs afterwards, no `finally`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EFFECTS = ("write", "rename", "replace", "link", "unlink", "mkdir", "rmdir")
NEVER = 1 << 30
SURVIVED, KILLED = 0, 99


@dataclass(frozen=True)
class Outcome:
    """How a process ended, and after how many effects."""

    survived: bool
    effects: int


class Killer:
    """A process that runs operations in children of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, operation: str, path: Path, kill_at: int = NEVER) -> Outcome:
        """Runs an operation; it dies at effect number `kill_at`, counted from 0."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"operation": operation, "path": str(path), "kill_at": kill_at}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer["code"] not in (SURVIVED, KILLED):
            raise AssertionError(f"{operation} failed at effect {kill_at}: {answer}")
        return Outcome(answer["code"] == SURVIVED, answer["effects"])


@contextmanager
def killer() -> Iterator[Killer]:
    """Starts the process and ends it."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])}
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        yield Killer(process)
        assert process.stdin is not None
        process.stdin.close()


class CountedEffects:
    """The module `os` as the local store sees it."""

    def __init__(self, kill_at: int) -> None:
        self.count = 0
        self._kill_at = kill_at
        self._lock = threading.Lock()  # data files are finished in threads

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name == "open":
            return self._open
        return (lambda *values: self._effect(real, *values)) if name in EFFECTS else real

    def _open(self, path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            return int(self._effect(os.open, path, flags, mode))
        return os.open(path, flags, mode)

    def _effect(self, real: Callable[..., Any], *values: Any) -> Any:
        with self._lock:
            if self.count == self._kill_at:
                if real is os.write:
                    os.write(values[0], values[1][: len(values[1]) // 2])
                _tell(self.count)
                os._exit(KILLED)
            self.count += 1
            return real(*values)


_answers = -1


def _tell(effects: int) -> None:
    os.write(_answers, effects.to_bytes(4, "little"))


def _run(job: dict[str, Any]) -> None:
    from concurrency.operations import OPERATIONS

    from pilum.storage import durable, local

    counted = CountedEffects(job["kill_at"])
    vars(local)["os"] = vars(durable)["os"] = counted
    OPERATIONS[job["operation"]].act(job["path"], None)
    _tell(counted.count)


def _serve() -> None:
    global _answers
    # Once for all children: what the operations import when they first need it.
    for name in ("concurrency.operations", "pandas", "sqlglot", "sqlglot.optimizer"):
        with suppress(ImportError):
            import_module(name)

    for line in sys.stdin:
        reading, _answers = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                _run(json.loads(line))
                code = SURVIVED
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(code)
        os.close(_answers)
        effects = int.from_bytes(os.read(reading, 4), "little")
        os.close(reading)
        status = os.waitpid(child, 0)[1]
        print(
            json.dumps({"code": os.waitstatus_to_exitcode(status), "effects": effects}), flush=True
        )


if __name__ == "__main__":
    _serve()
