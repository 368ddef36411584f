"""What the tests of this folder share: processes that write, and what a folder holds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from guard import GUARD_SECONDS

import pilum
from pilum.errors import PilumError

__all__ = ["exit_codes", "listing", "refused", "start_python"]


def start_python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """Runs Python code in a process of its own, with this checkout on its path."""
    root = str(Path(pilum.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": root, "RUST_LOG": "error"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def exit_codes(processes: Sequence[subprocess.Popen[str]]) -> list[int]:
    """Waits until all have ended, and closes what they were talked to by."""
    for process in processes:
        process.communicate(timeout=GUARD_SECONDS)
    return [process.returncode for process in processes]


def listing(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder, hidden or not: the bytes of files, None for folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@contextmanager
def refused(error: type[PilumError], *texts: str, within: Path) -> Iterator[None]:
    """Expects this very error, these texts in it, and that the folder stays as it is."""
    before = listing(within)
    with pytest.raises(PilumError) as found:
        yield
    assert found.type is error, f"{found.type.__name__}: {found.value}"
    for text in texts:
        assert text in str(found.value)
    assert listing(within) == before
