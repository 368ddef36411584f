"""SQL over tables through DuckDB, which reads Arrow streams of the columns that a query names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from pilum.dataset.lance_dataset import LanceDataset
from pilum.errors import InvalidInputError, MissingDependencyError

__all__ = ["columns_named", "query"]


def query(sql: str, tables: Mapping[str, LanceDataset]) -> pa.Table:
    """Run a query.

    Args:
        sql: One SELECT in the dialect of DuckDB.
        tables: Tables by their names in the query.

    Raises:
        MissingDependencyError: If DuckDB is not installed.
        InvalidInputError: If the query is wrong, or anything else than a query.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingDependencyError("sql needs DuckDB: pip install duckdb") from error
    named = columns_named(sql)
    connection = duckdb.connect(config={"enable_external_access": "false"})
    try:
        for name, dataset in tables.items():
            names = dataset.schema.names
            chosen = names if named is None else [one for one in names if one.lower() in named]
            connection.register(name, _rows(dataset, chosen or names[:1]))
        found: pa.Table = connection.sql(sql).to_arrow_table()
    except duckdb.Error as error:
        raise InvalidInputError(str(error)) from error
    finally:
        connection.close()
    return found


def _rows(dataset: LanceDataset, columns: list[str]) -> pa.Table | pa.RecordBatchReader:
    return dataset.scanner(columns=columns).to_reader()


def columns_named(sql: str) -> set[str] | None:
    """Return all names that a query mentions, in lower case; None if it may read every column.

    More names than the columns that are read do no harm.

    Raises:
        InvalidInputError: If it is not one SELECT.
    """
    import sqlglot
    from sqlglot import expressions as nodes

    try:
        statements = sqlglot.parse(sql, dialect="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInputError(f"not a query: {error}") from error
    if len(statements) != 1 or not isinstance(statements[0], nodes.Query):
        raise InvalidInputError("expected one query, such as SELECT count(*) FROM dataset")
    found = statements[0]
    if _reads_all(found):
        return None
    return {str(one.this).lower() for one in found.find_all(nodes.Identifier)}


def _reads_all(found: Any) -> bool:
    """Return whether a query may read columns that it does not name."""
    from sqlglot import expressions as nodes

    if found.find(nodes.Columns, nodes.Pivot):
        return True
    if any(not isinstance(star.parent, nodes.Count) for star in found.find_all(nodes.Star)):
        return True
    if any(join.args.get("method") for join in found.find_all(nodes.Join)):  # NATURAL, POSITIONAL
        return True
    sources = {one.alias_or_name.lower() for one in found.find_all(nodes.Table, nodes.Subquery)}
    return any(column.name.lower() in sources for column in found.find_all(nodes.Column))
