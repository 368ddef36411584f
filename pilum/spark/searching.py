"""Searches of vectors and texts, whose few rows become a frame of Spark.

The driver searches with the index; only the rows that it finds are passed to Spark.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import pilum
from pilum.spark.convert import convert_batch
from pilum.spark.types import exchange_schema, to_spark

__all__ = ["found_rows"]


def found_rows(spark: SparkSession, table: pilum.LanceDataset, **scan: Any) -> DataFrame:
    """Return the rows of a scan with a search, as a frame.

    Args:
        spark: The session.
        table: The version that is searched.
        scan: Keywords of `LanceDataset.scanner`.
    """
    found = table.to_table(**scan)
    schema = to_spark(found.schema)
    exchange = exchange_schema(schema)
    batches = [convert_batch(batch, exchange) for batch in found.to_batches()]
    return spark.createDataFrame(pa.Table.from_batches(batches, exchange), schema)
