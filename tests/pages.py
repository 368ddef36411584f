"""Runs pages of the documentation one after the other: run as a script.

    python pages.py plain|spark PAGE.py...

Each page begins in the working directory, which is emptied, with the variables of a script.
PAGE.error is written when it ends, and is empty if the page ran.

A plain page has a process of its own, a fork of one that has imported pilum and nothing else. Pages
about Spark share a process, its JVM and the processes in Python that Spark starts, which are most
of what Spark costs; each has a session of its own.
"""

from __future__ import annotations

import os
import runpy
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

_MOST_STARTS = 10


def run(page: Path) -> str:
    """Run a page, and return its traceback or nothing."""
    try:
        runpy.run_path(str(page), run_name="__main__")
    except BaseException:
        return traceback.format_exc()
    return ""


def plain(page: Path) -> str:
    """Run a page in a fork, which may end in any way."""
    child = os.fork()
    if child == 0:
        error = run(page)
        sys.stdout.flush()
        error_file(page).write_text(error)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return error_file(page).read_text() if status == 0 else f"ended with status {status}"


def spark(page: Path) -> str:
    """Run a page, again if Spark gave up on a process, and end its session.

    Spark waits ten seconds for a Python process of a stream, and has no setting for that.
    """
    from pyspark.sql import SparkSession

    kind: Any = SparkSession
    kind.stop = end_session
    error = ""
    for _ in range(_MOST_STARTS):
        empty(Path.cwd())
        error = run(page)
        if (session := SparkSession.getActiveSession()) is not None:
            end_session(session)
        if "Python worker failed to connect back" not in error:
            break
    return error


def end_session(session: Any) -> None:
    """End the queries of a session and forget it, as `stop` does, but keep its processes."""
    for query in session.streams.active:
        query.stop()
    of_java = session._jvm.SparkSession
    of_java.clearActiveSession()
    of_java.clearDefaultSession()
    type(session)._instantiatedSession = None
    type(session)._activeSession = None


def error_file(page: Path) -> Path:
    """Where the traceback of a page is written."""
    return page.with_suffix(".error")


def empty(folder: Path) -> None:
    """Delete what the last page left."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def main(kind: str, *pages: str) -> None:
    """Run the pages, and write what became of each."""
    import pilum  # noqa: F401 (what all forks have imported)

    way: Callable[[Path], str] = {"plain": plain, "spark": spark}[kind]
    for page in map(Path, pages):
        empty(Path.cwd())
        error_file(page).write_text(way(page))


if __name__ == "__main__":
    main(*sys.argv[1:])
