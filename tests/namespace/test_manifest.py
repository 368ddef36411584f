"""Namespaces and tables that the manifest table of a folder lists."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")

ROWS = pa.table({"x": [1, 2]})


@pytest.fixture
def namespace(root: str) -> Any:
    found: Any = pilum.namespace.DirectoryNamespace(root=root)
    found.create_namespace(api.CreateNamespaceRequest(id=["sales"], properties={"owner": "me"}))
    return found


def tables(namespace: Any, *names: str, **arguments: Any) -> list[str]:
    return list(namespace.list_tables(api.ListTablesRequest(id=[*names], **arguments)).tables)


def spaces(namespace: Any, *names: str) -> list[str]:
    return list(namespace.list_namespaces(api.ListNamespacesRequest(id=[*names])).namespaces)


def stream() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return bytes(sink.getvalue())


def test_tables_of_child_namespaces_are_written_opened_and_dropped(namespace: Any) -> None:
    where: dict[str, Any] = {"namespace_client": namespace, "table_id": ["sales", "orders"]}
    written = pilum.write_dataset(ROWS, **where)
    assert written.uri.endswith("_sales$orders")
    pilum.write_dataset(ROWS, mode="append", **where)
    assert pilum.dataset(**where).count_rows() == 4
    with pytest.raises(api.TableAlreadyExistsError):
        pilum.write_dataset(ROWS, **where)
    request = api.CreateTableRequest(id=["sales", "lines"], properties={"k": "v"})
    assert namespace.create_table(request, stream()).properties == {"k": "v"}
    described = namespace.describe_table(api.DescribeTableRequest(id=["sales", "lines"]))
    assert (described.namespace, described.properties) == (["sales"], {"k": "v"})
    assert (tables(namespace), tables(namespace, "sales")) == ([], ["lines", "orders"])
    namespace.drop_table(api.DropTableRequest(id=["sales", "lines"]))
    assert tables(namespace, "sales") == ["orders"]
    with pytest.raises(api.TableNotFoundError):
        pilum.dataset(namespace_client=namespace, table_id=["sales", "lines"])
    with pytest.raises(pilum.errors.DatasetNotFoundError):
        pilum.dataset(described.location)


def test_namespaces_are_created_described_and_dropped(namespace: Any) -> None:
    with pytest.raises(api.NamespaceAlreadyExistsError, match="'sales' already"):
        namespace.create_namespace(api.CreateNamespaceRequest(id=["sales"]))
    namespace.create_namespace(api.CreateNamespaceRequest(id=["sales"], mode="EXIST_OK"))
    with pytest.raises(api.NamespaceNotFoundError):
        namespace.create_namespace(api.CreateNamespaceRequest(id=["hr", "pay"]))
    namespace.create_namespace(api.CreateNamespaceRequest(id=["sales", "2026"]))
    assert (spaces(namespace), spaces(namespace, "sales")) == (["sales"], ["2026"])
    found = namespace.describe_namespace(api.DescribeNamespaceRequest(id=["sales"]))
    assert found.properties == {"owner": "me"}
    assert namespace.describe_namespace(api.DescribeNamespaceRequest(id=[])).properties == {}
    with pytest.raises(api.NamespaceNotEmptyError, match="2026"):
        namespace.drop_namespace(api.DropNamespaceRequest(id=["sales"]))
    for name in (["sales", "2026"], ["sales"]):
        namespace.drop_namespace(api.DropNamespaceRequest(id=name))
    with pytest.raises(api.NamespaceNotFoundError):
        namespace.drop_namespace(api.DropNamespaceRequest(id=["sales"]))
    namespace.drop_namespace(api.DropNamespaceRequest(id=["sales"], mode="skip"))
    with pytest.raises(api.NamespaceNotFoundError):
        namespace.namespace_exists(api.NamespaceExistsRequest(id=["sales"]))
    assert spaces(namespace) == []


def test_declared_tables_are_listed_unless_they_are_not_requested(namespace: Any) -> None:
    namespace.declare_table(api.DeclareTableRequest(id=["sales", "t"], properties={"k": "v"}))
    namespace.declare_table(api.DeclareTableRequest(id=["u"]))
    with pytest.raises(api.TableAlreadyExistsError):
        namespace.declare_table(api.DeclareTableRequest(id=["sales", "t"]))
    assert tables(namespace, "sales") == ["t"]
    assert tables(namespace, "sales", include_declared=False) == []
    for arguments, expected in (({}, ["sales$t", "u"]), ({"include_declared": False}, [])):
        request = api.ListTablesRequest(**arguments)
        assert namespace.list_all_tables(request).tables == expected
    namespace.create_table(api.CreateTableRequest(id=["sales", "t"]), stream())
    assert tables(namespace, "sales", include_declared=False) == ["t"]


def test_a_folder_is_registered_under_any_one_name(namespace: Any, root: str) -> None:
    pilum.write_dataset(ROWS, f"{root}/elsewhere/t")
    register = namespace.register_table
    register(api.RegisterTableRequest(id=["named"], location="elsewhere/t"))
    assert pilum.dataset(namespace_client=namespace, table_id=["named"]).to_table() == ROWS
    with pytest.raises(api.TableAlreadyExistsError, match="is the table 'named'"):
        register(api.RegisterTableRequest(id=["again"], location=f"{root}/elsewhere/t"))
    pilum.write_dataset(ROWS, namespace_client=namespace, table_id=["own"])
    with pytest.raises(api.TableAlreadyExistsError, match="is the table 'own'"):
        register(api.RegisterTableRequest(id=["again"], location="own.lance"))
    for name in ("named", "own"):
        namespace.deregister_table(api.DeregisterTableRequest(id=[name]))
    assert tables(namespace) == []
    register(api.RegisterTableRequest(id=["sales", "t"], location="own.lance"))
    assert (tables(namespace), tables(namespace, "sales")) == ([], ["t"])
    for location in ("/etc", "../t", "a//b", "s3://bucket/t"):
        with pytest.raises(api.InvalidInputError, match="below"):
            register(api.RegisterTableRequest(id=["v"], location=location))


def test_the_manifest_table_alone_lists_tables(namespace: Any, root: str) -> None:
    pilum.write_dataset(ROWS, namespace_client=namespace, table_id=["seen"])
    pilum.write_dataset(ROWS, f"{root}/unseen.lance")
    alone: Any = pilum.namespace.DirectoryNamespace(root=root, dir_listing_enabled="false")
    assert (tables(namespace), tables(alone)) == (["seen", "unseen"], ["seen"])
    written = pilum.write_dataset(ROWS, namespace_client=alone, table_id=["own"])
    assert written.uri.endswith("_own")
    assert tables(namespace) == ["own", "seen", "unseen"]


def test_without_the_manifest_table_there_are_no_child_namespaces(root: str) -> None:
    plain: Any = pilum.namespace.DirectoryNamespace(root=root, manifest_enabled="false")
    with pytest.raises(api.UnsupportedOperationError, match="manifest_enabled"):
        plain.create_namespace(api.CreateNamespaceRequest(id=["sales"]))
    with pytest.raises(api.UnsupportedOperationError, match="manifest_enabled"):
        plain.create_table(api.CreateTableRequest(id=["t"], properties={"k": "v"}), stream())


def test_a_folder_without_namespaces_gets_no_manifest_table(tmp_path: Path) -> None:
    plain: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    pilum.write_dataset(ROWS, namespace_client=plain, table_id=["t"])
    assert [path.name for path in tmp_path.iterdir()] == ["t.lance"]


def test_changes_of_several_writers_at_once_are_all_kept(tmp_path: Path) -> None:
    names = [f"n{number}" for number in range(6)]
    errors: list[Exception] = []

    def create(name: str) -> None:
        own: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
        try:
            own.create_namespace(api.CreateNamespaceRequest(id=[name]))
            own.create_namespace(api.CreateNamespaceRequest(id=["same"]))
        except api.NamespaceAlreadyExistsError as error:
            errors.append(error)

    threads = [threading.Thread(target=create, args=[name]) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    assert (spaces(found), len(errors)) == (sorted([*names, "same"]), len(names) - 1)


def test_namespaces_are_pickled(namespace: Any, root: str) -> None:
    pilum.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])
    remote: Any = pilum.namespace.RestNamespace(uri="http://host", delimiter=".")
    assert tables(pickle.loads(pickle.dumps(namespace))) == ["t"]
    assert pickle.loads(pickle.dumps(remote)).namespace_id() == remote.namespace_id()


def test_other_columns_and_kinds_are_kept(tmp_path: Path) -> None:
    columns = {"object_id": ["v"], "object_type": ["view"], "location": ["l"], "metadata": ["{}"]}
    pilum.write_dataset(pa.table({**columns, "more": [7]}), str(tmp_path / "__manifest"))
    found: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    found.create_namespace(api.CreateNamespaceRequest(id=["s"]))
    rows = pilum.dataset(str(tmp_path / "__manifest")).to_table().to_pydict()
    assert (rows["object_id"], rows["more"]) == (["v", "s"], [7, None])
    with pytest.raises(api.TableAlreadyExistsError, match="view"):
        found.declare_table(api.DeclareTableRequest(id=["v"]))
    with pytest.raises(api.TableAlreadyExistsError, match="view"):
        found.create_table(api.CreateTableRequest(id=["v"]), stream())
    assert [path.name for path in tmp_path.iterdir()] == ["__manifest"]


@pytest.mark.parametrize("metadata", ["", "[]", "{", '{"a": 1}', "[" * 10_000])
def test_damaged_metadata_is_reported(tmp_path: Path, metadata: str) -> None:
    columns = {"object_id": ["s"], "object_type": ["namespace"], "metadata": [metadata]}
    rows = pa.table({**columns, "location": pa.array([None], pa.utf8())})
    pilum.write_dataset(rows, str(tmp_path / "__manifest"))
    found: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    with pytest.raises(api.InvalidTableStateError, match="invalid metadata"):
        found.describe_namespace(api.DescribeNamespaceRequest(id=["s"]))


def test_another_table_of_that_name_is_reported(tmp_path: Path) -> None:
    pilum.write_dataset(ROWS, str(tmp_path / "__manifest"))
    found: Any = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    with pytest.raises(api.InvalidTableStateError, match="no manifest table"):
        tables(found)
