"""The files that are open for reading: a bounded number of them, however many sources there are.

A descriptor is closed when the last one who holds it lets go. A read holds it while it lasts, so
taking it away from a source never closes a file under a read in another thread.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Protocol
from weakref import ref

__all__ = ["MAX_OPEN", "Descriptor", "keep_open"]

MAX_OPEN = 256
"""Far below what systems allow a process by default, which is 1,024 on Linux."""


class Descriptor:
    """The number of an open file; closed with the object."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _Source(Protocol):
    def release(self) -> None: ...


_open: deque[ref[_Source]] = deque()


def keep_open(source: _Source) -> None:
    """Notes that a source has opened its file, and has the one release its file that is oldest."""
    _open.append(ref(source))
    while len(_open) > MAX_OPEN:
        oldest = _open.popleft()()
        if oldest is not None:
            oldest.release()
