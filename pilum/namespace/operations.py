"""The operations of namespaces with their routes: one line for each.

A request is a POST to its route below `/v1/`. The fields of a request are in the route, in the
query string or in the body, which is JSON:

    POST /v1/table/sales%24orders/describe?delimiter=%24&check_declared=true

    {"id": ["sales", "orders"], "check_declared": true, "version": 3}

`{id}` is the names with the delimiter between them; the root namespace is the delimiter alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pilum.storage.vended import namespace_package

namespace_package()

from lance_namespace_urllib3_client import models  # noqa: E402  # after the check, with which it comes

__all__ = ["OPERATIONS", "Body", "Operation", "model"]


class Body(Enum):
    """Body of a request."""

    JSON = "application/json"
    ARROW = "application/vnd.apache.arrow.stream"
    NONE = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of namespaces.

    Attributes:
        name: Its method of `LanceNamespace`.
        path: Its route, with `{id}` and `{index_name}`.
        query: Fields of the request that are in the query string.
        body: What the body of the request is.
        verb: Of HTTP.
        requested: Field of the request that is its whole body.
        answered: Field of the response that is its whole body.
        returns_text: Whether the method returns a text.
    """

    name: str
    path: str
    query: tuple[str, ...] = ()
    body: Body = Body.JSON
    verb: str = "POST"
    requested: str | None = None
    answered: str | None = None
    returns_text: bool = False

    @property
    def has_data(self) -> bool:
        """Whether the method takes an Arrow IPC stream besides the request."""
        return self.body is Body.ARROW

    @property
    def request(self) -> Any:
        """The class of its requests."""
        return model(_REQUESTS.get(self.name, _camel(self.name)) + "Request")

    @property
    def response(self) -> Any:
        """The class of its responses."""
        return model(_RESPONSES.get(self.name, _camel(self.name)) + "Response")


_REQUESTS: Final = {
    "create_table_scalar_index": "CreateTableIndex",
    "list_all_tables": "ListTables",
}
_RESPONSES: Final = {"list_all_tables": "ListTables"}
_PAGE: Final = ("page_token", "limit")
_TABLES: Final = (*_PAGE, "include_declared")
_MERGE: Final = (
    "branch",
    "on",
    "when_matched_update_all",
    "when_matched_update_all_filt",
    "when_not_matched_insert_all",
    "when_not_matched_by_source_delete",
    "when_not_matched_by_source_delete_filt",
    "timeout",
    "use_index",
)
_DETAILS: Final = ("with_table_uri", "load_detailed_metadata", "check_declared")
_CREATION: Final = ("mode", "properties", "storage_options")

OPERATIONS: Final = (
    # Namespaces.
    Operation("create_namespace", "namespace/{id}/create"),
    Operation("describe_namespace", "namespace/{id}/describe"),
    Operation("drop_namespace", "namespace/{id}/drop"),
    Operation("namespace_exists", "namespace/{id}/exists"),
    Operation("list_namespaces", "namespace/{id}/list", _PAGE, Body.NONE, "GET"),
    Operation("list_tables", "namespace/{id}/table/list", _TABLES, Body.NONE, "GET"),
    Operation("list_all_tables", "table", _TABLES, Body.NONE, "GET"),
    # Tables.
    Operation("create_table", "table/{id}/create", _CREATION, Body.ARROW),
    Operation("declare_table", "table/{id}/declare"),
    Operation("deregister_table", "table/{id}/deregister"),
    Operation("describe_table", "table/{id}/describe", _DETAILS),
    Operation("drop_table", "table/{id}/drop", (), Body.NONE),
    Operation("get_table_stats", "table/{id}/stats"),
    Operation("register_table", "table/{id}/register"),
    Operation("rename_table", "table/{id}/rename"),
    Operation("restore_table", "table/{id}/restore"),
    Operation("table_exists", "table/{id}/exists"),
    # Rows.
    Operation("count_table_rows", "table/{id}/count_rows", answered="count"),
    Operation("delete_from_table", "table/{id}/delete"),
    Operation("insert_into_table", "table/{id}/insert", ("branch", "mode"), Body.ARROW),
    Operation("merge_insert_into_table", "table/{id}/merge_insert", _MERGE, Body.ARROW),
    Operation("query_table", "table/{id}/query", answered="data"),
    Operation("update_table", "table/{id}/update"),
    Operation("analyze_table_query_plan", "table/{id}/analyze_plan", returns_text=True),
    Operation("explain_table_query_plan", "table/{id}/explain_plan", returns_text=True),
    # Columns.
    Operation("alter_table_add_columns", "table/{id}/add_columns"),
    Operation("alter_table_alter_columns", "table/{id}/alter_columns"),
    Operation("alter_table_backfill_columns", "table/{id}/backfill_column"),
    Operation("alter_table_drop_columns", "table/{id}/drop_columns"),
    Operation("update_field_metadata", "table/{id}/update_field_metadata"),
    Operation(
        "update_table_schema_metadata",
        "table/{id}/schema_metadata/update",
        ("branch",),
        requested="metadata",
        answered="metadata",
    ),
    # Indices.
    Operation("create_table_index", "table/{id}/create_index"),
    Operation("create_table_scalar_index", "table/{id}/create_scalar_index"),
    Operation("describe_table_index_stats", "table/{id}/index/{index_name}/stats"),
    Operation("drop_table_index", "table/{id}/index/{index_name}/drop", ("branch",), Body.NONE),
    Operation("list_table_indices", "table/{id}/index/list"),
    # Versions, tags and branches.
    Operation("batch_commit_tables", "table/batch-commit"),
    Operation("batch_create_table_versions", "table/version/batch-create"),
    Operation("batch_delete_table_versions", "table/{id}/version/delete"),
    Operation("create_table_version", "table/{id}/version/create"),
    Operation("describe_table_version", "table/{id}/version/describe"),
    Operation(
        "list_table_versions",
        "table/{id}/version/list",
        ("branch", *_PAGE, "descending"),
        Body.NONE,
    ),
    Operation("create_table_tag", "table/{id}/tags/create"),
    Operation("delete_table_tag", "table/{id}/tags/delete"),
    Operation("get_table_tag_version", "table/{id}/tags/version"),
    Operation("list_table_tags", "table/{id}/tags/list", _PAGE, Body.NONE),
    Operation("update_table_tag", "table/{id}/tags/update"),
    Operation("create_table_branch", "table/{id}/branches/create"),
    Operation("delete_table_branch", "table/{id}/branches/delete"),
    Operation("list_table_branches", "table/{id}/branches/list", _PAGE, Body.NONE),
    # Transactions and views.
    Operation("alter_transaction", "transaction/{id}/alter"),
    Operation("describe_transaction", "transaction/{id}/describe"),
    Operation("create_materialized_view", "materialized_view/{id}/create"),
    Operation("refresh_materialized_view", "materialized_view/{id}/refresh"),
)


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def model(name: str) -> Any:
    """Return a model of the client that is generated from the specification, by its name."""
    return getattr(models, name)
