"""Servers that tests start: a process of its own on a free port of the loopback."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryFile

from guard import GUARD_SECONDS

__all__ = ["Server", "free_port", "running"]


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        port: On 127.0.0.1.
        process: For tests that kill it.
    """

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def running(
    command: Sequence[str], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Runs a command that listens on a port, and ends it."""
    with TemporaryFile() as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            if not _answers(process, port):
                output.seek(0)
                raise RuntimeError(f"{command[0]} did not start: {output.read().decode()}")
            yield Server(port, process)
        finally:
            process.kill()
            process.wait()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + GUARD_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return True
    return False
