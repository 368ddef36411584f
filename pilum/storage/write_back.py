"""Start writing a file to the device while it is still being written.

Linux keeps written data in memory until a process waits for it: an `fsync` after 25 MB takes as
long as encoding them did. Started early, the device works concurrently:

    write    |  1  |  2  |  3  |  4  | end  |
    device         |   1   |   2   |   3   |   4   | end |
    fsync                               waits └───────────▶

This makes nothing durable, so it is not part of any order of effects. Where it is not available,
finishing the file only takes longer.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

__all__ = ["begin_write_back"]

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE: start writing changed pages; blocks only if the device's queue is full."""


def begin_write_back(descriptor: int, start: int, end: int) -> int:
    """Make the device start to write a part of a file.

    Args:
        descriptor: The descriptor of the file.
        start: First byte; a multiple of the size of a memory page.
        end: The byte after the last; a page that may still be filled is left out.

    Returns:
        The end of the part that was started: the next start.
    """
    end -= end % mmap.PAGESIZE
    if _sync_file_range is not None and end > start:
        _sync_file_range(descriptor, start, end - start, _WRITE)  # advice: its result is ignored
    return end


def _found() -> ctypes._NamedFuncPointer | None:
    """Return the function of the system's library, which Python's `os` does not have."""
    if sys.platform != "linux":
        return None
    function: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


_sync_file_range = _found()
