"""Versions by tag and branch, blobs, JSON, meta columns, pruning: what only a read can say."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

import pilum
import pilum.spark
from pilum.errors import BranchNotFoundError, InvalidInputError, TagNotFoundError
from pilum.spark.options import Options
from pilum.spark.source import PilumReader
from pilum.spark.types import to_spark


def load(spark: SparkSession, uri: str, **options: Any) -> DataFrame:
    return spark.read.format("pilum").options(**options).load(uri)


def test_tags_and_branches_name_versions(spark: SparkSession, uri: str) -> None:
    dataset = pilum.write_dataset(pa.table({"a": [1]}), uri)
    dataset.tags.create("first", 1)
    branch = dataset.create_branch("dev", 1)
    branch.insert(pa.table({"a": [2, 3]}))
    branch.tags.create("on-dev", ("dev", 2))
    dataset.insert(pa.table({"a": [4]}))
    assert load(spark, uri, branch="dev").collect() == [Row(a=1), Row(a=2), Row(a=3)]
    pinned = pilum.spark.read(spark, uri, version="on-dev", columns=["a"])
    branch.insert(pa.table({"a": [5]}))
    assert pinned.collect() == [Row(a=1), Row(a=2), Row(a=3)]
    counts = [
        pilum.spark.count(spark, uri),
        pilum.spark.count(spark, uri, branch="dev"),
        pilum.spark.count(spark, uri, branch="dev", version=1),
        pilum.spark.count(spark, uri, version="first"),
    ]
    assert counts == [2, 4, 1, 1]
    with pytest.raises(TagNotFoundError):
        pilum.spark.read(spark, uri, version="second")
    with pytest.raises(BranchNotFoundError):
        pilum.spark.read(spark, uri, branch="prod")
    with pytest.raises(InvalidInputError, match="leave the option branch out"):
        pilum.spark.read(spark, uri, branch="dev", version="on-dev")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
def test_blobs_are_descriptors_or_bytes(spark: SparkSession, uri: str, version: str) -> None:
    rows = [(1, bytearray(b"small")), (2, None), (3, bytearray(100_000))]
    frame = spark.createDataFrame(rows, "id int, b binary")
    marked = frame.withMetadata("b", {"lance-encoding:blob": "true"})
    marked.write.format("pilum").mode("append").save(uri, dataStorageVersion=version)
    frame.write.format("pilum").mode("append").save(uri)
    assert "size" in load(spark, uri).schema["b"].dataType.names  # type: ignore[attr-defined]
    found = load(spark, uri, blobs="payloads").where("b is not null").orderBy("id")
    assert [row.b for row in found.collect()] == [rows[0][1]] * 2 + [rows[2][1]] * 2
    assert load(spark, uri).selectExpr("sum(b.size) AS n").collect() == [Row(n=200_010)]
    (taken,) = pilum.dataset(uri).take_blobs("b", indices=[0])
    assert taken is not None
    assert taken.readall() == b"small"


def test_json_is_text_and_stays_json(spark: SparkSession, uri: str) -> None:
    docs = pa.array(['{"a": 1}', None, "[2, 3]"], pa.json_())
    pilum.write_dataset(pa.table({"doc": docs, "s": [{"d": 1}] * 3}), uri)
    frame = load(spark, uri)
    assert [row.doc for row in frame.collect()] == ['{"a":1}', None, "[2,3]"]
    assert frame.selectExpr("get_json_object(doc, '$.a') AS a").collect()[0] == Row(a="1")
    frame.write.format("pilum").mode("append").save(uri)
    frame.write.format("pilum").mode("append").save(copy := f"{uri}-copy")
    assert pilum.dataset(uri).to_table()["doc"].to_pylist() == ['{"a":1}', None, "[2,3]"] * 2
    assert pilum.dataset(copy).schema.field("doc").type == pa.json_()
    with pytest.raises(PySparkException, match="is JSON"):
        spark.sql("SELECT '{' AS doc").write.format("pilum").mode("append").save(uri)


def test_meta_columns_prune_partitions_on_the_driver(spark: SparkSession, uri: str) -> None:
    dataset = pilum.write_dataset(
        pa.table({"a": range(40)}), uri, max_rows_per_file=10, enable_stable_row_ids=True
    )
    dataset.update({"a": "a + 100"}, where="a = 7")
    columns = "a,_rowid,_rowaddr,_rowoffset,_row_created_at_version,_row_last_updated_at_version"
    options = {"columns": columns, "filter": "_row_last_updated_at_version = 2"}
    frame = load(spark, uri, **options)
    (row,) = frame.collect()
    assert (row.a, row._rowid, row._row_created_at_version) == (107, 7, 1)
    asked = Options.parse({"path": uri, "partitionBytes": "1", **options})
    reader = PilumReader(frame.schema, asked)
    assert len(reader.partitions()) == 1
    everything = Options.parse({"path": uri, "partitionBytes": "1", "columns": "a"})
    assert len(PilumReader(to_spark(dataset.schema), everything).partitions()) == 5


def test_old_files_prune_partitions_by_their_statistics(spark: SparkSession, uri: str) -> None:
    """Legacy files have statistics; those of 2.0 are read as well."""
    table = pa.table({"a": range(40), "t": [str(n) for n in range(40)]})
    dataset = pilum.write_dataset(table, uri, max_rows_per_file=10, data_storage_version="legacy")
    asked = Options.parse({"path": uri, "filter": "a > 35", "partitionBytes": "1"})
    assert len(PilumReader(to_spark(dataset.schema), asked).partitions()) == 1
    assert load(spark, uri, filter="a > 35").count() == 4
    pilum.write_dataset(table, f"{uri}-2.0", data_storage_version="2.0")
    assert load(spark, f"{uri}-2.0", filter="a > 35 OR t = '1'").count() == 5


def test_batches_are_as_large_as_asked_for(uri: str) -> None:
    table = pa.table({"v": pa.array([b"x" * 1000] * 20_000)})
    dataset = pilum.write_dataset(table, uri)
    schema = to_spark(dataset.schema)
    for key, asked, most in (("batchBytes", "200000", 210_000), ("memoryLimit", "1", 1_100_000)):
        reader = PilumReader(schema, Options.parse({"path": uri, key: asked}))
        (partition,) = reader.partitions()
        batches = list(reader.read(partition))
        assert sum(batch.num_rows for batch in batches) == 20_000
        assert max(batch.nbytes for batch in batches) <= most
