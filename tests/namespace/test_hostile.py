"""Requests, names and tables of others that are damaged or meant to do harm."""

from __future__ import annotations

import json
import logging
import socket
import ssl
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

import pilum

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")
urllib3: Any = pytest.importorskip("urllib3", reason="lance-namespace is not installed")

from pilum.namespace import DirectoryNamespace, RestAdapter, RestNamespace  # noqa: E402

ROWS = pa.table({"x": [1, 2], "s": ["hello", "world!!!"]})
SECRET = "SECRET"


def stream(table: pa.Table = ROWS) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.fixture
def namespace(tmp_path: Path) -> Any:
    found: Any = DirectoryNamespace(root=str(tmp_path / "root"))
    found.create_table(api.CreateTableRequest(id=["t"]), stream())
    return found


@pytest.fixture
def adapter(namespace: Any) -> Iterator[RestAdapter]:
    with RestAdapter(namespace, port=0) as server:
        yield server


def client_of(adapter: RestAdapter) -> Any:
    return RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")


def sent(adapter: RestAdapter, text: str) -> tuple[int, Any]:
    """Send a request as it is, and return the status and the body of the answer."""
    with socket.create_connection(("127.0.0.1", adapter.port)) as connection:
        connection.sendall(text.encode())
        with connection.makefile("rb") as answer:
            head, _, body = answer.read().partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def test_dots_do_not_lead_to_another_operation(adapter: RestAdapter) -> None:
    client = client_of(adapter)
    with pytest.raises(api.InvalidInputError, match="index_name"):
        client.drop_table_index(api.DropTableIndexRequest(id=["t"], index_name=".."))
    with pytest.raises(api.InvalidInputError, match="id"):
        client.list_tables(api.ListTablesRequest(id=["."]))
    assert client.list_tables(api.ListTablesRequest(id=[])).tables == ["t"]


def test_a_branch_does_not_lead_out_of_the_table(namespace: Any, tmp_path: Path) -> None:
    other = pilum.write_dataset(ROWS, tmp_path / "other.lance")
    for branch in ("../../../../other.lance", "a//b", "%2e%2e/a", "a/.."):
        request = {"id": ["t"], "branch": branch, "version": 1, "manifest_path": "x"}
        ranges = [{"start_version": 1, "end_version": -1}]
        for ask in (
            namespace.list_table_versions,
            namespace.describe_table_version,
            namespace.create_table_version,
            namespace.batch_delete_table_versions,
        ):
            with pytest.raises(api.InvalidInputError, match="branch"):
                ask({**request, "ranges": ranges})
    assert other.count_rows() == 2


def test_errors_and_logs_have_no_credentials(
    adapter: RestAdapter, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of(adapter)
    request = api.CreateTableRequest(id=["u"], storage_options={"aws_secret_access_key": SECRET})
    with caplog.at_level(logging.WARNING, "urllib3"), caplog.at_level(logging.DEBUG, "pilum"):
        client.create_table(request, stream())
        adapter.stop()
        with pytest.raises(api.ServiceUnavailableError) as unanswered:
            client.create_table(request, stream())
    identity = {"auth_token": f"{SECRET}\n"}
    with pytest.raises(api.InvalidInputError, match="Authorization") as refused:
        client.list_tables(api.ListTablesRequest(id=[], identity=identity))
    assert "create" in caplog.text
    assert SECRET not in f"{caplog.text}{unanswered.value}{refused.value}"


def test_refusals_of_the_server_have_no_credentials(adapter: RestAdapter) -> None:
    head = f"POST /v1/table/t/delete HTTP/1.1\r\nx-api-key: {SECRET}\r\nContent-Length: "
    for body in (f'{{"predicate": ["{SECRET}"]}}', '{"identity": "x", "predicate": "x = 1"}'):
        status, answer = sent(adapter, f"{head}{len(body)}\r\n\r\n{body}")
        assert (status, answer["code"]) == (400, 13)
        assert SECRET not in answer["error"]
    assert (
        sent(adapter, f"POST /v1/table HTTP/1.1\r\nContent-Length: {'9' * 5000}\r\n\r\n")[0] == 400
    )
    assert sent(adapter, "GET http://[ HTTP/1.1\r\n\r\n")[0] == 400


def test_a_body_that_is_too_large_is_refused_before_it_is_read(adapter: RestAdapter) -> None:
    for length in (2**30 + 1, 10**17):
        status, answer = sent(
            adapter, f"POST /v1/table/t/insert HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
        )
        assert (status, answer["code"]) == (413, 13)
        assert f"{length} bytes, of at most 1073741824" in answer["error"]
    assert client_of(adapter).list_tables(api.ListTablesRequest(id=[])).tables == ["t"]


def test_a_request_whose_answer_cannot_be_decrypted_is_not_repeated(
    adapter: RestAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, read = client_of(adapter), urllib3.connection.HTTPConnection.getresponse

    def broken(self: Any) -> Any:
        read(self)
        raise ssl.SSLError("bad record")

    with monkeypatch.context() as patch:
        patch.setattr(urllib3.connection.HTTPConnection, "getresponse", broken)
        with pytest.raises(api.ServiceUnavailableError, match="bad record"):
            client.insert_into_table(api.InsertIntoTableRequest(id=["t"]), stream())
    assert client.count_table_rows(api.CountTableRowsRequest(id=["t"])).count == 4


def test_damaged_streams_are_refused(namespace: Any) -> None:
    good, ends = stream(), struct.pack("<iii", 0, 5, 13)
    for data in (good[:-150], good.replace(ends, struct.pack("<iii", 0, 500, 13)), b""):
        with pytest.raises(api.InvalidInputError, match="request_data"):
            namespace.create_table(api.CreateTableRequest(id=["u"]), data)
        with pytest.raises(api.InvalidInputError, match="request_data"):
            namespace.insert_into_table(api.InsertIntoTableRequest(id=["t"]), data)


@pytest.mark.parametrize("name", ["manifest_store", "Manifest_Store"])
def test_options_of_a_request_do_not_write_elsewhere(
    namespace: Any, tmp_path: Path, name: str
) -> None:
    options = {name: f"sqlite:///{tmp_path}/versions.db"}
    request = api.CreateTableRequest(id=["u"], storage_options=options)
    with pytest.raises(api.InvalidInputError, match="manifest_store"):
        namespace.create_table(request, stream())
    assert not (tmp_path / "versions.db").exists()


def test_indices_are_listed_by_a_server(adapter: RestAdapter) -> None:
    client = client_of(adapter)
    request = api.CreateTableIndexRequest(id=["t"], column="x", index_type="BTREE", name="by_x")
    client.create_table_scalar_index(request)
    (found,) = client.list_table_indices(api.ListTableIndicesRequest(id=["t"])).indexes
    assert (found.index_name, found.created_at is None) == ("by_x", False)


@pytest.mark.parametrize("name", ["x" * 300, "ü" * 125, "\ud800"])
def test_names_that_no_file_system_has_are_refused(namespace: Any, name: str) -> None:
    with pytest.raises(api.InvalidInputError, match="is no name"):
        namespace.table_exists(api.TableExistsRequest(id=[name]))


def test_ids_that_are_too_long_together_are_refused(namespace: Any) -> None:
    names = ["x" * 200, "y" * 200]
    namespace.create_namespace(api.CreateNamespaceRequest(id=names[:1]))
    with pytest.raises(api.InvalidInputError, match="too long"):
        namespace.create_table(api.CreateTableRequest(id=names), stream())


def test_names_are_no_parts_of_uris() -> None:
    pytest.importorskip("obstore")
    namespace: Any = DirectoryNamespace(root=f"memory://{uuid4().hex}")
    names = ["%41", "%2e%2e", "A", "a b", "a#b", "a?b", "ü"]
    for name in names:
        where: dict[str, Any] = {"namespace_client": namespace, "table_id": [name]}
        pilum.write_dataset(pa.table({"name": [name]}), **where)
        assert pilum.dataset(**where).to_table()["name"].to_pylist() == [name]
    assert sorted(namespace.list_tables(api.ListTablesRequest(id=[])).tables) == sorted(names)
    request = api.DeregisterTableRequest(id=["%41"])
    location = namespace.deregister_table(request).location
    namespace.register_table(api.RegisterTableRequest(id=["%41"], location=location))
    namespace.drop_table(api.DropTableRequest(id=["%41"]))
    assert pilum.dataset(namespace_client=namespace, table_id=["A"]).count_rows() == 1


def test_the_manifest_table_is_no_table_of_the_namespace(namespace: Any) -> None:
    namespace.create_namespace(api.CreateNamespaceRequest(id=["sales"]))
    with pytest.raises(api.InvalidInputError, match="location"):
        namespace.register_table(api.RegisterTableRequest(id=["m"], location="__manifest"))


def test_a_table_is_not_added_to_a_namespace_that_is_dropped_meanwhile(
    namespace: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    namespace.create_namespace(api.CreateNamespaceRequest(id=["sales"]))
    written_folder = namespace._written_folder

    def drop_after(*arguments: Any) -> Any:
        found = written_folder(*arguments)
        namespace.drop_namespace(api.DropNamespaceRequest(id=["sales"]))
        return found

    monkeypatch.setattr(namespace, "_written_folder", drop_after)
    with pytest.raises(api.NamespaceNotFoundError, match="sales"):
        namespace.create_table(api.CreateTableRequest(id=["sales", "t"]), stream())
    assert not [*(tmp_path / "root").glob("*sales*")]


@pytest.mark.parametrize("key", [[7], pa.array([None], pa.string())])
def test_a_manifest_table_of_wrong_types_is_reported(namespace: Any, key: Any) -> None:
    text = pa.array([None], pa.string())
    rows = {"object_id": key, "object_type": ["table"], "location": text, "metadata": text}
    location = namespace.describe_table(api.DescribeTableRequest(id=["t"])).location
    pilum.write_dataset(pa.table(rows), Path(location).parent / "__manifest")
    with pytest.raises(api.InvalidTableStateError, match="no manifest table"):
        namespace.list_tables(api.ListTablesRequest(id=[]))


def test_pages_of_versions_go_on_after_a_deleted_one(namespace: Any) -> None:
    for _ in range(3):
        namespace.insert_into_table(api.InsertIntoTableRequest(id=["t"]), stream())
    request = {"id": ["t"], "limit": 2}
    token = namespace.list_table_versions(request).page_token
    ranges = [{"start_version": 1, "end_version": 3}]
    namespace.batch_delete_table_versions({"id": ["t"], "ranges": ranges})
    found = namespace.list_table_versions({**request, "page_token": token}).versions
    assert [one.version for one in found] == [3, 4]


@pytest.mark.parametrize("left", ["latest_version_hint.json", "18446744073709551614.manifest-7"])
def test_a_table_is_created_again_after_a_drop_that_was_killed(
    namespace: Any, left: str, tmp_path: Path
) -> None:
    folder = tmp_path / "root" / "t.lance"
    pilum.write_dataset(ROWS, folder, mode="append")
    for file in folder.rglob("*.manifest"):
        file.unlink()
    (folder / "_versions" / left).write_bytes(b'{"version": 2}')
    with pytest.raises(api.TableNotFoundError):
        namespace.table_exists(api.TableExistsRequest(id=["t"]))
    where: dict[str, Any] = {"namespace_client": namespace, "table_id": ["t"]}
    assert pilum.write_dataset(ROWS, **where).version == 1
    assert pilum.dataset(**where).count_rows() == 2
    namespace.drop_table(api.DropTableRequest(id=["t"]))
    assert not folder.exists()
