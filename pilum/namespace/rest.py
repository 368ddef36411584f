"""A namespace on a server with the REST protocol of `lance_namespace`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from pilum.errors import InvalidInputError
from pilum.namespace.context import provider_of
from pilum.namespace.messages import (
    PREFIX,
    Message,
    error_of,
    id_text,
    read_response,
    request_message,
)
from pilum.namespace.operations import OPERATIONS, Operation

import lance_namespace as api  # isort: skip  # operations.py has checked that it is installed
import urllib3  # isort: skip  # comes with it

__all__ = ["RestNamespace"]

_HEADER: Final = "header."
_CONTEXT_HEADER: Final = "headers."
_TLS: Final = {
    "tls.cert_file": "cert_file",
    "tls.key_file": "key_file",
    "tls.ssl_ca_cert": "ca_certs",
}
_NAMES: Final = ("uri", "delimiter", "tls.assert_hostname", "ops_metrics_enabled", *_TLS)
_HEADER_NAME: Final = re.compile(r"[^\s:\x00-\x20\x7f-\U0010ffff]+")
_HEADER_TEXT: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\u0100-\U0010ffff]*")
_CONNECT_SECONDS: Final = 10
_READ_SECONDS: Final = 600
_ATTEMPTS: Final = 3
_OPTIONS: Final = "storage_options="
_RETRIED_STATUSES: Final = (429, 502, 503, 504)


class RestNamespace(api.LanceNamespace):
    """The tables of a server, which has all operations of namespaces or some of them.

    Each method sends one request. Errors are those of `lance_namespace`, as the server reports
    them. `ServiceUnavailableError` is raised if it does not answer. Connecting is attempted again
    for a short time, and so are requests that only read; other requests are sent once. Requests
    with storage options are not even connected again, since attempts are logged with them.
    """

    def __init__(self, context_provider: Any = None, **properties: str) -> None:
        """Prepare connections. Nothing is sent yet.

        Args:
            context_provider: A `DynamicContextProvider`, which is asked for headers before each
                request.
            properties: `uri` is the address of the server, such as "https://host/base".
                `delimiter` separates the names of an id; "$" if it is missing. `header.x` is the
                header X of each request. `tls.ssl_ca_cert`, `tls.cert_file` and `tls.key_file` are
                PEM files; with `tls.assert_hostname="false"`, the name in the certificate of the
                server is not checked. With `ops_metrics_enabled="true"`, `retrieve_ops_metrics`
                counts the requests. `dynamic_context_provider.impl` is the path of the class of a
                context provider, and `dynamic_context_provider.x` its argument x.

        Raises:
            InvalidInputError: If a property is missing, unknown or invalid.
        """
        self._made_from = context_provider, properties
        given = {name: str(value) for name, value in properties.items()}
        from_properties = provider_of(given)
        self._provider = context_provider or from_properties
        headers = {name: text for name, text in given.items() if name.startswith(_HEADER)}
        if unknown := given.keys() - headers.keys() - {*_NAMES}:
            raise InvalidInputError(
                f"RestNamespace: unknown properties {sorted(unknown)}; expected "
                f"{', '.join(_NAMES)}, {_HEADER}* or dynamic_context_provider.*"
            )
        self._uri = _checked_uri(given.get("uri", ""))
        self._delimiter = given.get("delimiter") or "$"
        self._headers = {name.removeprefix(_HEADER): text for name, text in headers.items()}
        self._counts = Counter[str]() if given.get("ops_metrics_enabled") == "true" else None
        self._pool = _pool(given)

    def namespace_id(self) -> str:
        """Return a text that identifies the server."""
        return f'RestNamespace {{ endpoint: "{self._uri}", delimiter: "{self._delimiter}" }}'

    def __repr__(self) -> str:
        return f"RestNamespace(uri={self._uri!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _connected, self._made_from

    def retrieve_ops_metrics(self) -> dict[str, int]:
        """Return how often each operation was requested, if `ops_metrics_enabled` is "true"."""
        return dict(self._counts or {})

    def reset_ops_metrics(self) -> None:
        """Set all counts of operations to zero."""
        if self._counts is not None:
            self._counts.clear()

    def _call(self, operation: Operation, request: Any, data: bytes | None = None) -> Any:
        message = request_message(operation, request, data, self._delimiter)
        names = request.get("id") if isinstance(request, dict) else getattr(request, "id", None)
        what = f"{self._uri}: {operation.name} {names or []}"
        if self._counts is not None:
            self._counts[operation.name] += 1
        answer = self._send(operation, message, self._context(operation, names), what)
        if not 200 <= answer.status < 300:
            raise error_of(answer, what)
        return read_response(operation, answer)

    def _context(self, operation: Operation, names: list[str] | None) -> dict[str, str]:
        if self._provider is None:
            return {}
        object_id = id_text(names, self._delimiter)
        context = self._provider.provide_context(
            {"operation": operation.name, "object_id": object_id}
        )
        return {
            name.removeprefix(_CONTEXT_HEADER): text
            for name, text in context.items()
            if name.startswith(_CONTEXT_HEADER)
        }

    def _send(
        self, operation: Operation, message: Message, context: dict[str, str], what: str
    ) -> Message:
        headers = _checked_headers({**self._headers, **context, **(message.headers or {})})
        if message.content_type:
            headers["Content-Type"] = message.content_type
        try:
            answer = self._pool.request(
                operation.verb,
                f"{self._uri}{message.target}",
                body=message.body,
                headers=headers,
                redirect=False,
                **({"retries": 0} if _OPTIONS in message.target else {}),  # they would be logged
            )
        except urllib3.exceptions.HTTPError as error:
            raise api.ServiceUnavailableError(f"{what}: no answer: {_reason(error)}") from None
        return Message(status=answer.status, body=answer.data, headers=dict(answer.headers))


def _reason(error: Exception) -> str:
    """Return the text of an error without the address, whose query string may have credentials."""
    cause = error.reason if isinstance(error, urllib3.exceptions.MaxRetryError) else error
    return f"{type(cause).__name__}: {cause}"


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    """Check headers here, as errors of the client of HTTP have their values."""
    for name, text in headers.items():
        if not _HEADER_TEXT.fullmatch(text) or not _HEADER_NAME.fullmatch(name):
            raise api.InvalidInputError(
                f"the header {name!r} has a line break or another character that HTTP refuses"
            )
    return headers


def _connected(context_provider: Any, properties: dict[str, str]) -> RestNamespace:
    return RestNamespace(context_provider, **properties)


def _checked_uri(uri: str) -> str:
    if not uri.startswith(("http://", "https://")):
        raise InvalidInputError(
            f'RestNamespace: pass the property "uri", such as "https://host:2333"; found {uri!r}'
        )
    return uri.rstrip("/")


def _pool(given: dict[str, str]) -> Any:
    tls: dict[str, Any] = {
        argument: given[name] for name, argument in _TLS.items() if name in given
    }
    if given.get("tls.assert_hostname") == "false":
        tls["assert_hostname"] = False
    retries = urllib3.Retry(
        _ATTEMPTS,
        other=0,  # of an answer that TLS cannot decrypt, it is not known what it says
        status_forcelist=_RETRIED_STATUSES,
        backoff_factor=0.1,
        raise_on_status=False,
        respect_retry_after_header=False,  # it may say days
    )
    timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
    return urllib3.PoolManager(timeout=timeout, retries=retries, **tls)


def _method(operation: Operation) -> Callable[..., Any]:
    """Return the method of an operation."""

    def send(self: RestNamespace, request: Any) -> Any:
        return self._call(operation, request)

    def send_data(self: RestNamespace, request: Any, request_data: bytes) -> Any:
        return self._call(operation, request, request_data)

    method = send_data if operation.has_data else send
    method.__name__ = operation.name
    method.__qualname__ = f"RestNamespace.{operation.name}"
    method.__doc__ = f"Send `{operation.verb} {PREFIX}{operation.path}`."
    return method


for _operation in OPERATIONS:
    setattr(RestNamespace, _operation.name, _method(_operation))
