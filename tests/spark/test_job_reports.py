"""What operators see of jobs: log records, rows of a frame, names of Spark's jobs."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark.helpers import flaky, write_table

import pilum
import pilum.spark
from pilum.errors import SchemaMismatchError
from pilum.spark import job_reports as module
from pilum.spark.job_reports import log_in_process_of_spark
from pilum.spark.options import Options
from pilum.spark.sink import PilumWriter

LOGGER = "pilum.spark.jobs"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, LOGGER)
    return caplog


def facts(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The records of jobs, by their fields; the text of each has the same."""
    found = [vars(one) for one in log.records if one.name == LOGGER]
    for one in found:
        said = json.loads(one["message"])
        assert all(one[name] == value for name, value in said.items() if name != "started_at")
    return found


def test_jobs_report_what_they_wrote(
    spark: SparkSession, uri: str, log: pytest.LogCaptureFixture
) -> None:
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "string(id) AS text")
    pilum.spark.write(frame, uri, mode="create", stable_row_ids=True)
    changes = spark.range(90, 110).selectExpr("id", "'new' AS text")
    merge = pilum.spark.merge_into(spark, uri, changes, on="id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    pilum.spark.delete(spark, uri, "id < 10", local_bytes=0)
    pilum.spark.add_columns(spark, uri, {"half": "id / 2"})
    pilum.spark.create_index(spark, uri, "id", "BTREE")
    pilum.spark.compact(spark, uri)
    pilum.spark.analyze(spark, uri, ["id"])

    seen = facts(log)
    assert [(one["job"], one["version"], one["rows"]) for one in seen] == [
        ("write", 1, 100),
        ("merge", 2, 20),
        ("delete", 3, 0),
        ("add-columns", 4, 0),
        ("create-index", 5, 0),
        ("compact", pilum.dataset(uri).version, 100),
        ("analyze", None, 0),
    ]
    assert {one["table"] for one in seen} == {uri}
    assert all(
        one["files"] > 0 and one["bytes"] > 0
        for one in seen
        if one["job"] != "delete" and one["job"] != "analyze"
    )
    written = sum(path.stat().st_size for path in Path(uri, "data").iterdir())
    assert sum(one["bytes"] for one in seen if one["job"] != "create-index") == written
    details = {one["job"]: one["details"] for one in seen}
    assert details["merge"]["num_inserted_rows"] == "10"
    assert details["delete"] == {"num_deleted_rows": "10"}
    assert details["compact"]["fragments_added"] == "1"
    assert details["analyze"]["id.max"] == "109"
    assert {one["conflicts"] + one["retries"] + one["orphans"] for one in seen} == {0}


def test_reports_are_a_frame_of_one_shape(spark: SparkSession, uri: str) -> None:
    pilum.spark.write(spark.range(7), uri, mode="create")
    pilum.spark.verify(spark, uri)
    rows = pilum.spark.reports(spark).where(f"table = '{uri}'").collect()
    assert [(one.job, one.version, one.rows, one.error) for one in rows] == [
        ("write", 1, 7, None),
        ("verify", None, 0, None),
    ]
    assert rows[1].details["missing"] == "0"
    assert rows[0].started_at <= rows[1].started_at


def test_failures_are_reported_and_nothing_is_printed(
    spark: SparkSession,
    uri: str,
    log: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_table(uri, pa.table({"id": [1]}))
    with pytest.raises(SchemaMismatchError):
        pilum.spark.write(spark.range(3).selectExpr("string(id) AS id"), uri, mode="append")
    (found,) = facts(log)
    assert found["levelname"] == "ERROR"
    assert found["error"].startswith("SchemaMismatchError: ")
    assert found["version"] is None
    logging.getLogger("pilum").removeHandler(log.handler)
    assert "SchemaMismatchError" not in capsys.readouterr().err


def test_retries_and_lost_files_are_counted(
    spark: SparkSession, uri: str, log: pytest.LogCaptureFixture
) -> None:
    frame = spark.range(0, 50, 1, 2)
    pilum.spark.write(frame.mapInArrow(flaky(always=False), frame.schema), uri, mode="create")
    (found,) = facts(log)
    assert (found["rows"], found["retries"]) == (50, 1)


def test_conflicts_are_counted(
    spark: SparkSession, uri: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(uri, pa.table({"id": [1, 2, 3]}))
    changes = spark.createDataFrame([(1,)], "id bigint")
    merge = pilum.spark.merge_into(spark, uri, changes, on="id").when_matched_delete()
    spread = merge._spread

    def meddle(job: Any) -> Any:
        if not log.records:
            logging.getLogger(LOGGER).info("meddles")
            pilum.dataset(uri).update({"id": "id"}, "id = 1")
        return spread(job)

    monkeypatch.setattr(merge, "_spread", meddle)
    merge.execute()
    (found,) = [vars(one) for one in log.records if hasattr(one, "job")]
    assert (found["job"], found["conflicts"], found["version"]) == ("merge", 1, 3)


def test_sparks_jobs_are_named_for_this_thread_alone(spark: SparkSession, uri: str) -> None:
    context = spark.sparkContext
    context.setJobDescription("nightly")
    spark.addTag("mine")
    beside: list[Any] = []

    def look() -> None:
        beside.append((context.getLocalProperty("spark.job.description"), spark.getTags()))

    try:
        with module.named(spark, "pilum merge: t", "merge"):
            assert context.getLocalProperty("spark.job.description") == "nightly | pilum merge: t"
            assert spark.getTags() == {"mine", "pilum", "pilum-merge"}
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
        assert context.getLocalProperty("spark.job.description") == "nightly"
        assert spark.getTags() == {"mine"}
    finally:
        spark.clearTags()
        context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
    assert beside == [(None, set())]
    pilum.spark.write(spark.range(5), uri, mode="create")
    newest = context._jsc.sc().statusStore().jobsList(None).apply(0)
    assert newest.description().get() == f"pilum write: {uri}"
    assert context.getLocalProperty("spark.job.description") is None


def test_commits_of_sparks_own_writers_are_logged_where_they_run(
    spark: SparkSession, uri: str, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = PilumWriter(spark.range(1).schema, Options(path=uri), overwrite=False)
    writer.commit([])
    (found,) = facts(log)
    assert (found["job"], found["version"]) == ("write", 1)

    logger = logging.getLogger("pilum")
    before = (logger.level, list(logger.handlers))
    monkeypatch.delenv("LANCE_LOG", raising=False)
    monkeypatch.setattr(logger, "handlers", [])
    log_in_process_of_spark()
    assert not logger.handlers
    monkeypatch.setenv("LANCE_LOG", "debug")
    log_in_process_of_spark()
    log_in_process_of_spark()
    assert len(logger.handlers) == 1
    assert logger.level == logging.DEBUG
    logger.setLevel(before[0])
