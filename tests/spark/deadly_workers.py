"""Workers that die or wait when they have written a file of a table: a daemon module of Spark.

A file beside a table, with the name of the table and an ending, says what its next worker does when
a data file of it has got its name, which is before its task reports it:

    TABLE.kills     dies
    TABLE.passes    nothing: the task ends, and commits nothing yet
    TABLE.waits     waits until the driver is killed, whose process is noted in TABLE.waiting
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any, NoReturn

from spark import preloaded

__all__ = ["System", "die", "die_with_driver", "grandparent"]


class System:
    """The module `os` as the local store sees it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


class WorkerSystem(System):
    """That of a worker."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file, and do what is said beside the table."""
        os.rename(old, new)
        folder, _, _ = new.rpartition("/data/")
        if folder and _is_said(f"{folder}.kills"):
            die()
        if folder and not _is_said(f"{folder}.passes") and Path(f"{folder}.waits").exists():
            die_with_driver(f"{folder}.waiting")


def die_with_driver(note: str) -> NoReturn:
    """Note the driver's process in a file, and wait until it is killed."""
    _note(note, str(grandparent()))
    while os.getppid() != 1:  # the daemon ends with the driver
        time.sleep(0.02)
    die()


def _note(path: str, text: str) -> None:
    """Write a file that is whole as soon as it is there."""
    Path(f"{path}-{os.getpid()}").write_text(text)
    os.rename(f"{path}-{os.getpid()}", path)


def _is_said(path: str) -> bool:
    """Whether a file is there; only the first that asks finds it."""
    try:
        os.rename(path, f"{path}-done")
    except FileNotFoundError:
        return False
    return True


def grandparent() -> int:
    """Of a Python worker: the executor's JVM, for the parent is Spark's daemon."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("alive")


def _change_system() -> None:
    from pilum.storage import durable  # daemons of data sources import nothing

    vars(durable)["os"] = WorkerSystem()


if __name__ == "__main__":
    preloaded.serve(_change_system)
