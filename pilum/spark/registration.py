"""Making the formats known to a session, in all versions of Spark."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

__all__ = ["register_source"]


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Makes a format known to a session, which may know it already.

    Raises:
        pyspark.errors.AnalysisException: If Spark refuses it.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses what it has found by itself; later versions take it again.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
