from __future__ import annotations

import subprocess
import sys

from pyspark.sql import SparkSession
from spark.helpers import ROOT

import pyspark_pilum
from pilum.spark.source import PilumDataSource


def test_spark_finds_the_format_by_itself(spark: SparkSession, uri: str) -> None:
    fresh = spark.newSession()
    fresh.range(3).write.format("pilum").mode("append").save(uri)
    assert fresh.read.format("pilum").load(uri, columns="id").count() == 3


def test_all_users_of_spark_pay_for_one_small_module() -> None:
    code = """
import sys, pyspark.sql.datasource
before = set(sys.modules)
import pyspark_pilum
print(*set(sys.modules) - before)
"""
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert answer.stdout.split() == ["pyspark_pilum"]


def test_it_stands_for_the_whole_source() -> None:
    assert pyspark_pilum.DefaultSource.name() == PilumDataSource.name() == "pilum"
