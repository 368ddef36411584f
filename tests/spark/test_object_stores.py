"""Spark writes and reads tables on S3, with options of the store."""

from __future__ import annotations

from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from servers.moto import aws_options, client
from servers.processes import Server

import pilum
import pilum.spark

pytest.importorskip("obstore", reason="needs obstore: pip install 'pilum[cloud]'")


def test_a_table_on_s3(spark: SparkSession, aws: Server) -> None:
    bucket = f"bucket-{uuid4().hex}"
    client(aws.url).create_bucket(Bucket=bucket)
    uri, options = f"s3://{bucket}/table", aws_options(aws.url)
    pilum.spark.register(spark)
    given = {f"storage.{key}": value for key, value in options.items()}
    spark.range(100, numPartitions=2).write.format("lance").options(**given).mode("append").save(
        uri
    )
    read = spark.read.format("lance").options(**given).load(uri)
    assert sorted(row.id for row in read.collect()) == list(range(100))
    assert pilum.spark.count(spark, uri, storage_options=options) == 100
    assert pilum.dataset(uri, storage_options=options).count_rows() == 100
