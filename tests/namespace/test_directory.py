"""A folder is a namespace of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def namespace(root: str) -> Any:
    return pilum.namespace.DirectoryNamespace(root=root)


def _tables(namespace: Any, **arguments: Any) -> list[str]:
    return list(namespace.list_tables(api.ListTablesRequest(id=[], **arguments)).tables)


def _write(namespace: Any, name: str, **arguments: Any) -> pilum.LanceDataset:
    return pilum.write_dataset(ROWS, namespace_client=namespace, table_id=[name], **arguments)


def _stream(table: pa.Table = ROWS) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def test_tables_are_written_opened_listed_and_dropped_by_name(namespace: Any, root: str) -> None:
    assert _tables(namespace) == []
    _write(namespace, "orders")
    _write(namespace, "orders", mode="append")
    pilum.write_dataset(ROWS, f"{root}/plain.lance")
    assert _tables(namespace) == ["orders", "plain"]
    opened = pilum.dataset(namespace_client=namespace, table_id=["orders"])
    assert (opened.count_rows(), opened.uri) == (4, f"{root}/orders.lance")
    namespace.drop_table(api.DropTableRequest(id=["orders"]))
    assert _tables(namespace) == ["plain"]
    with pytest.raises(api.TableNotFoundError, match="no table 'orders'"):
        pilum.dataset(namespace_client=namespace, table_id=["orders"])
    _write(namespace, "orders")


def test_a_declared_table_has_a_name_and_no_data(namespace: Any) -> None:
    answer = namespace.declare_table(api.DeclareTableRequest(id=["t"]))
    with pytest.raises(api.TableAlreadyExistsError):
        namespace.declare_table(api.DeclareTableRequest(id=["t"]))
    assert (_tables(namespace), _tables(namespace, include_declared=False)) == (["t"], [])
    request = api.DescribeTableRequest(id=["t"], load_detailed_metadata=True)
    described = namespace.describe_table(request)
    assert (described.location, described.is_only_declared) == (answer.location, True)
    pilum.write_dataset(ROWS, answer.location)
    described = namespace.describe_table(request)
    assert (described.version, described.is_only_declared) == (1, False)
    namespace.declare_table(api.DeclareTableRequest(id=["u"]))
    namespace.drop_table(api.DropTableRequest(id=["u"]))
    assert _tables(namespace) == ["t"]


def test_schemas_of_all_types_are_described(tmp_path: Path) -> None:
    namespace: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    keys = pa.array([b"0" * 16], pa.uuid())
    documents = pa.array(['{"a":1}'], pa.json_())
    pilum.write_dataset(pa.table({"u": keys, "j": documents}), tmp_path / "t.lance")
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    pilum.write_dataset(pa.table({"m": maps}), tmp_path / "maps.lance")

    def described(name: str) -> Any:
        request = api.DescribeTableRequest(id=[name], load_detailed_metadata=True)
        return namespace.describe_table(request)

    types = {one.name: (one.type.type, one.metadata) for one in described("t").var_schema.fields}
    assert types["u"][0] == "fixed_size_binary"
    assert types["u"][1]["ARROW:extension:name"] == "arrow.uuid"
    assert types["j"][1]["ARROW:extension:name"] == "arrow.json"
    assert (described("maps").version, described("maps").var_schema) == (1, None)


def test_a_deregistered_table_keeps_its_files_and_its_name(namespace: Any, root: str) -> None:
    _write(namespace, "t")
    location = namespace.deregister_table(api.DeregisterTableRequest(id=["t"])).location
    assert (_tables(namespace), pilum.dataset(location).count_rows()) == ([], 2)
    for method, request in {
        "table_exists": api.TableExistsRequest,
        "describe_table": api.DescribeTableRequest,
        "drop_table": api.DropTableRequest,
        "deregister_table": api.DeregisterTableRequest,
    }.items():
        with pytest.raises(api.TableNotFoundError):
            getattr(namespace, method)(request(id=["t"]))
    with pytest.raises(api.TableAlreadyExistsError, match="deregistered"):
        _write(namespace, "t")
    with pytest.raises(api.InvalidInputError, match="below"):
        namespace.register_table(api.RegisterTableRequest(id=["t"], location="../t.lance"))
    with pytest.raises(api.TableNotFoundError):
        namespace.register_table(api.RegisterTableRequest(id=["u"], location="u.lance"))
    namespace.register_table(api.RegisterTableRequest(id=["t"], location="t.lance"))
    assert _tables(namespace) == ["t"]


def test_a_table_is_created_from_a_stream(namespace: Any) -> None:
    def create(rows: pa.Table = ROWS, mode: str | None = None) -> Any:
        return namespace.create_table(api.CreateTableRequest(id=["t"], mode=mode), _stream(rows))

    assert create().version == 1
    with pytest.raises(api.TableAlreadyExistsError):
        create()
    assert create(mode="ExistOk").version is None
    assert create(pa.table({"y": [3]}), "overwrite").version == 2
    found = pilum.dataset(namespace_client=namespace, table_id=["t"])
    assert found.to_table().to_pydict() == {"y": [3]}
    for data in (b"", _stream()[:40], b"\0" * 100):
        with pytest.raises(api.InvalidInputError, match="no Arrow IPC stream"):
            namespace.create_table(api.CreateTableRequest(id=["u"]), data)
    with pytest.raises(api.InvalidInputError, match="mode"):
        create(mode="append")
    assert _tables(namespace) == ["t"]


def test_a_description_has_the_version_schema_and_statistics(namespace: Any) -> None:
    table = _write(namespace, "t")
    table.tags.create("first", 1)
    table.delete("x = 1")
    found = namespace.describe_table(
        api.DescribeTableRequest(id=["t"], load_detailed_metadata=True, with_table_uri=True)
    )
    assert [field.name for field in found.var_schema.fields] == ["x"]
    assert (found.version, found.stats.num_deleted_rows, found.stats.num_fragments) == (2, 1, 1)
    assert "://" in found.table_uri
    at_tag = namespace.describe_table(api.DescribeTableRequest(id=["t"], tag="first"))
    assert (at_tag.version, at_tag.stats.num_deleted_rows) == (1, 0)
    with pytest.raises(api.TableVersionNotFoundError):
        namespace.describe_table(api.DescribeTableRequest(id=["t"], version=9))
    with pytest.raises(api.InvalidInputError, match="tag"):
        namespace.describe_table(api.DescribeTableRequest(id=["t"], tag="first", version=1))


def test_tables_are_listed_in_pages(namespace: Any) -> None:
    for name in "cabd":
        namespace.declare_table(api.DeclareTableRequest(id=[name]))
    first = namespace.list_tables(api.ListTablesRequest(id=[], limit=3))
    rest = namespace.list_tables(api.ListTablesRequest(id=[], limit=3, page_token=first.page_token))
    assert (first.tables, rest.tables, rest.page_token) == (["a", "b", "c"], ["d"], None)
    with pytest.raises(api.InvalidInputError, match="limit"):
        _tables(namespace, limit=0)


def test_other_folders_are_no_tables(namespace: Any, tmp_path: Path) -> None:
    local = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    (tmp_path / "empty.lance").mkdir()
    (tmp_path / "files.lance" / "data").mkdir(parents=True)
    (tmp_path / "file.lance").touch()
    (tmp_path / ".lance" / "_versions").mkdir(parents=True)
    (tmp_path / ".lance" / "_versions" / "1.manifest").touch()
    pilum.write_dataset(ROWS, str(tmp_path / "no-suffix"))
    assert _tables(local) == []


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../t", "a/b", "a\\b", "a$b", "a\0b", "a\nb", ".hidden", "/etc"]
)
def test_a_name_stays_below_the_root(tmp_path: Path, name: str) -> None:
    namespace = pilum.namespace.DirectoryNamespace(root=str(tmp_path / "root"))
    with pytest.raises(api.InvalidInputError, match="id: "):
        _write(namespace, name)
    with pytest.raises(api.InvalidInputError, match="id: "):
        pilum.dataset(namespace_client=namespace, table_id=[name])
    assert list(tmp_path.iterdir()) == []


def test_requests_that_a_folder_cannot_answer_are_refused(namespace: Any) -> None:
    for request in (api.DescribeTableRequest(id=[]), api.DescribeTableRequest()):
        with pytest.raises(api.InvalidInputError, match="found none"):
            namespace.describe_table(request)
    with pytest.raises(api.NamespaceNotFoundError, match="create_namespace"):
        namespace.declare_table(api.DeclareTableRequest(id=["a", "b"]))
    with pytest.raises(api.InvalidInputError, match="location"):
        namespace.declare_table(api.DeclareTableRequest(id=["a"], location="elsewhere"))
    with pytest.raises(api.NamespaceNotFoundError):
        namespace.list_tables(api.ListTablesRequest(id=["a"]))
    with pytest.raises(api.InvalidInputError, match="mode"):
        namespace.create_namespace(api.CreateNamespaceRequest(id=["a"], mode="overwrite"))
    with pytest.raises(api.UnsupportedOperationError, match="behavior"):
        namespace.drop_namespace(api.DropNamespaceRequest(id=["a"], behavior="cascade"))
    namespace.namespace_exists(api.NamespaceExistsRequest(id=[]))
    assert namespace.list_namespaces(api.ListNamespacesRequest(id=[])).namespaces == []
    assert _tables(namespace) == []


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "root"),
        ({"root": ""}, "root"),
        ({"root": "/tmp", "credential_vendor.enabled": "true"}, "unknown"),
        ({"root": "/tmp", "manifest_enabled": "yes"}, "expected true or false"),
        ({"root": "/tmp", "manifest_enabled": "false", "dir_listing_enabled": "false"}, "nothing"),
        ({"root": "/tmp", "context_provider": 1}, "context_provider"),
    ],
)
def test_properties_are_checked(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        pilum.namespace.DirectoryNamespace(**properties)


def test_options_of_the_store_are_vended_unless_that_is_switched_off(tmp_path: Path) -> None:
    given: dict[str, Any] = {"root": str(tmp_path), "storage.sync": "false"}
    namespace = pilum.namespace.DirectoryNamespace(**given)
    assert _write(namespace, "t").initial_storage_options == {"sync": "false"}
    request = api.DescribeTableRequest(id=["t"], vend_credentials=False)
    assert namespace.describe_table(request).storage_options is None
    silent = pilum.namespace.DirectoryNamespace(**given, vend_input_storage_options="false")
    assert silent.describe_table(api.DescribeTableRequest(id=["t"])).storage_options is None


def test_it_is_found_by_its_path(tmp_path: Path) -> None:
    properties = {"root": str(tmp_path)}
    found = api.connect("pilum.namespace.DirectoryNamespace", properties)
    assert isinstance(found, pilum.namespace.DirectoryNamespace)
    assert found.namespace_id() == f'DirectoryNamespace {{ root: "{tmp_path}" }}'


@pytest.mark.parametrize("location", ["/etc", "../t", "a//b", "s3://bucket/t", "", None])
def test_a_manifest_table_cannot_lead_out_of_the_root(tmp_path: Path, location: str | None) -> None:
    columns = {"object_id": ["t"], "object_type": ["table"], "metadata": [""]}
    rows = pa.table({**columns, "location": pa.array([location], pa.utf8())})
    pilum.write_dataset(rows, str(tmp_path / "__manifest"))
    namespace = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    with pytest.raises(api.InvalidTableStateError, match="below the root"):
        pilum.dataset(namespace_client=namespace, table_id=["t"])
