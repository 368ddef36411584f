"""versitygw: a gateway that speaks S3 for a folder of the local disk."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers.cache import CACHE
from servers.moto import KEY
from servers.processes import Server, free_port, running

__all__ = ["versitygw_server"]

_VERSION = "v1.8.0"
_TOOL = f"github.com/versity/versitygw/cmd/versitygw@{_VERSION}"
_BUILD_SECONDS = 900


@contextmanager
def versitygw_server(folder: Path, log: Path | None = None) -> Iterator[Server]:
    """A fresh server; skips where there is no Go to build it.

    Args:
        folder: The folders in it are buckets.
        log: Gets a line for each request.
    """
    port = free_port()
    logging = ["--access-log", str(log)] if log else []
    command = [str(_program()), "--port", f"127.0.0.1:{port}", *logging, "posix", str(folder)]
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": KEY}
    with running(command, port, environment) as server:
        yield server


def _program() -> Path:
    """The program, built once for all checkouts."""
    folder = CACHE / f"versitygw-{_VERSION}"
    program = folder / "versitygw"
    if program.exists():
        return program
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs versitygw, and Go to build it")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "install", _TOOL],
        env={**os.environ, "GOBIN": str(folder)},
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
    )
    if done.returncode:
        pytest.skip(f"versitygw could not be built: {done.stderr.strip().splitlines()[-1:]}")
    return program
