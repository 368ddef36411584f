"""Spark writes and reads tables on S3, with options of the store."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession
from servers.moto import aws_options, client
from servers.processes import Server
from servers.versitygw import versitygw_server
from spark.helpers import arrive, drain, since

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


@since(4, 2)
def test_a_pipeline_on_a_gateway(spark: SparkSession, tmp_path: Path) -> None:
    """Write, merge, stream in, compact, stream out and read: all of it by the S3 protocol."""
    (tmp_path / "s3" / "bucket").mkdir(parents=True)
    with versitygw_server(tmp_path / "s3") as server:
        uri, copy, options = "s3://bucket/table", "s3://bucket/copy", aws_options(server.url)
        given = {f"storage.{key}": value for key, value in options.items()}
        ids = spark.range(100, numPartitions=2).selectExpr("id", "'old' AS state")
        pilum.spark.write(ids, uri, mode="create", storage_options=options)
        changes = spark.range(95, 105).selectExpr("id", "'new' AS state")
        merge = pilum.spark.merge_into(spark, uri, changes, on="id", storage_options=options)
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

        arrive(tmp_path / "incoming", {"id": 200, "state": "streamed"})
        incoming = spark.readStream.schema("id bigint, state string").json(
            str(tmp_path / "incoming")
        )
        drain(incoming, uri, tmp_path / "into", options=given)
        done = pilum.spark.compact(spark, uri, storage_options=options)
        assert done.fragments_added == 1

        follow = spark.readStream.format("pilum").options(**given).load(uri)
        drain(follow, copy, tmp_path / "from", options=given)
        late = pilum.spark.table(spark, copy, storage_options=options).where("state <> 'old'")
        assert sorted(row.id for row in late.collect()) == [*range(95, 105), 200]
        table = pilum.dataset(uri, storage_options=options)
        assert sorted(table.to_table()["id"].to_pylist()) == [*range(105), 200]
        assert table.verify(deep=True).is_valid
