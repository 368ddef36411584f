"""A server of the REST protocol, and its client, in both implementations."""

from __future__ import annotations

import http.client
import importlib
import inspect
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

generated: Any = importlib.import_module("lance_namespace_urllib3_client")

from pilum.namespace import DynamicContextProvider, RestAdapter, RestNamespace  # noqa: E402
from pilum.namespace.messages import (  # noqa: E402
    read_request,
    request_message,
    route,
)
from pilum.namespace.operations import OPERATIONS, Body  # noqa: E402

ROWS = pa.table({"x": [1, 2]})
NAMES = ["sales", "line items/ü"]


@pytest.fixture
def adapter(tmp_path: Path) -> Iterator[RestAdapter]:
    with RestAdapter("dir", {"root": str(tmp_path)}, port=0) as server:
        yield server


@pytest.fixture
def client(adapter: RestAdapter) -> Any:
    return RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")


def stream(table: pa.Table = ROWS) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_tables_are_written_and_opened_through_a_server(client: Any) -> None:
    where: dict[str, Any] = {"namespace_client": client, "table_id": ["t"]}
    pilum.write_dataset(ROWS, **where)
    pilum.write_dataset(ROWS, mode="append", **where)
    assert pilum.dataset(**where).count_rows() == 4
    assert client.list_tables(api.ListTablesRequest(id=[])).tables == ["t"]
    with pytest.raises(api.TableAlreadyExistsError, match="HTTP 409"):
        pilum.write_dataset(ROWS, **where)
    client.table_exists(api.TableExistsRequest(id=["t"]))
    client.drop_table(api.DropTableRequest(id=["t"]))
    with pytest.raises(api.TableNotFoundError, match=r"table_exists \['t'\].*no table 't'"):
        client.table_exists(api.TableExistsRequest(id=["t"]))
    created = client.create_table(api.CreateTableRequest(id=["u"]), stream())
    assert (created.version, created.context["header.content-type"]) == (1, "application/json")
    found = client.describe_table(api.DescribeTableRequest(id=["u"], load_detailed_metadata=True))
    assert (found.version, [field.name for field in found.var_schema.fields]) == (1, ["x"])
    with pytest.raises(api.UnsupportedOperationError):
        client.rename_table(api.RenameTableRequest(id=["u"], new_table_name="v"))


def filled(operation: Any) -> Any:
    """Return a request that has every field."""
    given: dict[str, Any] = {
        "id": NAMES, "index_name": "by x", "mode": "overwrite", "page_token": "a&b", "limit": 3,
        "properties": {"k": "v=1"}, "storage_options": {"k": "v"}, "on": ["x", "y"], "branch": "b",
        "metadata": {"k": "v"}, "when_matched_update_all": True, "timeout": "3s", "predicate": "p",
        "include_declared": False, "check_declared": True, "descending": True, "version": 7,
        "location": "l", "new_table_name": "n", "columns": ["c"], "column": "c", "tag": "t",
        "name": "n", "index_type": "BTREE", "updates": [["a", "1"]], "manifest_path": "p",
        "ranges": [{"start_version": 1, "end_version": 2}], "entries": [], "k": 1, "vector": {},
        "operations": [], "new_columns": [], "alterations": [], "actions": [{}], "query": {
            "k": 1, "vector": {}}, "kind": "udtf", "source_query": "q",
        "output_schema": "",
    }  # fmt: skip
    if "vector" in operation.request.model_fields:
        given["columns"] = {"column_names": ["c"]}
    if operation.name == "update_field_metadata":
        given["updates"] = [{"path": "x", "metadata": {"k": "v"}}]
    own = {name: value for name, value in given.items() if name in operation.request.model_fields}
    return operation.request.from_dict(own)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_request_arrives_as_it_was(operation: Any) -> None:
    request = filled(operation)
    data = stream() if operation.has_data else None
    message = request_message(operation, request, data, "$")
    path, _, query = message.target.partition("?")
    found = route(operation.verb, path)
    assert found is not None
    assert found[0] is operation
    arrived = read_request(operation, found[1], parse_qs(query), message.body)
    sent = request.to_dict()
    if operation.body is not Body.JSON:  # what has no parameter cannot arrive
        kept = {"id", "index_name", *operation.query}
        sent = {name: value for name, value in sent.items() if name in kept}
    if operation.name == "list_all_tables":
        sent.pop("id")
    assert arrived.to_dict() == sent


def test_the_routes_are_those_of_the_generated_client() -> None:
    sent: list[tuple[str, str]] = []

    def record(method: str, url: str, *_: Any, **__: Any) -> Any:
        sent.append((method, url.partition("/v1/")[2].partition("?")[0]))
        raise LookupError

    client = generated.ApiClient()
    client.call_api = record
    kinds = [kind for name, kind in vars(generated).items() if name.endswith("Api")]
    for operation in OPERATIONS:
        found = [getattr(kind(client), operation.name, None) for kind in kinds]
        method: Any = next(one for one in found if one)
        names = inspect.signature(method).parameters
        request = filled(operation)
        bodies: dict[str, Any] = {"id": "a$b", "index_name": "by x", "body": stream(), "on": ["x"]}
        bodies["request_body"] = {"k": "v"}
        required = [name for name, one in names.items() if one.default is inspect.Parameter.empty]
        given = {name: bodies.get(name, request) for name in required if not name.startswith("_")}
        with pytest.raises(LookupError):
            method(**given)
        ours = route(sent[-1][0], "/v1/" + sent[-1][1])
        assert ours is not None
        assert ours[0] is operation


def test_headers_carry_identity_context_and_properties() -> None:
    seen: list[Any] = []

    class Recorder(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Provider(DynamicContextProvider):
        def provide_context(self, info: dict[str, str]) -> dict[str, str]:
            return {"headers.X-Operation": info["operation"], "headers.X-Id": info["object_id"]}

    with HTTPServer(("127.0.0.1", 0), Recorder) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        properties = {"uri": f"http://127.0.0.1:{server.server_port}/", "header.X-Own": "1"}
        client: Any = RestNamespace(Provider(), **properties, ops_metrics_enabled="true")
        request = api.TableExistsRequest(
            id=["a", "b"],
            identity=generated.Identity(api_key="key", auth_token="token"),
            context={"header.X-Trace": "9", "other": "x"},
        )
        client.table_exists(request)
        client.table_exists({"id": ["a", "b"]})
        server.shutdown()
    sent = ["X-Operation", "X-Id", "X-Own", "x-api-key", "Authorization", "X-Trace"]
    expected = ["table_exists", "a$b", "1", "key", "Bearer token", "9"]
    assert [seen[0][name] for name in sent] == expected
    assert [seen[1][name] for name in sent] == [*expected[:3], None, None, None]
    assert client.retrieve_ops_metrics() == {"table_exists": 2}
    client.reset_ops_metrics()
    assert client.retrieve_ops_metrics() == {}


def test_a_provider_is_found_by_the_path_of_its_class() -> None:
    impl = "dynamic_context_provider.impl"
    name = f"{__name__}.Token"
    properties: dict[str, Any] = {"uri": "http://x", impl: name, "dynamic_context_provider.a": "b"}
    assert RestNamespace(**properties)._provider.a == "b"
    for path in ("nothing", "pilum.nothing", f"{__name__}.Nothing"):
        with pytest.raises(InvalidInputError, match="path of a class"):
            RestNamespace(**{**properties, impl: path})


class Token:
    def __init__(self, a: str) -> None:
        self.a = a


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "uri"),
        ({"uri": "ftp://host"}, "uri"),
        ({"uri": "http://host", "token": "x"}, "unknown"),
    ],
)
def test_properties_are_checked(properties: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RestNamespace(**properties)


def test_a_name_with_the_delimiter_is_refused() -> None:
    client: Any = RestNamespace(uri="http://127.0.0.1:1")
    with pytest.raises(api.InvalidInputError, match="contains the delimiter"):
        client.table_exists(api.TableExistsRequest(id=["a$b"]))


def test_a_server_that_does_not_answer_is_reported() -> None:
    adapter = RestAdapter("dir", {"root": "memory://nothing"}, port=0)
    adapter.start()
    client: Any = RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")
    adapter.stop()
    assert adapter.port == 0
    with pytest.raises(api.ServiceUnavailableError, match="no answer"):
        client.table_exists(api.TableExistsRequest(id=["t"]))


def test_requests_that_are_no_requests_are_refused(adapter: RestAdapter) -> None:
    def send(path: str, body: Any = b"{}", verb: str = "POST", **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", adapter.port)
        connection.request(verb, path, body, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or "{}").get("code")

    assert send("/v1/table/t/exists") == (404, 4)
    assert send("/v1/table/t/exists", b"") == (404, 4)
    assert send("/v1/table/t/exists", b'{"id": ["u"]}') == (400, 13)
    for body in (b"[]", b"[" * 10_000, b"\xff", b'{"id": 3}', b'{"context": 1}'):
        assert send("/v1/table/t/exists", body) == (400, 13)
    assert send("/v1/namespace/$/table/list?limit=x", b"", "GET") == (400, 13)
    assert send("/v1/namespace/$/table/list?include_declared=1", b"", "GET") == (400, 13)
    assert send("/v1/table/t/describe", b'{"version": "x"}') == (400, 13)
    assert send("/v1/table/t/create", b"nothing") == (400, 13)
    assert send("/v1/table/t/create?properties=%5B", stream()) == (400, 13)
    assert send("/v1/table/t/create", **{"Transfer-Encoding": "chunked"}) == (400, 13)
    assert send("/v1/table/t/exists", **{"Content-Length": "-3"}) == (400, 13)
    for path in ("/v1/table/t/nothing", "/v2/table", "/", "/v1/table/t/exists/more"):
        assert send(path) == (404, 0)
    assert send("/v1/table/..%2F..%2Fetc/exists") == (400, 13)
    assert send("//[/v1/table/t/exists")[0] in {400, 404}
    assert send("/v1/table/t/drop", Origin="https://page.example") == (403, 15)


def test_stopping_waits_for_requests_that_run_and_not_for_silent_clients(tmp_path: Path) -> None:
    root = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    begun, may_end = threading.Event(), threading.Event()

    class Slow(api.LanceNamespace):  # type: ignore[misc]  # it has no types
        def namespace_id(self) -> str:
            return "Slow"

        def list_tables(self, request: Any) -> Any:
            begun.set()
            may_end.wait()
            return root.list_tables(request)

    adapter = RestAdapter(Slow(), port=0)
    adapter.start()
    client: Any = RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")
    answers: list[Any] = []
    request = api.ListTablesRequest(id=[])
    asking = threading.Thread(target=lambda: answers.append(client.list_tables(request)))
    with socket.create_connection(("127.0.0.1", adapter.port)) as silent:
        asking.start()
        begun.wait()
        stopping = threading.Thread(target=adapter.stop)
        stopping.start()
        may_end.set()
        stopping.join()
        asking.join()
        silent.sendall(b"GET /v1/table HTTP/1.1\r\n\r\n")
        with suppress(ConnectionError):
            assert silent.recv(100) == b""
    assert answers[0].tables == []


def test_answers_that_are_no_answers_are_reported(client: Any, monkeypatch: Any) -> None:
    def answer(status: int, body: bytes) -> None:
        found = SimpleNamespace(status=status, data=body, headers={})
        monkeypatch.setattr(client, "_pool", SimpleNamespace(request=lambda *_, **__: found))

    request = api.ListTablesRequest(id=[])
    for body in (b"<html>", b"[]", b'{"tables": 3}'):
        answer(200, body)
        with pytest.raises(api.InternalError, match="list_tables"):
            client.list_tables(request)
    for status, body, error in (
        (401, b"", api.UnauthenticatedError),
        (403, b"<html>", api.PermissionDeniedError),
        (302, b"", api.InternalError),
        (500, b'{"code": "x"}', api.InternalError),
        (500, b'{"code": true}', api.InternalError),
        (500, b"[" * 100_000, api.InternalError),
        (500, b'{"code": 4, "error": "gone"}', api.TableNotFoundError),
    ):
        answer(status, body)
        with pytest.raises(error, match=f"HTTP {status}"):
            client.list_tables(request)


def test_a_namespace_of_another_kind_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    pilum.write_dataset(ROWS, namespace_client=root, table_id=["t"])
    with (
        RestAdapter(root, port=0) as first,
        RestAdapter("rest", {"uri": f"http://127.0.0.1:{first.port}"}, port=0) as second,
    ):
        client: Any = RestNamespace(uri=f"http://127.0.0.1:{second.port}")
        assert client.list_tables(api.ListTablesRequest(id=[])).tables == ["t"]
        assert str(second.port) in repr(second)
        seen: list[Any] = []
        monkeypatch.setattr(root, "table_exists", seen.append)
        identity = generated.Identity(api_key="key", auth_token="token")
        client.table_exists(api.TableExistsRequest(id=["t"], identity=identity))
        assert seen[0].identity == identity
    with pytest.raises(InvalidInputError, match="namespace_client_impl"):
        RestAdapter("nothing")
