"""SQL over tables, which DuckDB runs: it gets the columns and rows that a query needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from pilum.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from pilum.dataset.arrow_dataset import ScannedTable

__all__ = ["SqlQuery", "SqlQueryBuilder", "TableQuery", "run_query"]


def run_query(
    sql: str,
    tables: Mapping[str, ScannedTable],
    options: Mapping[str, Any] | None = None,
    batch_rows: int | None = None,
) -> pa.RecordBatchReader:
    """Start a query and return its result as a stream.

    Args:
        sql: One SELECT in the dialect of DuckDB. It cannot read files.
        tables: Tables by their names in the query.
        options: Arguments of `LanceDataset.scanner` for all scans, such as `with_row_id`.
        batch_rows: Maximum number of rows in a batch of the result.

    Raises:
        MissingDependencyError: If DuckDB is not installed.
        InvalidInputError: If the query is wrong, or anything else than one SELECT.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError("SQL needs DuckDB: pip install duckdb") from error
    from pilum.dataset.arrow_dataset import ArrowDataset  # slow to import

    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidInputError("expected one query, such as SELECT count(*) FROM dataset")
        for name, dataset in tables.items():
            connection.register(name, ArrowDataset(dataset, options))
        found = connection.sql(statements[0])
        reader = found.to_arrow_reader(batch_rows) if batch_rows else found.to_arrow_reader()
    except duckdb.Error as error:
        raise InvalidInputError(str(error)) from error
    # The connection lives as long as the stream, whose batches it computes.
    return pa.RecordBatchReader.from_batches(reader.schema, _batches(reader, connection))


def _batches(reader: pa.RecordBatchReader, connection: Any) -> Any:
    try:
        yield from reader
    finally:
        connection.close()


@dataclass(frozen=True)
class TableQuery:
    """A query over one table: its text, the name of the table in it, and options of the scan."""

    table: ScannedTable
    sql: str
    table_name: str = "dataset"
    batch_rows: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


class SqlQuery:
    """A query over one table, ready to run; it may be run several times."""

    def __init__(self, query: TableQuery) -> None:
        self._query = query

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Run the query and return a stream of the result."""
        query = self._query
        return run_query(
            query.sql, {query.table_name: query.table}, query.options, query.batch_rows
        )

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Run the query and return the result."""
        return list(self.to_stream_reader())


class SqlQueryBuilder:
    """A query over one table, which it calls "dataset"; see `LanceDataset.sql`."""

    def __init__(self, builder: TableQuery) -> None:
        self._query = builder

    def table_name(self, table_name: str) -> SqlQueryBuilder:
        """Return a builder that calls the table by another name."""
        return SqlQueryBuilder(replace(self._query, table_name=table_name))

    def with_row_id(self, with_row_id: bool = True) -> SqlQueryBuilder:
        """Return a builder whose table has the column `_rowid`, uint64."""
        return self._with(with_row_id=with_row_id)

    def with_row_addr(self, with_row_addr: bool = True) -> SqlQueryBuilder:
        """Return a builder whose table has the column `_rowaddr`, uint64."""
        return self._with(with_row_address=with_row_addr)

    def blob_handling(
        self, blob_handling: Literal["all_binary", "blobs_descriptions", "all_descriptions"]
    ) -> SqlQueryBuilder:
        """Return a builder that reads blobs in another way; see `LanceDataset.scanner`."""
        return self._with(blob_handling=blob_handling)

    def batch_size(self, batch_size: int) -> SqlQueryBuilder:
        """Return a builder with a maximum number of rows in a batch of the result.

        Raises:
            InvalidInputError: If it is not a positive number.
        """
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise InvalidInputError(f"batch_size: expected a positive int, found {batch_size!r}")
        return SqlQueryBuilder(replace(self._query, batch_rows=batch_size))

    def batch_size_bytes(self, batch_size_bytes: int) -> SqlQueryBuilder:
        """Return a builder with a maximum size of the batches that are scanned, in bytes."""
        return self._with(batch_size_bytes=batch_size_bytes)

    def build(self) -> SqlQuery:
        """Return the query."""
        return SqlQuery(self._query)

    def _with(self, **options: Any) -> SqlQueryBuilder:
        return SqlQueryBuilder(replace(self._query, options={**self._query.options, **options}))
