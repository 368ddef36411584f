"""Folders of tables that the reference writes are namespaces here, and the other way round."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")
api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")
theirs: Any = pytest.importorskip("lance.namespace")

ROWS = pa.table({"x": [1, 2]})
SWITCHES = pytest.mark.parametrize("manifest", ["true", "false"])


def _tables(namespace: Any, *names: str) -> list[str]:
    return sorted(namespace.list_tables(api.ListTablesRequest(id=[*names])).tables)


@SWITCHES
def test_the_reference_finds_the_tables_of_ours(tmp_path: Path, manifest: str) -> None:
    ours = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    reader = theirs.DirectoryNamespace(root=str(tmp_path), manifest_enabled=manifest)
    for name in ("kept", "gone", "hidden"):
        pilum.write_dataset(ROWS, namespace_client=ours, table_id=[name])
    ours.declare_table(api.DeclareTableRequest(id=["declared"]))
    ours.drop_table(api.DropTableRequest(id=["gone"]))
    ours.deregister_table(api.DeregisterTableRequest(id=["hidden"]))
    assert _tables(reader) == _tables(ours) == ["declared", "kept"]
    found = lance.dataset(namespace_client=reader, table_id=["kept"])
    assert found.to_table() == ROWS
    for name, is_declared in {"kept": False, "declared": True}.items():
        request = api.DescribeTableRequest(id=[name], check_declared=True)
        answers = [one.describe_table(request) for one in (ours, reader)]
        assert [answer.is_only_declared for answer in answers] == [is_declared, is_declared]
        assert answers[0].location == answers[1].location
    with pytest.raises(api.TableAlreadyExistsError):
        reader.declare_table(api.DeclareTableRequest(id=["declared"]))


@SWITCHES
def test_tables_of_the_reference_are_found(tmp_path: Path, manifest: str) -> None:
    writer = theirs.DirectoryNamespace(root=str(tmp_path), manifest_enabled=manifest)
    for name in ("kept", "gone"):
        lance.write_dataset(ROWS, namespace_client=writer, table_id=[name])
    writer.declare_table(api.DeclareTableRequest(id=["declared"]))
    writer.drop_table(api.DropTableRequest(id=["gone"]))
    ours = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    assert _tables(ours) == _tables(writer) == ["declared", "kept"]
    pilum.write_dataset(ROWS, mode="append", namespace_client=ours, table_id=["kept"])
    assert lance.dataset(namespace_client=writer, table_id=["kept"]).count_rows() == 4
    with pytest.raises(api.TableAlreadyExistsError):
        ours.create_table(api.CreateTableRequest(id=["kept"]), _stream())
    pilum.write_dataset(ROWS, namespace_client=ours, table_id=["ours"])
    assert _tables(writer) == ["declared", "kept", "ours"]


def test_a_table_that_the_reference_deregistered_is_not_listed(tmp_path: Path) -> None:
    writer = theirs.DirectoryNamespace(root=str(tmp_path), manifest_enabled="false")
    lance.write_dataset(ROWS, namespace_client=writer, table_id=["t"])
    writer.deregister_table(api.DeregisterTableRequest(id=["t"]))
    ours = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    assert _tables(ours) == []
    ours.register_table(api.RegisterTableRequest(id=["t"], location="t.lance"))
    assert _tables(writer) == ["t"]


def _spaces(namespace: Any, *names: str) -> list[str]:
    return sorted(namespace.list_namespaces(api.ListNamespacesRequest(id=[*names])).namespaces)


@pytest.mark.parametrize(
    ("library", "first", "other"),
    [(pilum, pilum.namespace, theirs), (lance, theirs, pilum.namespace)],
    ids=["ours", "theirs"],
)
def test_the_manifest_table_of_one_is_that_of_the_other(
    tmp_path: Path, library: Any, first: Any, other: Any
) -> None:
    writer = first.DirectoryNamespace(root=str(tmp_path))
    request = api.CreateNamespaceRequest(id=["sales"], properties={"owner": "me"})
    writer.create_namespace(request)
    where: dict[str, Any] = {"table_id": ["sales", "orders"]}
    library.write_dataset(ROWS, namespace_client=writer, **where)
    library.write_dataset(ROWS, namespace_client=writer, table_id=["root"])
    library.write_dataset(ROWS, str(tmp_path / "elsewhere"))
    writer.register_table(api.RegisterTableRequest(id=["sales", "named"], location="elsewhere"))
    reader = other.DirectoryNamespace(root=str(tmp_path))
    described = reader.describe_namespace(api.DescribeNamespaceRequest(id=["sales"]))
    assert described.properties == {"owner": "me"}
    for opened in (pilum.dataset, lance.dataset):
        assert opened(namespace_client=reader, **where).to_table() == ROWS
    # The other library changes what the first wrote, and the first what the other wrote.
    reader.create_namespace(api.CreateNamespaceRequest(id=["sales", "eu"]))
    reader.declare_table(api.DeclareTableRequest(id=["sales", "eu", "t"]))
    reader.deregister_table(api.DeregisterTableRequest(id=["sales", "named"]))
    reader.drop_table(api.DropTableRequest(id=["sales", "orders"]))
    with pytest.raises(api.NamespaceNotEmptyError):
        writer.drop_namespace(api.DropNamespaceRequest(id=["sales", "eu"]))
    with pytest.raises(api.TableAlreadyExistsError):
        writer.declare_table(api.DeclareTableRequest(id=["sales", "eu", "t"]))
    for client in (writer, reader, first.DirectoryNamespace(root=str(tmp_path))):
        assert (_tables(client), _tables(client, "sales")) == (["root"], [])
        assert _tables(client, "sales", "eu") == ["t"]
        assert (_spaces(client), _spaces(client, "sales")) == (["sales"], ["eu"])
    alone = other.DirectoryNamespace(root=str(tmp_path), dir_listing_enabled="false")
    assert _tables(alone) == ["root"]
    ignoring = first.DirectoryNamespace(root=str(tmp_path), manifest_enabled="false")
    assert _tables(ignoring) == ["root"]


def test_clients_of_both_take_each_other(tmp_path: Path) -> None:
    ours = pilum.namespace.DirectoryNamespace(root=str(tmp_path / "ours"))
    other = theirs.DirectoryNamespace(root=str(tmp_path / "theirs"))
    lance.write_dataset(ROWS, namespace_client=ours, table_id=["t"])
    pilum.write_dataset(ROWS, namespace_client=other, table_id=["t"])
    for client in (ours, other):
        where: dict[str, Any] = {"namespace_client": client, "table_id": ["t"]}
        assert pilum.dataset(**where).to_table() == lance.dataset(**where).to_table() == ROWS


def _stream() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    return bytes(sink.getvalue())
