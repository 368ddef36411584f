"""A namespace that is a folder reads and changes its tables by requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum

api: Any = pytest.importorskip("lance_namespace", reason="lance-namespace is not installed")
operations: Any = pytest.importorskip("pilum.namespace.operations")

VECTORS = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
ROWS = pa.table({"x": [1, 2, 3], "text": ["a b", "c", "b"], "v": VECTORS})

Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Return a function that sends a request about the table to a namespace."""
    namespace = pilum.namespace.DirectoryNamespace(root=str(tmp_path))
    pilum.write_dataset(ROWS, namespace_client=namespace, table_id=["t"])
    by_name = {operation.name: operation for operation in operations.OPERATIONS}

    def send(name: str, data: pa.Table | None = None, /, **fields: Any) -> Any:
        request = by_name[name].request.from_dict({"id": ["t"], **fields})
        return getattr(namespace, name)(request, *([] if data is None else [stream(data)]))

    return send


def stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def query(ask: Ask, **fields: Any) -> dict[str, list[Any]]:
    answer = ask("query_table", **{"k": 10, "vector": {}, **fields})
    found: dict[str, list[Any]] = pa.ipc.open_file(answer.data).read_all().to_pydict()
    return found


def test_rows_are_counted_inserted_updated_merged_and_deleted(ask: Ask) -> None:
    assert ask("count_table_rows", predicate="x > 1").count == 2
    assert ask("insert_into_table", ROWS).num_inserted_rows == 3
    found = ask("update_table", updates=[["x", "x * 10"]], predicate="x = 1")
    assert (found.updated_rows, found.version) == (2, 3)
    merged = ask(
        "merge_insert_into_table",
        pa.table({"x": [2, 9], "text": ["new", "new"], "v": VECTORS.slice(0, 2)}),
        on=["x"],
        when_matched_update_all=True,
        when_not_matched_insert_all=True,
        timeout="5s",
    )
    assert (merged.num_updated_rows, merged.num_inserted_rows) == (2, 1)
    assert ask("delete_from_table", predicate="text = 'new'").version == 5
    assert sorted(query(ask, columns={"column_names": ["x"]})["x"]) == [3, 3, 10, 10]
    assert ask("insert_into_table", ROWS, mode="overwrite").version == 6
    assert ask("count_table_rows").count == 3
    assert ask("count_table_rows", version=1).count == 3


def test_queries_return_first_rows_nearest_vectors_and_matches(ask: Ask) -> None:
    columns = {"column_names": ["x"]}
    assert query(ask, k=2, offset=1, columns=columns) == {"x": [2, 3]}
    assert query(ask, filter="x > 2", columns=columns) == {"x": [3]}
    assert query(ask, columns={"column_aliases": {"y": "x + 1"}}) == {"y": [2, 3, 4]}
    assert query(ask, with_row_id=True, columns=columns)["_rowid"] == [0, 1, 2]
    nearest = query(ask, k=2, vector={"single_vector": [3.0, 4.0]}, columns=columns)
    assert (nearest["x"][0], nearest["_distance"][0], len(nearest["x"])) == (2, 0.0, 2)
    ask("create_table_scalar_index", column="text", index_type="INVERTED", with_position=True)
    text = {"string_query": {"query": "b", "columns": ["text"]}}
    assert sorted(query(ask, full_text_query=text, columns=columns)["x"]) == [1, 3]
    assert "Scan" in ask("explain_table_query_plan", query={"k": 1, "vector": {}})


def test_tags_branches_and_versions_are_named(ask: Ask) -> None:
    ask("create_table_branch", name="dev")
    ask("insert_into_table", ROWS, branch="dev")
    assert (ask("count_table_rows", branch="dev").count, ask("count_table_rows").count) == (6, 3)
    assert ask("list_table_branches").branches["dev"].parent_version == 1
    ask("create_table_tag", tag="a", version=1)
    ask("update_table_tag", tag="a", version=2, branch="dev")
    tagged = ask("get_table_tag_version", tag="a")
    assert (tagged.version, tagged.branch) == (2, "dev")
    assert list(ask("list_table_tags").tags) == ["a"]
    ask("delete_table_tag", tag="a")
    ask("delete_table_branch", name="dev")
    assert (ask("list_table_tags").tags, ask("list_table_branches").branches) == ({}, {})
    ask("delete_from_table", predicate="true")
    ask("restore_table", version=1)
    assert ask("count_table_rows").count == 3


def test_columns_and_indices_are_added_and_dropped(ask: Ask) -> None:
    ask("alter_table_add_columns", new_columns=[{"name": "y", "expression": "x * 2"}])
    assert query(ask, columns={"column_names": ["y"]}) == {"y": [2, 4, 6]}
    ask("alter_table_drop_columns", columns=["y"])
    changed = ask("update_table_schema_metadata", metadata={"k": "v"})
    assert changed.metadata == {"k": "v"}
    assert ask("update_table_schema_metadata", metadata={"l": "v"}).metadata == {"k": "v", "l": "v"}
    ask("create_table_scalar_index", column="x", index_type="btree")
    ask("insert_into_table", ROWS)
    [index] = ask("list_table_indices").indexes
    assert (index.index_name, index.columns) == ("x_idx", ["x"])
    assert (index.num_indexed_rows, index.num_unindexed_rows) == (3, 3)
    stats = ask("describe_table_index_stats", index_name="x_idx")
    assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (3, 3)
    older = ask("list_table_versions").versions[-2].version
    stats = ask("describe_table_index_stats", index_name="x_idx", version=older)
    assert (stats.num_indexed_rows, stats.num_unindexed_rows) == (3, 0)
    ask("drop_table_index", index_name="x_idx")
    found = ask("get_table_stats")
    assert (found.num_rows, found.num_indices, found.fragment_stats.num_fragments) == (6, 0, 2)


@pytest.mark.parametrize(
    ("name", "fields", "error"),
    [
        ("count_table_rows", {"predicate": "nothing = 1"}, "TableColumnNotFoundError"),
        ("count_table_rows", {"predicate": "x ="}, "InvalidInputError"),
        ("count_table_rows", {"version": 9}, "TableVersionNotFoundError"),
        ("count_table_rows", {"branch": "nothing"}, "TableBranchNotFoundError"),
        ("count_table_rows", {"id": ["nothing"]}, "TableNotFoundError"),
        ("get_table_tag_version", {"tag": "nothing"}, "TableTagNotFoundError"),
        ("drop_table_index", {"index_name": "nothing"}, "TableIndexNotFoundError"),
        ("drop_table_index", {}, "InvalidInputError"),
        ("describe_table_index_stats", {"index_name": "nothing"}, "TableIndexNotFoundError"),
        (
            "describe_table_index_stats",
            {"index_name": "x_idx", "version": 9},
            "TableVersionNotFoundError",
        ),
        ("alter_table_add_columns", {"new_columns": [{"name": "y"}]}, "UnsupportedOperationError"),
        ("rename_table", {"new_table_name": "u"}, "UnsupportedOperationError"),
        ("update_table", {"updates": [["nothing", "1"]]}, "TableColumnNotFoundError"),
        (
            "query_table",
            {"k": 1, "vector": {"single_vector": [1.0]}, "vector_column": "nothing"},
            "TableColumnNotFoundError",
        ),
    ],
)
def test_errors_have_the_numbers_of_the_protocol(
    ask: Ask, name: str, fields: dict[str, Any], error: str
) -> None:
    with pytest.raises(getattr(api, error)):
        ask(name, **fields)


def test_rows_that_do_not_fit_are_refused(ask: Ask) -> None:
    with pytest.raises(api.TableSchemaValidationError, match="no column 'y'"):
        ask("insert_into_table", pa.table({"y": [1]}))
    for fields in ({"timeout": "soon"}, {}):
        with pytest.raises(api.InvalidInputError):
            ask("merge_insert_into_table", ROWS, on=["x"], **fields)
    with pytest.raises(api.InvalidInputError, match="mode"):
        ask("insert_into_table", ROWS, mode="replace")
    assert ask("count_table_rows").count == 3
