"""A PostgreSQL server in a temporary folder, as Debian's package `postgresql` installs it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from guard import GUARD_SECONDS
from servers.processes import free_port, running

__all__ = ["postgresql_server"]

_DEBIAN = Path("/usr/lib/postgresql")
_USER = "nobody"


@contextmanager
def postgresql_server() -> Iterator[str]:
    """A fresh server; gives the location of its database, skips where there is no PostgreSQL."""
    pytest.importorskip("psycopg", reason="needs psycopg: pip install 'psycopg[binary]'")
    if (programs := _programs()) is None:
        pytest.skip("needs PostgreSQL: make servers as root, or apt-get install postgresql")
    with TemporaryDirectory(prefix="pilum-pg") as folder:
        data, port = f"{folder}/data", free_port()
        if os.geteuid() == 0:  # the server refuses to run as root
            shutil.chown(folder, _USER)
        initdb: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "pilum",
            "-A",
            "trust",
            "--no-sync",
        ]
        subprocess.run(_as_user(initdb), check=True, capture_output=True, cwd=folder)
        server: list[str | Path] = [
            programs / "postgres",
            "-D",
            data,
            "-p",
            str(port),
            "-k",
            folder,
        ]
        server += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with running(_as_user(server), port):
            location = f"postgresql://pilum@127.0.0.1:{port}/postgres"
            _wait_for(location)
            yield location


def _wait_for(location: str) -> None:
    """The server listens before it is through with starting up."""
    import psycopg

    deadline = time.monotonic() + GUARD_SECONDS
    while True:
        try:
            psycopg.connect(location).close()
        except psycopg.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _programs() -> Path | None:
    found = shutil.which("initdb")
    if found:
        return Path(os.path.realpath(found)).parent
    return max(_DEBIAN.glob("*/bin"), default=None)


def _as_user(command: list[str | Path]) -> list[str]:
    prefix = ["runuser", "-u", _USER, "--"] if os.geteuid() == 0 else []
    return [*prefix, *map(str, command)]
