"""The memory of Spark's processes on this machine, from the kernel's own high-water marks.

    this process
      └── java                  the JVM: driver and executor in one
            └── python          pyspark.daemon
                  └── python    a worker per task that runs, and those that plan and commit

The marks are reset when a watch begins, so each step has its own. Linux only.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["Peaks", "Watch"]

_PROC = Path("/proc")
_SECONDS = 0.1
_ONE_IN = 10
"""Sizes of which shared pages are told apart cost the kernel more: they are asked less often."""
_RESET_PEAK = "5"
_PEAK = ("status", "VmHWM:")
_SHARE = ("smaps_rollup", "Pss:")


@dataclass
class Peaks:
    """Resident sizes at their peak, bytes.

    Attributes:
        worker: Of the largest Python process below the JVM.
        workers: Of all of them at one time; pages that they share count once.
        jvm: Of the JVM.
        driver: Of this process.
    """

    worker: int = 0
    workers: int = 0
    jvm: int = 0
    driver: int = 0


class Watch:
    """Looks at the processes until it ends; `peaks` has what was seen."""

    def __init__(self) -> None:
        self.peaks = Peaks()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        for process in (os.getpid(), *_below(os.getpid())):
            _reset(process)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        for number in count():
            self._note()
            if number % _ONE_IN == 0:
                self._note_together()
            if self._over.wait(_SECONDS):
                self._note()
                return

    def _note(self) -> None:
        peaks = self.peaks
        peaks.driver = max(peaks.driver, _size(os.getpid(), _PEAK))
        for process in _below(os.getpid()):
            if _is_jvm(process):
                peaks.jvm = max(peaks.jvm, _size(process, _PEAK))
            else:
                peaks.worker = max(peaks.worker, _size(process, _PEAK))

    def _note_together(self) -> None:
        workers = [process for process in _below(os.getpid()) if not _is_jvm(process)]
        together = sum(_size(process, _SHARE) for process in workers)
        self.peaks.workers = max(self.peaks.workers, together)


def _reset(process: int) -> None:
    try:
        (_PROC / str(process) / "clear_refs").write_text(_RESET_PEAK)
    except OSError:  # it has ended
        return


def _size(process: int, of: tuple[str, str]) -> int:
    """A size of a process in bytes; 0 of one that has ended."""
    file, key = of
    for line in _text(process, file).splitlines():
        if line.startswith(key):
            return int(line.split()[1]) << 10
    return 0


def _is_jvm(process: int) -> bool:
    return _text(process, "comm").strip() == "java"


def _text(process: int, file: str) -> str:
    try:
        return (_PROC / str(process) / file).read_text()
    except OSError:  # it has ended
        return ""


def _below(process: int) -> Iterator[int]:
    """All processes that it started, and that these started."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit() and (parent := _parent(int(entry.name))) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found = children.get(process, [])
    while found:
        yield from found
        found = [child for one in found for child in children.get(one, [])]


def _parent(process: int) -> int | None:
    stat = _text(process, "stat")
    return int(stat.rpartition(")")[2].split()[1]) if stat else None
