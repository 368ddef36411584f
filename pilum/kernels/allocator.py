"""The allocator of the extension keeps freed memory for the next results.

The results of a scan are megabytes of new memory, and the next scan needs as much again. Memory
from the operating system costs a page fault for each page, which can take longer than decoding
the values. So the allocator keeps what was freed for ten seconds instead of one. It only reads its
environment when it is loaded: `MIMALLOC_PURGE_DELAY`, in milliseconds, which users may set, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["KEPT_MILLISECONDS", "freed_memory_is_kept"]

KEPT_MILLISECONDS = 10_000
_VARIABLE = "MIMALLOC_PURGE_DELAY"


@contextmanager
def freed_memory_is_kept() -> Iterator[None]:
    """Set the variable while the extension is loaded, unless the environment contains it."""
    if _VARIABLE in os.environ:
        yield
        return
    os.environ[_VARIABLE] = str(KEPT_MILLISECONDS)
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
