"""A server that answers the REST protocol of `lance_namespace` for any namespace."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from pilum.errors import InvalidInputError
from pilum.namespace.directory import DirectoryNamespace
from pilum.namespace.errors import as_error_of_namespaces
from pilum.namespace.messages import (
    Message,
    error_message,
    read_request,
    response_message,
    route,
)
from pilum.namespace.operations import Operation
from pilum.namespace.rest import RestNamespace
from pilum.table.read.session import Session

import lance_namespace as api  # isort: skip  # operations.py has checked that it is installed

__all__ = ["RestAdapter"]

_log = logging.getLogger(__name__)
_DEFAULT_PORT: Final = 2333
_IDLE_SECONDS: Final = 60
_PIECE_BYTES: Final = 1 << 20
_MAX_BODY_BYTES: Final = 1 << 30
"""Maximum size of the body of a request, which is in memory; more rows are several inserts."""
_MAX_DIGITS: Final = 18
_INTERNAL_ERROR: Final = 500
_TOO_LARGE: Final = 413
_BEARER: Final = "Bearer "


class RestAdapter:
    """A server with the REST protocol, in threads of this process.

    It has neither encryption nor users: each request that reaches it is run, except those of web
    pages. Other machines should reach it only through a proxy that has both.
    """

    def __init__(
        self,
        namespace_client_impl: str | Any,
        namespace_client_properties: Mapping[str, Any] | None = None,
        session: Session | None = None,
        host: str | None = None,
        port: int | None = None,
    ) -> None:
        """Open the namespace. The server begins with `start`, or with a `with` statement.

        Args:
            namespace_client_impl: "dir", "rest", another name or class path that
                `lance_namespace.connect` finds, or a namespace.
            namespace_client_properties: Properties of the namespace.
            session: Session of a "dir" namespace.
            host: Address that is listened on; "127.0.0.1" if None.
            port: Port that is listened on; 2333 if None, and any free one if 0.

        Raises:
            InvalidInputError: If there is no such namespace, or a property is invalid.
        """
        self.namespace_client_impl = namespace_client_impl
        self.host = host
        self._port = _DEFAULT_PORT if port is None else port
        self._namespace = _namespace(
            namespace_client_impl, dict(namespace_client_properties or {}), session
        )
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """The port that is listened on; 0 unless the server runs."""
        return 0 if self._server is None else self._server.server_port

    def start(self) -> None:
        """Begin to answer requests, in the background.

        Raises:
            OSError: If the port is in use.
        """
        if self._server is not None:
            return
        handler = type("Handler", (_Handler,), {"namespace": self._namespace})
        self._server = _Server((self.host or "127.0.0.1", self._port), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="pilum-rest-adapter", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests, and wait until those that run are answered."""
        server, thread, self._server, self._thread = self._server, self._thread, None, None
        if server is not None and thread is not None:
            server.shutdown()
            thread.join()
            server.finish()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"RestAdapter(host={self.host!r}, port={self.port})"


class _Server(ThreadingHTTPServer):
    """Waits for the requests that run when it finishes, but not for clients that are silent."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        self._changed = threading.Condition()
        self._num_running = 0
        self._is_open = True
        super().__init__(address, handler)

    @contextmanager
    def request_runs(self) -> Iterator[None]:
        with self._changed:
            if not self._is_open:
                raise ConnectionAbortedError("the server was stopped")
            self._num_running += 1
        try:
            yield
        finally:
            with self._changed:
                self._num_running -= 1
                self._changed.notify_all()

    def finish(self) -> None:
        with self._changed:
            self._is_open = False
            self._changed.wait_for(lambda: self._num_running == 0)
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report connections that broke, of which the base class writes to the standard error."""
        _log.debug("connection of %s broke", client_address, exc_info=True)


class _TooLargeError(api.InvalidInputError):
    """The body of a request is larger than the server reads."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request on each connection."""

    namespace: Any
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log the path without the query string, which may have credentials."""
        _log.debug("%s %s %s %s", self.address_string(), self.command, self._path_alone(), code)

    def _path_alone(self) -> str:
        return getattr(self, "path", "").partition("?")[0]

    def log_message(self, format: str, *args: Any) -> None:
        _log.debug(f"%s {format}", self.address_string(), *args)

    def _answer(self) -> None:
        self.close_connection = True
        body, refusal = b"", None
        try:
            body = self._body()
        except _TooLargeError as error:
            refusal = replace(error_message(error), status=_TOO_LARGE)
        except api.LanceNamespaceError as error:
            refusal = error_message(error)
        with self.server.request_runs():
            self._send(refusal or self._message(body))

    def _message(self, body: bytes) -> Message:
        try:
            address = _address(self.path)
            found = route(self.command, address.path)
            if found is None:
                return _no_route(self.command, address.path)
            if self.headers.get("Origin"):
                return error_message(api.PermissionDeniedError("web pages are not answered"))
            operation, parts = found
            query = parse_qs(address.query, keep_blank_values=True)
            request = read_request(operation, parts, query, body, self._identity())
            return response_message(operation, self._run(operation, request, body))
        except Exception as error:
            message = error_message(as_error_of_namespaces(error))
            if message.status == _INTERNAL_ERROR:
                _log.exception("%s %s", self.command, self._path_alone())
            return message

    def _run(self, operation: Operation, request: Any, body: bytes) -> Any:
        method = getattr(self.namespace, operation.name)
        return method(request, body) if operation.has_data else method(request)

    def _body(self) -> bytes:
        """Read the body in pieces, so that a false length does not allocate memory."""
        if self.headers.get("Transfer-Encoding"):
            raise api.InvalidInputError("the body has no Content-Length; chunks are not supported")
        text = self.headers.get("Content-Length") or "0"
        if not text.isdecimal() or len(text) > _MAX_DIGITS:
            raise api.InvalidInputError(f"Content-Length: expected a number, found {text[:50]!r}")
        left, pieces = int(text), []
        if left > _MAX_BODY_BYTES:
            raise _TooLargeError(
                f"the body has {left} bytes, of at most {_MAX_BODY_BYTES}; send fewer rows at a "
                "time, in several requests"
            )
        while left > 0:
            piece = self.rfile.read(min(left, _PIECE_BYTES))
            if not piece:
                raise api.InvalidInputError(f"the body ends {left} bytes before its Content-Length")
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _identity(self) -> dict[str, str]:
        token = self.headers.get("Authorization") or ""
        given = {
            "api_key": self.headers.get("x-api-key"),
            "auth_token": token.removeprefix(_BEARER) if token.startswith(_BEARER) else None,
        }
        return {name: value for name, value in given.items() if value}

    def _send(self, message: Message) -> None:
        self.send_response(message.status)
        if message.content_type:
            self.send_header("Content-Type", message.content_type)
        self.send_header("Content-Length", str(len(message.body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(message.body)


def _namespace(kind: Any, properties: dict[str, Any], session: Session | None) -> Any:
    if isinstance(kind, api.LanceNamespace):
        return kind
    if kind == "dir":
        return DirectoryNamespace(session, **properties)
    if kind == "rest":
        return RestNamespace(**properties)
    try:
        return api.connect(kind, properties)
    except (ValueError, AttributeError) as error:
        raise InvalidInputError(
            f'namespace_client_impl: expected "dir", "rest" or a class path, found {kind!r}: '
            f"{error}"
        ) from error


def _address(path: str) -> SplitResult:
    try:
        return urlsplit(path)
    except ValueError as error:
        raise api.InvalidInputError(f"the address of the request is invalid: {error}") from error


def _no_route(verb: str, path: str) -> Message:
    error = api.UnsupportedOperationError(f"{verb} {path}: there is no such operation")
    return replace(error_message(error), status=404)
