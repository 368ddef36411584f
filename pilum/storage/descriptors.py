"""A limit on the number of files that are open for reading, however many sources there are.

A descriptor is closed when its last reference is dropped. A read holds a reference while it runs,
so taking the descriptor away from a source never closes a file during a read in another thread.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Protocol
from weakref import ref

__all__ = ["MAX_OPEN", "Descriptor", "keep_open"]

MAX_OPEN = 256
"""Far below the default limit of a process, which is 1,024 on Linux."""


class Descriptor:
    """The descriptor of an open file, which is closed with the object."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _Source(Protocol):
    def release(self) -> None: ...


_open: deque[ref[_Source]] = deque()


def keep_open(source: _Source) -> None:
    """Record that a source has opened its file; beyond the limit, release the oldest source."""
    _open.append(ref(source))
    while len(_open) > MAX_OPEN:
        oldest = _open.popleft()()
        if oldest is not None:
            oldest.release()
