"""Queries of Spark that stand between what is read and what is written, over `{source}`."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from pilum.errors import InvalidInputError

__all__ = ["require_query", "transformed"]


def require_query(transform: str | None) -> None:
    """Checks that a query is over the source.

    Raises:
        InvalidInputError: If it is not.
    """
    if transform is not None and "{source}" not in transform:
        raise InvalidInputError(f"transform: expected a query over {{source}}, found {transform!r}")


def transformed(spark: SparkSession, frame: DataFrame, query: str | None) -> DataFrame:
    """The result of a query over a frame; the frame itself if there is none."""
    return frame if query is None else spark.sql(query, source=frame)
