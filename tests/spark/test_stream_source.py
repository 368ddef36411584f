"""Tables followed by real queries (S5)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from spark.helpers import drain, files, forget, since, version

import pilum


def append(uri: str, *ids: int) -> None:
    table = pa.table({"id": pa.array(ids, pa.int64()), "text": [f"row {one}" for one in ids]})
    pilum.write_dataset(table, uri, mode="append", max_rows_per_file=2)


def ids(uri: str) -> list[int]:
    return sorted(pilum.dataset(uri).to_table()["id"].to_pylist())


@since(4, 2)
def test_a_table_is_followed_into_another_exactly_once(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """With micro-batches of a size, restarts, a replay, a compaction, and columns that came."""
    copy, checkpoint = str(tmp_path / "copy"), tmp_path / "c"
    append(uri, 0, 1, 2, 3)
    append(uri, 4)
    stream = spark.readStream.format("pilum").option("maxFilesPerTrigger", 2).load(uri)
    drain(stream, copy, checkpoint)
    assert (ids(copy), version(copy)) == ([0, 1, 2, 3, 4], 2)

    forget(checkpoint, 1)
    pilum.dataset(uri).optimize.compact_files()
    pilum.dataset(uri).add_columns({"more": "id * 2"})
    append_more(uri, 5, 6)
    drain(stream, copy, checkpoint)
    assert ids(copy) == [0, 1, 2, 3, 4, 5, 6]
    assert len(files(copy)) == 3  # one per commit; those of the replay are gone

    pilum.dataset(uri).delete("id = 6")
    with pytest.raises(PySparkException, match="readChangeFeed"):
        drain(stream, copy, checkpoint)
    past = stream_of_old_rows(spark, uri)
    drain(past, other := str(tmp_path / "old"), tmp_path / "c2")
    found = pilum.dataset(other).to_table().sort_by("id").to_pylist()
    assert found == [{"more": None, "id": 4}, {"more": 10, "id": 5}, {"more": 12, "id": 6}]


def append_more(uri: str, *ids: int) -> None:
    table = pa.table({"id": ids, "text": ["x"] * len(ids), "more": [2 * one for one in ids]})
    pilum.write_dataset(table, uri, mode="append")


def stream_of_old_rows(spark: SparkSession, uri: str) -> DataFrame:
    reader = spark.readStream.format("pilum").schema("more bigint, id bigint")
    return reader.options(startingVersion=2, onChange="skip", filter="id > 3").load(uri)


def test_a_change_feed_tells_inserts_updates_and_deletes(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "n": [10, 20, 30, 40]})
    table = pilum.write_dataset(rows, uri, enable_stable_row_ids=True)
    stream = spark.readStream.format("pilum").option("readChangeFeed", "true").load(uri)
    assert stream.columns == ["id", "n", "_change_type", "_commit_version"]
    feed, checkpoint = str(tmp_path / "feed"), tmp_path / "c"
    drain(stream, feed, checkpoint)

    table.delete("id = 1")
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(pa.table({"id": [2, 5], "n": [21, 50]}))
    table.optimize.compact_files()  # two versions: ids are reserved first
    table.update({"n": "n + 1"}, where="id = 5")
    table.delete("id > 3")
    drain(stream, feed, checkpoint)
    found = pilum.dataset(feed).to_table().to_pylist()
    told = sorted(
        (row["_commit_version"], row["_change_type"], row["id"], row["n"]) for row in found
    )
    assert [one for one in told if one[0] > 1] == [
        (2, "delete", 1, 10),
        (3, "insert", 5, 50),
        (3, "update", 2, 21),
        (6, "update", 5, 51),
        (7, "delete", 4, 40),
        (7, "delete", 5, 51),
    ]
    assert [one for one in told if one[0] == 1] == [
        (1, "insert", 1, 10), (1, "insert", 2, 20), (1, "insert", 3, 30), (1, "insert", 4, 40),
    ]  # fmt: skip


def test_only_streams_have_a_change_feed(spark: SparkSession, uri: str) -> None:
    append(uri, 1)
    with pytest.raises(PySparkException, match="only streams have it"):
        spark.read.format("pilum").option("readChangeFeed", "true").load(uri).collect()
