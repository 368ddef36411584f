"""Calls of the operating system that some systems lack, each with its other half.

    reading at a position       preadv, pread         a seek and a read, one thread at a time
    announcing reads            posix_fadvise         nothing
    making a file durable       F_FULLFSYNC (macOS)   fsync
    making a folder durable     fsync of the folder   nothing: NTFS keeps names in its journal
    naming a file that is open  rename                after it is closed
    one process at a time       flock                 a locked byte

What makes files durable is in `durable.py`; what Linux alone has is there and in `mapped.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

__all__ = [
    "CAN_RENAME_OPEN_FILES",
    "OPEN_FLAGS",
    "announce",
    "exclusively",
    "full_sync_command",
    "read_at",
    "read_into",
    "slashed",
]

OPEN_FLAGS: Final = (
    getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOINHERIT", 0) | getattr(os, "O_BINARY", 0)
)
"""Flags of every file that is opened: not for child processes, and without other line ends."""
CAN_RENAME_OPEN_FILES: Final = os.name != "nt"
"""Whether a file may get another name while it is open."""

_seek: Final = threading.Lock()


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Read bytes at a position of an open file, as `os.pread`."""
    with _seek:
        os.lseek(descriptor, offset, os.SEEK_SET)
        return os.read(descriptor, size)


def read_into(descriptor: int, views: Sequence[memoryview], offset: int) -> int:
    """Read bytes at a position into the first part of memory, as `os.preadv`."""
    data = read_at(descriptor, len(views[0]), offset)
    views[0][: len(data)] = data
    return len(data)


def full_sync_command() -> Any:
    """Return the command of `fcntl` that reaches the device on macOS, where `fsync` does not."""
    if find_spec("fcntl") is None:
        return None
    import fcntl

    return getattr(fcntl, "F_FULLFSYNC", None)


def announce(descriptor: int, ranges: Iterable[tuple[int, int]]) -> None:
    """Ask the system to fetch ranges (offset, size), which would otherwise wait for each other."""
    with suppress(OSError, AttributeError):
        for offset, size in ranges:
            os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_WILLNEED)


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """Hold a lock file, which processes on one machine wait for."""
    with path.open("w") as file:
        if find_spec("fcntl") is not None:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
            yield
            return
        locking: Any = __import__("msvcrt")  # no types elsewhere
        locking.locking(file.fileno(), locking.LK_LOCK, 1)
        try:
            yield
        finally:
            file.seek(0)
            locking.locking(file.fileno(), locking.LK_UNLCK, 1)


def slashed(path: str, separator: str = os.sep) -> str:
    """Return a path with slashes between its names, and no slash before the letter of a drive."""
    if separator == "/":
        return path
    found = path.replace(separator, "/")
    return found[1:] if found[:1] == "/" and found[2:3] == ":" else found
