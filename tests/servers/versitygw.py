"""versitygw: a gateway that speaks S3 for a folder of the local disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from servers.cache import CACHE
from servers.moto import KEY
from servers.processes import Server, free_port, running

__all__ = ["versitygw_server"]

_PROGRAM = CACHE / "versitygw-v1.8.0" / "versitygw"


@contextmanager
def versitygw_server(folder: Path, log: Path | None = None) -> Iterator[Server]:
    """A fresh server; skips where it is not installed.

    Args:
        folder: The folders in it are buckets.
        log: Gets a line for each request.
    """
    if not _PROGRAM.exists():
        pytest.skip("needs versitygw: make servers, with Go")
    port = free_port()
    logging = ["--access-log", str(log)] if log else []
    command = [str(_PROGRAM), "--port", f"127.0.0.1:{port}", *logging, "posix", str(folder)]
    environment = {**os.environ, "ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": KEY}
    with running(command, port, environment) as server:
        yield server
