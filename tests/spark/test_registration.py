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


def test_all_users_of_spark_pay_less_than_50_ms_for_it() -> None:
    code = """
import time, pyspark.sql.datasource, sys
before = set(sys.modules)
start = time.process_time()
import pyspark_pilum
seconds = time.process_time() - start
assert not {"pilum", "pyarrow"} & (set(sys.modules) - before), "it imports more than itself"
print(seconds)
"""
    answer = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert float(answer.stdout) < 0.05


def test_it_stands_for_the_whole_source() -> None:
    assert pyspark_pilum.DefaultSource.name() == PilumDataSource.name() == "pilum"
