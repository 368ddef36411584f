"""Properties that Spark passes from a thread of the driver to the jobs that it starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

__all__ = ["local_properties"]


@contextmanager
def local_properties(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set properties of the jobs that this thread starts, and restore them afterwards.

    Spark classic alone has them.
    """
    context = spark.sparkContext
    before = {name: context.getLocalProperty(name) for name in values}
    try:
        for name, value in values.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, old in before.items():
            context.setLocalProperty(name, old)  # type: ignore[arg-type]  # None removes it
