"""Spark's daemon, which has imported what its workers import: each of them is a fork of it.

Most tasks of the tests take less processor time than the imports. Only the daemon of tasks has
many workers; the daemons of data sources import nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

from pyspark import daemon

IMPORTED = (
    "pandas",
    "pilum.expressions.parse",
    "pilum.spark",
    "pyarrow.pandas_compat",
    "pyspark.worker",
    "pytest",
)


def serve(prepare: Callable[[], object] = lambda: None) -> None:
    """Be Spark's daemon; `prepare` is called in the daemon of tasks."""
    if sys.argv[1] == "pyspark.worker":
        for name in IMPORTED:
            import_module(name)
        prepare()
    daemon.manager()


if __name__ == "__main__":
    serve()
