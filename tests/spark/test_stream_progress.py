"""What a listener of streaming queries sees of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.helpers import since, with_patience, write_table

import pilum
import pilum.spark
from pilum.errors import InvalidInputError


@since(4, 1)  # writing a stream
def test_rows_and_versions_of_a_query(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    write_table(uri, pa.table({"id": [1, 2, 3]}))
    write_table(uri, pa.table({"id": [4, 5]}), "append")
    copy = str(tmp_path / "copy")
    stream = spark.readStream.format("pilum").load(uri).writeStream.format("pilum")
    writer = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def run() -> Any:
        query = writer.trigger(availableNow=True).start(copy)
        query.awaitTermination()
        return query

    query = with_patience(run)
    progress = next(one for one in query.recentProgress if one["numInputRows"])
    found = pilum.spark.stream_progress(progress, sink=copy)
    assert (found.rows, found.written_rows, found.sink_version) == (5, 5, 1)
    assert (found.query_id, found.batch_id) == (str(query.id), 0)
    assert found.sources == (pilum.spark.SourceProgress(5, 2, 2),)
    assert pilum.spark.stream_progress(json.loads(progress.json)).sources == found.sources

    pilum.dataset(copy).delete("id = 1")
    assert pilum.spark.stream_progress(progress, sink=copy).sink_version == 1
    assert pilum.spark.stream_progress(progress, sink=copy, app_id="other").sink_version is None
    assert pilum.spark.stream_progress(progress, sink=str(tmp_path / "no")).sink_version is None


def test_other_sources_have_no_versions() -> None:
    progress = {
        "id": "a",
        "batchId": 3,
        "numInputRows": 8,
        "sources": [{"endOffset": 17, "numInputRows": 8}, {"endOffset": "{}", "numInputRows": 0}],
        "sink": {"numOutputRows": -1},
    }
    found = pilum.spark.stream_progress(progress)
    assert (found.rows, found.written_rows, found.sources) == (8, None, ())


@pytest.mark.parametrize("given", [{}, {"id": "a"}, None, [], {"id": "a", "batchId": "x"}])
def test_what_is_no_progress_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputError, match="not the progress"):
        pilum.spark.stream_progress(given)
