"""`pilum.spark.sql`: SQL statements on tables, parsed here and not by Spark.

Each statement has a file of its name, whose docstring gives its grammar: `select`, `insert`,
`create_table`, `merge_into`, … All of them are listed in `registry`. The others:

run          from a text to the result of its statement
dialect      the parser: sqlglot's for Spark, with our statements
grammar      rules of statements, and the words that they read
parsing      from a text to a parsed statement
references   the tables that a text names, and their positions
places       positions in a text, and errors that show them
call         what a statement needs to execute itself
pushdown     the columns that a query reads of its tables, and the conditions on their rows
aggregating  aggregates that tasks compute
expressions  expressions in pilum's SQL
functions    table functions: nearest, search, changes
versions     VERSION AS OF and TIMESTAMP AS OF
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

    A table is named by its location, ``lance.`/data/orders` `` or ``pilum.`…` ``, by a name that
    `attach` gave, or by a name of `tables`. In queries it can be followed by `VERSION AS OF n`,
    `VERSION AS OF 'tag'` or `TIMESTAMP AS OF '2026-01-31 12:00:00'` (UTC unless it says otherwise).
    A query reads only the columns that it names, and only the rows that fulfil its conditions;
    Spark does the rest. A statement that names no such table is passed to Spark unchanged.

        SELECT, VALUES, EXPLAIN       with nearest(…), search(…) and changes(…) in FROM
        INSERT INTO | OVERWRITE, UPDATE, DELETE FROM, MERGE INTO, TRUNCATE TABLE
        CREATE TABLE, DROP TABLE, ALTER TABLE, CREATE TEMPORARY VIEW
        DESCRIBE [HISTORY | DETAIL]
        SHOW TABLES | VERSIONS | TAGS | BRANCHES | INDEXES | TBLPROPERTIES
        RESTORE, OPTIMIZE, VACUUM, CREATE | DROP INDEX | TAG | BRANCH

    Conditions and values of UPDATE, DELETE and MERGE use the SQL dialect of pilum's filters.

    Args:
        spark: The session.
        text: One statement.
        tables: Names of tables and their locations, for this call; they precede attached ones.
        storage_options: Settings of the stores. Those of an attached table precede them.

    Returns:
        The rows of a query; for other statements, a small frame that reports what was done.

    Raises:
        InvalidInputError: If the text does not parse or is invalid. This and the following errors
            show the statement, and mark the position if it is known.
        UnsupportedFeatureError: If a statement or clause is not supported.
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
    """
    from pilum.spark.statements.run import carry_out  # imports the parser, on first use

    return carry_out(spark, text, tables or {}, dict(storage_options or {}))
