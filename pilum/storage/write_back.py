"""Files on their way to the device while they are still being written.

Linux leaves what is written in memory until somebody waits for it: an `fsync` behind 25 MB takes as
long as encoding them did. Begun early, the device works meanwhile:

    write    |  1  |  2  |  3  |  4  | end  |
    device         |   1   |   2   |   3   |   4   | end |
    fsync                               waits └───────────▶

Nothing is durable by this, so it is no part of any order of effects. Where it cannot be begun, the
end just takes longer.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

__all__ = ["begin_write_back"]

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE: begin with what has changed; waits only if the device can take no more."""


def begin_write_back(descriptor: int, start: int, end: int) -> int:
    """Has the device begin with a part of a file.

    Args:
        descriptor: Of the file.
        start: First byte; a multiple of the size of a page of memory.
        end: The byte behind the last; a page that may still be filled is left out.

    Returns:
        Up to where it has begun: the next start.
    """
    end -= end % mmap.PAGESIZE
    if _sync_file_range is not None and end > start:
        _sync_file_range(descriptor, start, end - start, _WRITE)  # advice: whatever it returns
    return end


def _found() -> ctypes._NamedFuncPointer | None:
    """The function of the system's library, which Python's `os` does not have."""
    if sys.platform != "linux":
        return None
    function: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


_sync_file_range = _found()
