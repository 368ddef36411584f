"""Clients and servers of the REST protocol, each of one implementation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")
api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")
theirs: Any = pytest.importorskip("lance.namespace")
ours: Any = pytest.importorskip("pilum.namespace")

ROWS = pa.table({"x": [1, 2]})
PAIRS = pytest.mark.parametrize(
    ("server", "client"), [(ours, theirs), (theirs, ours)], ids=["our server", "our client"]
)


@PAIRS
def test_tables_are_written_listed_and_dropped(server: Any, client: Any, tmp_path: Path) -> None:
    with server.RestAdapter("dir", {"root": str(tmp_path)}, port=0) as adapter:
        found = client.RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")
        where: dict[str, Any] = {"namespace_client": found, "table_id": ["t"]}
        for library in (pilum, lance):
            library.write_dataset(ROWS, mode="create" if library is pilum else "append", **where)
            assert library.dataset(**where).to_table()["x"].to_pylist()[:2] == [1, 2]
        assert found.list_tables(api.ListTablesRequest(id=[])).tables == ["t"]
        request = api.DescribeTableRequest(id=["t"], load_detailed_metadata=True, version=1)
        described = found.describe_table(request)
        assert (described.version, described.is_only_declared) == (1, False)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, ROWS.schema) as writer:
            writer.write_table(ROWS)
        data = bytes(sink.getvalue())
        for name in ("u", "v w"):
            found.create_table(api.CreateTableRequest(id=[name], mode="create"), data)
        with pytest.raises(api.TableAlreadyExistsError):
            found.create_table(api.CreateTableRequest(id=["u"]), data)
        found.deregister_table(api.DeregisterTableRequest(id=["u"]))
        found.drop_table(api.DropTableRequest(id=["t"]))
        with pytest.raises(api.TableNotFoundError):
            found.table_exists(api.TableExistsRequest(id=["t"]))
        page = found.list_tables(api.ListTablesRequest(id=[], limit=1))
        assert len(page.tables) == 1
        with pytest.raises(api.NamespaceNotFoundError):
            found.namespace_exists(api.NamespaceExistsRequest(id=["nothing"]))


@PAIRS
@pytest.mark.parametrize("libraries", [(pilum, lance), (lance, pilum)], ids=["pilum", "lance"])
def test_versions_that_the_server_manages(
    server: Any, client: Any, libraries: tuple[Any, Any], tmp_path: Path
) -> None:
    properties = {"root": str(tmp_path), "table_version_tracking_enabled": "true"}
    first, second = libraries
    with server.RestAdapter("dir", properties, port=0) as adapter:
        uri = f"http://127.0.0.1:{adapter.port}"
        found = client.RestNamespace(uri=uri, ops_metrics_enabled="true")
        where: dict[str, Any] = {"namespace_client": found, "table_id": ["t"]}
        first.write_dataset(ROWS, **where)
        second.write_dataset(ROWS, mode="append", **where)
        table = first.dataset(**where)
        table.delete("x = 1")
        assert second.dataset(**where).to_table() == first.dataset(**where).to_table()
        assert second.dataset(version=1, **where).count_rows() == 2
        second.dataset(**where).create_branch("dev").insert(ROWS)
        branch = first.dataset(**where).checkout_version(("dev", None))
        assert (branch.count_rows(), first.dataset(**where).count_rows()) == (4, 2)
        assert found.retrieve_ops_metrics()["create_table_version"] == 5
        listed = found.list_table_versions(api.ListTableVersionsRequest(id=["t"])).versions
        assert [version.version for version in listed] == [1, 2, 3]


ANSWERS: list[tuple[str, dict[str, Any], bool]] = [
    ("count_table_rows", {"predicate": "x > 1"}, False),
    ("insert_into_table", {}, True),
    ("merge_insert_into_table", {"on": ["x"], "when_matched_update_all": True}, True),
    ("update_table", {"updates": [["x", "x + 10"]], "predicate": "x = 2"}, False),
    ("delete_from_table", {"predicate": "x = 12"}, False),
    ("create_table_tag", {"tag": "a", "version": 1}, False),
    ("get_table_tag_version", {"tag": "a"}, False),
    ("create_table_branch", {"name": "dev"}, False),
    ("update_table_schema_metadata", {"metadata": {"k": "v"}}, False),
    ("query_table", {"k": 9, "vector": {}}, False),
]


def test_both_servers_give_the_same_answers(tmp_path: Path) -> None:
    operations: Any = pytest.importorskip("pilum.namespace.operations")
    models = {operation.name: operation.request for operation in operations.OPERATIONS}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema) as writer:
        writer.write_table(ROWS)
    data = bytes(sink.getvalue())
    answers: list[Any] = []
    for number, (server, client) in enumerate([(ours, theirs), (theirs, ours), (theirs, theirs)]):
        root = tmp_path / str(number)
        lance.write_dataset(pa.table({"x": [1, 2, 3]}), str(root / "t.lance"))
        with server.RestAdapter("dir", {"root": str(root)}, port=0) as adapter:
            found = client.RestNamespace(uri=f"http://127.0.0.1:{adapter.port}")
            answers.append([])
            for name, fields, has_data in ANSWERS:
                request = models[name].from_dict({"id": ["t"], **fields})
                answer = getattr(found, name)(request, *([data] if has_data else []))
                fields_of = answer.model_dump(exclude={"context", "transaction_id"})
                if name == "query_table":
                    fields_of = pa.ipc.open_file(answer.data).read_all().to_pydict()
                answers[-1].append((name, fields_of))
    assert answers[0] == answers[1] == answers[2]
