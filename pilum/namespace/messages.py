"""Requests and responses of namespaces as messages of HTTP, in both directions.

    request model   ──request_message──▶   path, query, body   ──read_request──▶   request model
    response model  ◀──read_response──   content type, body   ◀──response_message──  response model

Errors have a status and a body `{"error": text, "code": number}`, whose number decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, unquote, urlencode

from pilum.namespace.operations import OPERATIONS, Body, Operation

import lance_namespace as api  # isort: skip  # operations.py has checked that it is installed
from pydantic import ValidationError  # isort: skip  # comes with it

__all__ = [
    "PREFIX",
    "Message",
    "error_message",
    "error_of",
    "id_text",
    "read_request",
    "read_response",
    "request_message",
    "response_message",
    "route",
]

PREFIX: Final = "/v1/"
_JSON: Final = "application/json"
_ARROW_FILE: Final = "application/vnd.apache.arrow.file"
_HEADER: Final = "header."
_STATUSES: Final = {
    0: 406,
    **dict.fromkeys((1, 4, 6, 8, 10, 11, 12, 22), 404),
    **dict.fromkeys((2, 3, 5, 7, 9, 14, 19, 23), 409),
    **dict.fromkeys((13, 20), 400),
    15: 403,
    16: 401,
    17: 503,
    18: 500,
    21: 429,
}
"""Statuses of HTTP by the codes of errors."""
_CODES: Final = {400: 13, 401: 16, 403: 15, 406: 0, 409: 14, 429: 21, 501: 0, 503: 17}
"""Codes of errors by statuses of HTTP, for servers that do not send the code."""
_MAX_TEXT: Final = 1000
"""Characters of the body of an error that are reported."""


@dataclass(frozen=True, slots=True)
class Message:
    """A request or a response of HTTP.

    Attributes:
        target: Path and query string of a request.
        content_type: Type of the body, empty without one.
        body: The bytes.
        status: Status of a response.
        headers: Further headers.
    """

    target: str = ""
    content_type: str = ""
    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] | None = None


def id_text(names: list[str] | None, delimiter: str) -> str:
    """Return names as one text, in which the delimiter alone is the root namespace.

    Raises:
        InvalidInputError: If a name contains the delimiter.
    """
    for name in names or ():
        if delimiter in name:
            raise api.InvalidInputError(
                f"id: the name {name!r} contains the delimiter {delimiter!r}; connect with the "
                'property "delimiter", a text that no name contains'
            )
    return delimiter.join(names) if names else delimiter


def request_message(operation: Operation, request: Any, data: Any, delimiter: str) -> Message:
    """Return the request of HTTP for a request model, or for a dict of its fields."""
    if isinstance(request, Mapping):
        request = operation.request.from_dict(dict(request))
    fields = {name: value for name, value in request.to_dict().items() if value is not None}
    headers = _headers(fields.pop("identity", None) or {}, fields.pop("context", None) or {})
    parts = {"id": _path_part("id", id_text(fields.get("id"), delimiter))}
    if "{index_name}" in operation.path:
        parts["index_name"] = _path_part("index_name", fields.get("index_name") or "")
    pairs = [("delimiter", delimiter)]
    for name in operation.query:
        pairs += [(name, text) for text in _query_texts(fields.get(name))]
    if operation.body is Body.JSON:
        content = fields if operation.requested is None else fields.get(operation.requested, {})
        data = json.dumps(content).encode()
    target = f"{PREFIX}{operation.path.format(**parts)}?{urlencode(pairs, quote_via=quote)}"
    return Message(target, operation.body.value, data or b"", headers=headers)


def route(verb: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """Return the operation of a path, and the parts of the path that are variable."""
    given = path.removeprefix(PREFIX).rstrip("/").split("/")
    if not path.startswith(PREFIX):
        return None
    for operation in OPERATIONS:
        expected = operation.path.split("/")
        if operation.verb == verb and len(expected) == len(given):
            pairs = [*zip(expected, given, strict=True)]
            if all(name == text or name.startswith("{") for name, text in pairs):
                variable = ((name, text) for name, text in pairs if name.startswith("{"))
                return operation, {name.strip("{}"): unquote(text) for name, text in variable}
    return None


def read_request(
    operation: Operation,
    parts: Mapping[str, str],
    query: Mapping[str, list[str]],
    body: bytes,
    identity: Mapping[str, str] | None = None,
) -> Any:
    """Return the request model of a request of HTTP, with the identity of its headers.

    Raises:
        InvalidInputError: If the body is not JSON, lacks a field or has one of a wrong type, or if
            it has an id other than that of the path.
    """
    fields: dict[str, Any] = {}
    if operation.body is Body.JSON and body:
        content = _parsed(body, operation)
        fields = content if operation.requested is None else {operation.requested: content}
    if not isinstance(fields, dict):
        raise api.InvalidInputError(f"{operation.name}: expected a JSON object as body")
    for name in operation.query:
        if query.get(name):
            fields[name] = _query_value(name, query[name])
    if "id" in parts:
        delimiter = query.get("delimiter", ["$"])[0] or "$"
        names = [] if parts["id"] == delimiter else parts["id"].split(delimiter)
        if fields.setdefault("id", names) not in (names, None):
            raise api.InvalidInputError(
                f"id: the path has {names}, and the body of the request {fields['id']}"
            )
        fields["id"] = names
    if "index_name" in parts:
        fields["index_name"] = parts["index_name"]
    if identity:
        known = fields.get("identity") or {}
        if not isinstance(known, dict):
            raise api.InvalidInputError(f"{operation.name}: identity: expected an object")
        fields["identity"] = {**known, **identity}
    return _modelled(operation.request, fields, operation)


def response_message(operation: Operation, response: Any) -> Message:
    """Return the response of HTTP for what a method of a namespace returned."""
    if operation.name.endswith("_exists"):
        return Message()
    if operation.name == "query_table":
        data = response if isinstance(response, bytes) else response.data
        return Message(content_type=_ARROW_FILE, body=data)
    content = response
    if not isinstance(response, str | int):
        content = response.to_dict()
        content.pop("context", None)
    if operation.answered is not None and isinstance(content, dict):
        content = content.get(operation.answered)
    elif isinstance(content, dict):
        content = {name: value for name, value in content.items() if value is not None}
    return Message(content_type=_JSON, body=json.dumps(content, default=_json_text).encode())


def read_response(operation: Operation, message: Message) -> Any:
    """Return what a method of a namespace returns, from a response of HTTP.

    Raises:
        InternalError: If the body is not what the operation answers.
    """
    body = message.body
    if operation.returns_text:
        try:
            return str(json.loads(body))
        except (ValueError, RecursionError):
            return body.decode(errors="replace")
    fields: Any = {}
    if operation.name == "query_table":
        fields = {"data": body}
    elif body and not operation.name.endswith("_exists"):
        try:
            fields = _parsed(body, operation)
        except api.InvalidInputError as error:
            raise api.InternalError(str(error)) from error
        if operation.answered is not None and not _is_wrapped(fields, operation.answered):
            fields = {operation.answered: fields}
    if not isinstance(fields, dict):
        raise api.InternalError(f"{operation.name}: expected a JSON object, found {body[:100]!r}")
    context = {f"{_HEADER}{name.lower()}": value for name, value in (message.headers or {}).items()}
    try:
        return _modelled(operation.response, {**fields, "context": context}, operation)
    except api.InvalidInputError as error:
        raise api.InternalError(str(error)) from error


def error_message(error: Exception) -> Message:
    """Return the response of HTTP for an error of a namespace."""
    code = int(error.code) if isinstance(error, api.LanceNamespaceError) else 18
    content = {"error": str(error), "code": code}
    return Message(
        content_type=_JSON, body=json.dumps(content).encode(), status=_STATUSES.get(code, 500)
    )


def error_of(message: Message, what: str) -> Exception:
    """Return the error that a response of HTTP reports, for the request `what`."""
    text = message.body[:_MAX_TEXT].decode(errors="replace")
    code: Any = None
    try:
        content = json.loads(message.body)
        code, text = content["code"], content.get("error") or content.get("detail") or text
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = text or "no text"
    if type(code) is not int:  # a bool is none
        code = _CODES.get(message.status, 18)
    found: Exception = api.from_error_code(code, f"{what}: {text} (HTTP {message.status})")
    return found


def _path_part(name: str, text: str) -> str:
    """Return a part of the path; dots alone would be another path, that of another operation."""
    if text in {".", ".."}:
        raise api.InvalidInputError(f"{name}: {text!r} cannot be a part of the path of a request")
    return quote(text, safe="")


def _headers(identity: Mapping[str, str], context: Mapping[str, str]) -> dict[str, str]:
    headers = {
        name.removeprefix(_HEADER): value
        for name, value in context.items()
        if name.startswith(_HEADER)
    }
    if key := identity.get("api_key"):
        headers["x-api-key"] = key
    if token := identity.get("auth_token"):
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _query_texts(value: Any) -> list[str]:
    """Return a field as the values of its parameter in a query string."""
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, list):
        return [str(one) for one in value]
    return [json.dumps(value) if isinstance(value, dict) else str(value)]


def _query_value(name: str, texts: list[str]) -> Any:
    """Return the field of the parameter of a query string."""
    if name == "on":
        return texts
    read = _QUERY_TYPES.get(name, str)
    try:
        return read(texts[0])
    except ValueError as error:
        raise api.InvalidInputError(f"{name}: {error}") from error


def _json_text(value: Any) -> str:
    """Return a value that JSON has no type for as a text."""
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"expected a value of JSON, found {type(value).__name__}")


def _flag(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"expected true or false, found {text!r}")
    return text == "true"


_QUERY_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "limit": int,
    "properties": json.loads,
    "storage_options": json.loads,
    **dict.fromkeys(
        (
            "include_declared",
            "with_table_uri",
            "load_detailed_metadata",
            "check_declared",
            "descending",
            "use_index",
            "when_matched_update_all",
            "when_not_matched_insert_all",
            "when_not_matched_by_source_delete",
        ),
        _flag,
    ),
}
"""How the parameters of a query string are read that are not texts."""


def _parsed(body: bytes, operation: Operation) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise api.InvalidInputError(f"{operation.name}: the body is not JSON: {error}") from error


def _is_wrapped(content: Any, field: str) -> bool:
    """Return whether a response has the field that is its whole body by the protocol."""
    return isinstance(content, dict) and field == "count" and field in content


def _modelled(model: Any, fields: dict[str, Any], operation: Operation) -> Any:
    try:
        return model.from_dict(fields)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        faults = (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        text = f"{operation.name}: {'; '.join(faults)}"
        raise api.InvalidInputError(text) from None  # its text has values, such as credentials
    except (ValueError, TypeError, AttributeError) as error:
        raise api.InvalidInputError(f"{operation.name}: {error}") from error
