"""A proxy in front of a server that fails as networks and stores do."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from guard import GUARD_SECONDS
from servers.processes import Server

__all__ = ["Fault", "Proxy", "faulty_proxy"]


class Fault(Enum):
    """What happens to a request."""

    REFUSED = "answered with 503; the server does not see it"
    DONE_BUT_REFUSED = "done by the server, but answered with 500"
    LOST = "done by the server; the connection breaks before the answer"
    CUT = "answered, but the connection breaks within the body"


@dataclass
class Proxy:
    """Where it listens, and what it does.

    Attributes:
        url: What clients are told.
        requests: Method and path of all requests so far.
        before: Called with each request, by the thread that serves it.
    """

    url: str
    requests: list[tuple[str, str]] = field(default_factory=list)
    before: Callable[[], object] = int
    _plans: list[tuple[str, str, Fault]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, method: str, part: str, fault: Fault, times: int = 1) -> None:
        """The next `times` requests of a method with this part in their path fail."""
        with self._lock:
            self._plans += [(method, part, fault)] * times

    @property
    def planned(self) -> int:
        """Faults that have not happened."""
        return len(self._plans)

    def count(self, method: str, part: str = "") -> int:
        """Requests of a method with this part in their path."""
        return sum(found == method and part in path for found, path in self.requests)

    def fault_of(self, method: str, path: str) -> Fault | None:
        """Notes a request and says what happens to it."""
        with self._lock:
            self.requests.append((method, path))
            for plan in self._plans:
                if plan[0] == method and plan[1] in path:
                    self._plans.remove(plan)
                    return plan[2]
        return None


@contextmanager
def faulty_proxy(server: Server) -> Iterator[Proxy]:
    """A proxy in front of a server on this machine."""
    listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server.port))
    listener.daemon_threads = True
    proxy = Proxy(f"http://127.0.0.1:{listener.server_port}")
    listener.proxy = proxy  # type: ignore[attr-defined]
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _handler(port: int) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
            proxy.before()
            fault = proxy.fault_of(self.command, self.path)
            if fault is Fault.REFUSED:
                self._answer(503, [], b"")
                return
            upstream = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD_SECONDS)
            upstream.request(self.command, self.path, body, dict(self.headers))
            response = upstream.getresponse()
            data = response.read()
            upstream.close()
            if fault is Fault.LOST:
                self.close_connection = True
            elif fault is Fault.DONE_BUT_REFUSED:
                self._answer(500, [], b"")
            else:
                cut = len(data) // 2 if fault is Fault.CUT else None
                self._answer(response.status, response.getheaders(), data, cut)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _forward  # noqa: N815

        def _answer(
            self, status: int, headers: list[tuple[str, str]], data: bytes, cut: int | None = None
        ) -> None:
            self.send_response_only(status)
            has_length = False
            for name, value in headers:
                if name.lower() not in {"transfer-encoding", "connection"}:
                    self.send_header(name, value)
                    has_length |= name.lower() == "content-length"
            if not has_length:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[:cut])
            self.close_connection = cut is not None

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    return Handler
