"""Operations of namespaces on tags, branches, columns and indices, as `rows.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from pilum.namespace.errors import errors_of_namespaces
from pilum.namespace.ids import page
from pilum.namespace.operations import model
from pilum.namespace.rows import RowOperations

import lance_namespace as api  # isort: skip  # ids.py has checked that it is installed

__all__ = ["TableOperations"]

_TEXT_OPTIONS: Final = (
    "with_position",
    "base_tokenizer",
    "language",
    "max_token_length",
    "lower_case",
    "stem",
    "remove_stop_words",
    "ascii_folding",
)
_SMALL_ROWS: Final = 1024 * 1024
"""A fragment with fewer rows is small: compaction merges it with others."""


class TableOperations(RowOperations):
    """The operations of namespaces on tables, except those on versions."""

    def restore_table(self, request: api.RestoreTableRequest) -> api.RestoreTableResponse:
        """Make an old version the latest one, as a new version."""
        with errors_of_namespaces():
            self._table(request, request.version).restore()
        return api.RestoreTableResponse()

    def list_table_tags(self, request: api.ListTableTagsRequest) -> api.ListTableTagsResponse:
        """Return the tags of a table with their versions."""
        with errors_of_namespaces():
            tags = self._table(request).tags.list()
        names, token = page(sorted(tags), request)
        found = {name: _chosen(tags[name], model("TagContents")) for name in names}
        return api.ListTableTagsResponse(tags=found, page_token=token)

    def get_table_tag_version(
        self, request: api.GetTableTagVersionRequest
    ) -> api.GetTableTagVersionResponse:
        """Return the version that a tag names."""
        with errors_of_namespaces():
            tags = self._table(request).tags.list()
            if request.tag not in tags:
                raise api.TableTagNotFoundError(f"{request.id} has no tag {request.tag!r}")
        found: api.GetTableTagVersionResponse
        found = _chosen(tags[request.tag], api.GetTableTagVersionResponse)
        return found

    def create_table_tag(self, request: api.CreateTableTagRequest) -> api.CreateTableTagResponse:
        """Name a version."""
        with errors_of_namespaces():
            self._main(request).tags.create(request.tag, _reference(request))
        return api.CreateTableTagResponse()

    def update_table_tag(self, request: api.UpdateTableTagRequest) -> api.UpdateTableTagResponse:
        """Let a tag name another version."""
        with errors_of_namespaces():
            self._main(request).tags.update(request.tag, _reference(request))
        return api.UpdateTableTagResponse()

    def delete_table_tag(self, request: api.DeleteTableTagRequest) -> api.DeleteTableTagResponse:
        """Delete a tag; its version stays."""
        with errors_of_namespaces():
            self._table(request).tags.delete(request.tag)
        return api.DeleteTableTagResponse()

    def list_table_branches(
        self, request: api.ListTableBranchesRequest
    ) -> api.ListTableBranchesResponse:
        """Return the branches of a table with the versions at which they begin."""
        with errors_of_namespaces():
            branches = self._table(request).branches.list()
        names, token = page(sorted(branches), request)
        found = {name: _chosen(branches[name], model("BranchContents")) for name in names}
        return api.ListTableBranchesResponse(branches=found, page_token=token)

    def create_table_branch(
        self, request: api.CreateTableBranchRequest
    ) -> api.CreateTableBranchResponse:
        """Begin a branch at a version."""
        with errors_of_namespaces():
            origin: Any = request.from_version
            if request.from_branch is not None:
                origin = request.from_branch, request.from_version
            self._table(request).create_branch(request.name, origin)
        return api.CreateTableBranchResponse()

    def delete_table_branch(
        self, request: api.DeleteTableBranchRequest
    ) -> api.DeleteTableBranchResponse:
        """Delete a branch with its versions."""
        with errors_of_namespaces():
            self._table(request).branches.delete(request.name)
        return api.DeleteTableBranchResponse()

    def alter_table_add_columns(
        self, request: api.AlterTableAddColumnsRequest
    ) -> api.AlterTableAddColumnsResponse:
        """Add columns that SQL expressions compute."""
        expressions = {one.name: one.expression for one in request.new_columns}
        if None in expressions.values():
            raise api.UnsupportedOperationError("new_columns: pass the expression of each")
        with errors_of_namespaces():
            table = self._table(request)
            table.add_columns(expressions)
        return api.AlterTableAddColumnsResponse(version=table.version)

    def alter_table_drop_columns(
        self, request: api.AlterTableDropColumnsRequest
    ) -> api.AlterTableDropColumnsResponse:
        """Drop columns."""
        with errors_of_namespaces():
            table = self._table(request)
            table.drop_columns(request.columns)
        return api.AlterTableDropColumnsResponse(version=table.version)

    def update_table_schema_metadata(
        self, request: api.UpdateTableSchemaMetadataRequest
    ) -> api.UpdateTableSchemaMetadataResponse:
        """Set entries of the metadata of the schema, and return all of them."""
        with errors_of_namespaces():
            found = self._table(request).update_schema_metadata(request.metadata or {})
        return api.UpdateTableSchemaMetadataResponse(metadata=dict(found))

    def create_table_scalar_index(self, request: api.CreateTableIndexRequest) -> Any:
        """Build a scalar or full-text index with the options of the request."""
        given = {name: getattr(request, name) for name in _TEXT_OPTIONS}
        options = {name: value for name, value in given.items() if value is not None}
        with errors_of_namespaces():
            self._table(request).create_scalar_index(
                request.column, request.index_type.upper(), request.name, **options
            )
        return model("CreateTableScalarIndexResponse")()

    def list_table_indices(
        self, request: api.ListTableIndicesRequest
    ) -> api.ListTableIndicesResponse:
        """Return the indices of a table with the numbers of rows that they cover."""
        with errors_of_namespaces():
            table = self._table(request, request.version)
            indices = {one.name: one for one in table.describe_indices()}
            num_rows = table.count_rows()
        names, token = page(sorted(indices), request)
        found = [_index(indices[name], num_rows) for name in names]
        return api.ListTableIndicesResponse(indexes=found, page_token=token)

    def describe_table_index_stats(
        self, request: api.DescribeTableIndexStatsRequest
    ) -> api.DescribeTableIndexStatsResponse:
        """Return how many rows an index covers."""
        with errors_of_namespaces():
            table = self._table(request, request.version)
            found = table.stats.index_stats(_index_name(request))
        stats: api.DescribeTableIndexStatsResponse
        stats = _chosen(found, api.DescribeTableIndexStatsResponse)
        return stats

    def drop_table_index(self, request: api.DropTableIndexRequest) -> api.DropTableIndexResponse:
        """Drop an index."""
        with errors_of_namespaces():
            self._table(request).drop_index(_index_name(request))
        return api.DropTableIndexResponse()

    def get_table_stats(self, request: api.GetTableStatsRequest) -> api.GetTableStatsResponse:
        """Return the numbers of rows, bytes, indices and fragments."""
        with errors_of_namespaces():
            table = self._table(request)
            num_rows, num_indices = table.count_rows(), len(table.describe_indices())
            fragments = table.snapshot.manifest.fragments
            sizes = [file.size_bytes or 0 for one in fragments for file in one.files]
            lengths = np.array([one.num_rows for one in fragments], np.int64)
        return api.GetTableStatsResponse(
            total_bytes=sum(sizes),
            num_rows=num_rows,
            num_indices=num_indices,
            fragment_stats=model("FragmentStats")(
                num_fragments=len(lengths),
                num_small_fragments=int((lengths < _SMALL_ROWS).sum()),
                lengths=_summary(lengths if len(lengths) else [0]),
            ),
        )

    def _main(self, request: Any) -> Any:
        """Open the main branch of the table of a request."""
        return self._table(api.CountTableRowsRequest(id=request.id))


def _reference(request: Any) -> Any:
    version = request.version
    return version if request.branch is None else (request.branch, version)


def _chosen(given: Any, kind: Any) -> Any:
    """Return a model with those of its fields that are given."""
    names = (name for name in kind.model_fields if name in given)
    return kind(**{name: given[name] for name in names})


def _index_name(request: Any) -> str:
    if not request.index_name:
        raise api.InvalidInputError("index_name: expected the name of an index, found none")
    return str(request.index_name)


def _index(found: Any, num_rows: int) -> Any:
    return model("IndexContent")(
        index_name=found.name,
        index_uuid=found.segments[0].uuid,
        columns=found.field_names,
        status="SUCCEEDED",
        index_type=found.index_type,
        type_url=found.type_url,
        num_indexed_rows=found.num_rows_indexed,
        num_unindexed_rows=max(num_rows - found.num_rows_indexed, 0),
        size_bytes=found.total_size_bytes,
        num_segments=len(found.segments),
        created_at=found.segments[0].created_at,
        index_version=found.segments[0].index_version,
    )


def _summary(lengths: Iterable[int]) -> Any:
    values = np.asarray(lengths)
    parts = {f"p{part}": int(np.percentile(values, part)) for part in (25, 50, 75, 99)}
    return model("FragmentSummary")(
        min=int(values.min()), max=int(values.max()), mean=int(values.mean()), **parts
    )
