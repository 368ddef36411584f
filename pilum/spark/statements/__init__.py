"""`pilum.spark.sql`: SQL statements on tables, parsed here and not by Spark.

references   the tables that a text names, and their positions
pushdown     the columns that it reads of them, and the conditions on their rows
aggregating  aggregates that tasks compute
merges       MERGE INTO, and expressions in pilum's SQL
run          all statements
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]


def sql(
    spark: SparkSession,
    text: str,
    *,
    tables: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Execute one SQL statement that names pilum tables.

    A table is named by its location, ``lance.`/data/orders` `` or ``pilum.`…` ``, or by a name of
    `tables`. In queries it can be followed by `VERSION AS OF n`, `VERSION AS OF 'tag'` or
    `TIMESTAMP AS OF '2026-01-31 12:00:00'` (UTC unless it says otherwise). A query reads only the
    columns that it names, and only the rows that fulfil its conditions; Spark does the rest. A
    statement that names no such table is passed to Spark unchanged.

    Conditions and values of UPDATE, DELETE and MERGE use the SQL dialect of pilum's filters.

    Args:
        spark: The session.
        text: `SELECT`, `INSERT INTO | OVERWRITE`, `CREATE [OR REPLACE] TABLE … [AS]`, `MERGE INTO`,
            `UPDATE`, `DELETE FROM`, `OPTIMIZE` (compaction) or `VACUUM [RETAIN n HOURS]`.
        tables: Names of tables and their locations.
        storage_options: Settings of the store.

    Returns:
        The rows of a query; for a change, one row that reports what it did.

    Raises:
        InvalidInputError: If the text does not parse or is invalid; the message gives the position.
        UnsupportedFeatureError: If a statement or clause is not supported.
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
    """
    from pilum.spark.statements.run import carry_out  # imports the parser, on first use

    return carry_out(spark, text, tables or {}, dict(storage_options or {}))
