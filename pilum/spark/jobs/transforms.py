"""Spark queries over `{source}` that transform rows between reading and writing."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from pilum.errors import InvalidInputError

__all__ = ["require_query", "transformed"]


def require_query(transform: str | None) -> None:
    """Check that a query reads from the source.

    Raises:
        InvalidInputError: If it does not.
    """
    if transform is not None and "{source}" not in transform:
        raise InvalidInputError(f"transform: expected a query over {{source}}, found {transform!r}")


def transformed(spark: SparkSession, frame: DataFrame, query: str | None) -> DataFrame:
    """Return the result of a query over a frame; the frame itself without a query."""
    return frame if query is None else spark.sql(query, source=frame)
