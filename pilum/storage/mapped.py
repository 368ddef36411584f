"""Map parts of local files into memory instead of copying them, where that is safe and cheaper.

    8 MB of vectors    150 us copied, 6 us mapped; if each byte is used, 300 and 210

Data files never change in place, and a map is made for one read: it ends with the last array that
refers to it. Until then no descriptor of the file is kept, of which a process has few. Only bytes
that become a result as they are stored are mapped; what is decoded is cheaper to copy first, and so
is anything smaller.

A page of a file that has to be fetched from the device blocks the thread that touches it, and there
is no error if that fails. So only files on local file systems are mapped, and only what the page
cache holds: a probe asks for some bytes without waiting. A file system in memory may refuse the
probe, but has all its files in the page cache. Source: docs/decisions/0002-io-model.md.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["MAPPED_BYTES", "NO_WAIT", "are_cached", "can_map", "is_cached", "map_bytes"]

MAPPED_BYTES = 2 * 1024 * 1024
"""Least bytes for which a map costs less than a copy even if all of them are used."""

_EXT, _XFS, _BTRFS, _TMPFS, _OVERLAY = 0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630
_LOCAL = frozenset({_EXT, _XFS, _BTRFS, _TMPFS, _OVERLAY})
_STATFS_BYTES = 256
"""More than the size of `struct statfs`, which begins with the type as a C long."""

_PROBES = 8
_PROBED_PLACES = 4
"""Of many places, so few are asked for: each probe takes as long as a copy of a place."""
_READ_AHEAD_BYTES = 128 * 1024
"""Least bytes between two probes: the system fetches so many at once."""

NO_WAIT = getattr(os, "RWF_NOWAIT", 0)
"""Flag of reads that take only what the page cache holds; 0 where there is none."""


def can_map(descriptor: int) -> bool:
    """Return whether an open file lies on a local file system whose maps are known to work."""
    return bool(NO_WAIT) and _statfs_type(descriptor) in _LOCAL


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


def _statfs_type(descriptor: int) -> int:
    """Return the magic number of the file system of an open file; 0 if it is unknown."""
    status = ctypes.create_string_buffer(_STATFS_BYTES)
    if _libc().fstatfs(descriptor, status) != 0:
        return 0
    return ctypes.c_ulong.from_buffer(status).value & 0xFFFFFFFF


def is_cached(descriptor: int, offset: int, size: int) -> bool:
    """Return whether the page cache holds the bytes at some positions of a range of a file.

    False also if the file system cannot answer, unless it is one in memory.
    """
    return _are_cached(
        descriptor, (*range(offset, offset + size, size // _PROBES), offset + size - 1)
    )


def are_cached(descriptor: int, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> bool:
    """Return whether the page cache holds some of many ranges, as `is_cached`."""
    step = -(-len(offsets) // _PROBED_PLACES)
    positions: list[int] = []
    for offset, size in zip(offsets[::step].tolist(), sizes[::step].tolist(), strict=True):
        positions += range(offset, offset + size, max(size // _PROBES, _READ_AHEAD_BYTES))
    return _are_cached(descriptor, positions)


def _are_cached(descriptor: int, positions: Sequence[int]) -> bool:
    byte = bytearray(1)
    try:
        for position in positions:
            if os.preadv(descriptor, [byte], position, NO_WAIT) != 1:
                return False
    except OSError:
        is_in_memory = _statfs_type(descriptor) == _TMPFS
        return is_in_memory and os.fstat(descriptor).st_size > max(positions)
    return True


class _Map:
    """The memory of a map, which ends with the last reference."""

    __slots__ = ("_end", "address", "size")

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        # Python's own maps keep a descriptor each.
        library = _libc()
        found = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, offset)
        self.size = 0 if found in _FAILED else size
        self.address = found
        self._end = library.munmap
        if not self.size:
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error))

    def __del__(self) -> None:
        if self.size:
            self._end(self.address, self.size)


_FAILED = (None, ctypes.c_void_p(-1).value)


def map_bytes(descriptor: int, offset: int, size: int) -> NDArray[np.uint8]:
    """Map a range of a file, to be read only; raise OSError if the system refuses."""
    begin = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
    memory = _Map(descriptor, begin, offset + size - begin)
    view = pa.foreign_buffer(memory.address, memory.size, base=memory)
    return np.frombuffer(view, np.uint8)[offset - begin :]
