"""`pilum.spark.sql`. The parser is imported with the first statement: most processes need none."""

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
    """Carries out one statement of SQL in which tables of pilum are named.

    A table is named by its location, ``lance.`/data/orders` `` or ``pilum.`…` ``, or by a name of
    `tables`. In queries it can be followed by `VERSION AS OF n`, `VERSION AS OF 'tag'` or
    `TIMESTAMP AS OF '2026-01-31 12:00:00'` (UTC unless it says otherwise). A query reads only the
    columns that it names, and only the rows that its conditions leave; Spark does the rest. A
    statement that names no such table goes to Spark as it is.

    Conditions and values of UPDATE, DELETE and MERGE are expressions of pilum's filters.

    Args:
        spark: The session.
        text: `SELECT`, `INSERT INTO | OVERWRITE`, `CREATE [OR REPLACE] TABLE … [AS]`, `MERGE INTO`,
            `UPDATE`, `DELETE FROM`, `OPTIMIZE` (compaction) or `VACUUM [RETAIN n HOURS]`.
        tables: Names, and the locations of their tables.
        storage_options: Settings of the store.

    Returns:
        The rows of a query; of a change, one row that says what it did.

    Raises:
        InvalidInputError: If the text does not parse, or makes no sense; it says where.
        UnsupportedFeatureError: For statements and clauses that are not known.
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If there is no such version.
    """
    from pilum.spark.statements.run import carry_out

    return carry_out(spark, text, tables or {}, dict(storage_options or {}))
