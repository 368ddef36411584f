"""Maps of files that are read again, or at many scattered places, kept while the files are.

    1,000 rows of four columns of 10 M rows, in the page cache    11.7 ms by reads, 3.8 by a map

Each place costs one call of the system by reads. In a map it costs nothing, but for the first touch
of its surroundings, which costs more than a call. So a file is mapped once some hundred places of
it have been read. Long places are copied at the speed of memory; only one that is read a second
time is a reason for a map, as its bytes are then copied for nothing. Once there is a map, all long
places are used in it.

All maps together are at most as large as a quarter of the memory; the oldest one ends first. The
system may take their pages back at any time, as those of the page cache. A process whose address
space is limited keeps no maps, nor does a worker of Spark, as cluster managers count its maps as
memory. What is said in `pilum.storage.mapped` of errors and of the device holds here, too.
Source: docs/decisions/0002-io-model.md.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from importlib.util import find_spec
from typing import Protocol
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from pilum.parallel import renew_in_child
from pilum.storage.mapped import can_map, map_bytes

__all__ = [
    "FEWEST_PLACES",
    "LONG_BYTES",
    "MEAN_BYTES",
    "MOST_REMEMBERED",
    "PLACES_BEFORE_MAP",
    "KeptMaps",
    "kept_maps",
]

PLACES_BEFORE_MAP = 500
"""So many places of a file are read before it is mapped."""

FEWEST_PLACES = 32
"""Finding out whether the page cache has the places of a read costs as much as ten calls."""

MEAN_BYTES = 64 * 1024
"""Longer places are a reason for a map only if they are read again."""

LONG_BYTES = 256 * 1024
"""Reads of fewer bytes, unless they are scattered, are copied before the page cache is probed."""

MOST_REMEMBERED = 4096
"""So many long reads of a file are remembered."""


class Mapped(Protocol):
    """A file whose map is kept."""

    def unmap(self) -> None:
        """Let go of the map."""


class KeptMaps:
    """The maps of a process that are kept, the oldest first; safe to use from several threads.

    Args:
        max_bytes: Most bytes of all maps together.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: deque[tuple[ref[Mapped], int]] = deque()
        self._num_bytes = 0
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Take a fresh lock."""
        self._lock = threading.Lock()

    def map(self, owner: Mapped, descriptor: int, size: int) -> NDArray[np.uint8] | None:
        """Map a whole file; older maps end if there are too many.

        Returns:
            uint8, shape (size,), read-only; None if the file is not to be mapped, or cannot be.
        """
        if size > self.max_bytes or _is_limited() or not can_map(descriptor):
            return None
        try:
            mapped = map_bytes(descriptor, 0, size)
        except OSError:  # no address space, or too many maps
            return None
        self._add(owner, size)
        return mapped

    def _add(self, owner: Mapped, size: int) -> None:
        with self._lock:
            self._kept.append((ref(owner), size))
            self._num_bytes += size
            if self._num_bytes > self.max_bytes:
                self._end_oldest()

    def _end_oldest(self) -> None:
        """End maps until the others are small enough; those whose file is gone have ended."""
        self._kept = deque(one for one in self._kept if one[0]() is not None)
        self._num_bytes = sum(size for _, size in self._kept)
        while self._num_bytes > self.max_bytes:
            oldest, size = self._kept.popleft()
            self._num_bytes -= size
            found = oldest()
            if found is not None:
                found.unmap()


def _is_limited() -> bool:
    """Return whether maps would take away address space, or count as memory that is limited."""
    if "pyspark.worker" in sys.modules or find_spec("resource") is None:
        return True
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return limit != resource.RLIM_INFINITY


def _memory_bytes() -> int:
    """Return the size of the memory of this machine; 0 if it is unknown."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


kept_maps = KeptMaps(_memory_bytes() // 4)
"""The maps of this process."""
