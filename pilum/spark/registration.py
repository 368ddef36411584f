"""Registration of the formats with a session, for all versions of Spark."""

from __future__ import annotations

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource

__all__ = ["register_source"]


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a format with a session; a format may be registered twice.

    Raises:
        pyspark.errors.AnalysisException: If Spark refuses it.
    """
    try:
        spark.dataSource.register(source)
    except AnalysisException as error:
        # Spark 4.0 refuses a source that it has discovered by itself; later versions accept it
        # again.
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
