"""Operations of namespaces on the rows of tables, for a namespace that opens tables itself."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset
from pilum.namespace.errors import errors_of_namespaces

import lance_namespace as api  # isort: skip  # ids.py has checked that it is installed

__all__ = ["RowOperations", "stream_of"]

_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h)")
_NEAREST: Final = {
    "distance_type": "metric",
    "nprobes": "nprobes",
    "minimum_nprobes": "minimum_nprobes",
    "maximum_nprobes": "maximum_nprobes",
    "refine_factor": "refine_factor",
    "ef": "ef",
}
"""Fields of a query, and the options of a search for nearest vectors."""

_SCAN: Final = ("filter", "offset", "prefilter", "with_row_id", "fast_search")


class RowOperations(api.LanceNamespace):
    """The operations of namespaces that read and write rows."""

    @abstractmethod
    def _table(self, request: Any, version: int | None = None) -> LanceDataset:
        """Open the table and the branch of a request."""

    def count_table_rows(self, request: api.CountTableRowsRequest) -> api.CountTableRowsResponse:
        """Count the rows of a table, or those that a predicate selects."""
        with errors_of_namespaces():
            count = self._table(request, request.version).count_rows(request.predicate)
        return api.CountTableRowsResponse(count=count)

    def insert_into_table(
        self, request: api.InsertIntoTableRequest, request_data: bytes
    ) -> api.InsertIntoTableResponse:
        """Append the rows of an Arrow IPC stream, or with the mode "overwrite" replace all."""
        mode = (request.mode or "append").lower()
        if mode not in {"append", "overwrite"}:
            raise api.InvalidInputError(f"mode: expected append or overwrite, found {mode!r}")
        with errors_of_namespaces():
            table = self._table(request)
            rows = stream_of(request_data).read_all()
            table.insert(rows, mode=mode)
        return api.InsertIntoTableResponse(version=table.version, num_inserted_rows=len(rows))

    def merge_insert_into_table(
        self, request: api.MergeInsertIntoTableRequest, request_data: bytes
    ) -> api.MergeInsertIntoTableResponse:
        """Update the rows whose keys are in an Arrow IPC stream, and insert those that are new."""
        with errors_of_namespaces():
            table = self._table(request)
            merge = table.merge_insert(request.on)
            if request.when_matched_update_all:
                merge.when_matched_update_all(request.when_matched_update_all_filt)
            if request.when_not_matched_insert_all:
                merge.when_not_matched_insert_all()
            if request.when_not_matched_by_source_delete:
                expression = request.when_not_matched_by_source_delete_filt
                merge.when_not_matched_by_source_delete(expression)
            if request.timeout is not None:
                merge.retry_timeout(_duration(request.timeout))
            counts = merge.execute(stream_of(request_data))
        return api.MergeInsertIntoTableResponse(version=table.version, **counts)

    def update_table(self, request: api.UpdateTableRequest) -> api.UpdateTableResponse:
        """Set columns to SQL expressions in all rows, or in those that a predicate selects."""
        with errors_of_namespaces():
            table = self._table(request)
            found = table.update(dict(request.updates), where=request.predicate)
        return api.UpdateTableResponse(
            updated_rows=found["num_rows_updated"], version=table.version
        )

    def delete_from_table(self, request: api.DeleteFromTableRequest) -> api.DeleteFromTableResponse:
        """Delete the rows that a predicate selects."""
        with errors_of_namespaces():
            table = self._table(request)
            table.delete(request.predicate)
        return api.DeleteFromTableResponse(version=table.version)

    def query_table(self, request: api.QueryTableRequest) -> api.QueryTableResponse:
        """Return rows as an Arrow IPC file: nearest vectors, matches of a text, or the first k."""
        with errors_of_namespaces():
            reader = self._scanner(request, request.branch, request.id).to_reader()
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
        return api.QueryTableResponse(data=sink.getvalue().to_pybytes())

    def explain_table_query_plan(self, request: api.ExplainTableQueryPlanRequest) -> str:
        """Return the plan of a query as a text."""
        with errors_of_namespaces():
            scanner = self._scanner(request.query, request.branch, request.id)
            return str(scanner.explain_plan(request.verbose or False))

    def _scanner(self, query: Any, branch: str | None, names: list[str] | None) -> Any:
        named = api.CountTableRowsRequest(id=names, branch=branch)
        table = self._table(named, query.version)
        given = {name: getattr(query, name) for name in _SCAN}
        options: dict[str, Any] = {name: one for name, one in given.items() if one is not None}
        measure = None
        if query.full_text_query is not None:
            options["full_text_query"], measure = _text_query(query.full_text_query), "_score"
        if (nearest := _nearest(table, query)) is not None:
            options["nearest"], measure = nearest, "_distance"
        options["columns"] = _columns(query.columns, measure)
        return table.scanner(limit=query.k, **options)


def stream_of(data: bytes) -> pa.RecordBatchReader:
    """Return the batches of an Arrow IPC stream, which anyone may have written.

    Offsets, indices of dictionaries and texts are checked: invalid ones would crash the process.

    Raises:
        InvalidInputError: If it is none, or damaged.
    """
    try:
        rows = pa.ipc.open_stream(data).read_all()
        rows.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise api.InvalidInputError(f"request_data: no Arrow IPC stream: {error}") from error
    return rows.to_reader()


def _columns(given: Any, measure: str | None) -> list[str] | Mapping[str, str] | None:
    """Return the columns of a query, with the measure of a search at the end."""
    if given is None or not (given.column_names or given.column_aliases):
        return None
    if given.column_aliases:
        return {**given.column_aliases, **({measure: measure} if measure else {})}
    more = [measure] if measure and measure not in given.column_names else []
    return [*given.column_names, *more]


def _text_query(given: Any) -> Any:
    if given.string_query is None:
        raise api.UnsupportedOperationError(
            "full_text_query: pass a string_query; structured queries run in a dataset"
        )
    found = {"query": given.string_query.query, "columns": given.string_query.columns}
    return {name: value for name, value in found.items() if value is not None}


def _nearest(table: LanceDataset, query: Any) -> dict[str, Any] | None:
    vector = query.vector.single_vector or query.vector.multi_vector
    if not vector:
        return None
    found = {theirs: getattr(query, ours) for ours, theirs in _NEAREST.items()}
    options = {name: value for name, value in found.items() if value is not None}
    if query.lower_bound is not None or query.upper_bound is not None:
        options["distance_range"] = (query.lower_bound, query.upper_bound)
    column = query.vector_column or _only_vector_column(table)
    use_index = not query.bypass_vector_index
    return {"column": column, "q": vector, "k": query.k, "use_index": use_index, **options}


def _only_vector_column(table: LanceDataset) -> str:
    names = [one.name for one in table.schema if pa.types.is_fixed_size_list(one.type)]
    if len(names) != 1:
        raise api.InvalidInputError(f"vector_column: expected one of {names}, found none")
    return str(names[0])


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    if found is None:
        raise api.InvalidInputError(f'timeout: expected a duration such as "30s", found {text!r}')
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])
