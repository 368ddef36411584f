from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import pilum.spark
from pilum.errors import InvalidInputError


def test_a_local_session_is_healthy(spark: SparkSession, uri: str) -> None:
    rows = pilum.spark.doctor(spark, uri, num_tasks=2).collect()
    assert {row.check for row in rows} == {"versions", "store", "clock", "disk", "settings"}
    assert [row for row in rows if not row.is_ok and row.check != "disk"] == []
    with pytest.raises(InvalidInputError, match="num_tasks: expected at least 1"):
        pilum.spark.doctor(spark, uri, num_tasks=0)
