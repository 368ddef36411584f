"""The session of a bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from pyspark.sql import SparkSession

import pilum.spark

__all__ = ["session"]


@contextmanager
def session(
    memory: str,
    settings: Mapping[str, str] = MappingProxyType({}),
    batch_rows: int | None = None,
) -> Iterator[SparkSession]:
    """A local session that is quiet and knows pilum.

    Args:
        memory: Of Spark's JVM.
        settings: More of them.
        batch_rows: As of `pilum.spark.configure`.
    """
    builder = SparkSession.builder.master("local[*]").appName("bench")
    for key, value in {
        "spark.driver.memory": memory,
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    pilum.spark.configure(spark, batch_rows=batch_rows)
    try:
        yield spark
    finally:
        spark.stop()
