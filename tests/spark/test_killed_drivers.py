"""Drivers of streams that are killed with SIGKILL, and the ones that go on from the checkpoint."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from guard import GUARD_SECONDS
from pyspark.sql import SparkSession
from spark.beside import Writer
from spark.helpers import arrive, drain, environment, files, version

import pilum

HERE = Path(__file__).parent


def run_until_killed(script: str, *arguments: object) -> None:
    """A driver that goes on with a stream, and dies."""
    done = subprocess.run(
        [sys.executable, HERE / script, *map(str, arguments)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
        check=False,
    )
    assert done.stdout.split() == ["died"], done.stderr[-5000:]


@pytest.mark.slow
def test_a_driver_killed_before_within_and_behind_a_commit_takes_each_row_once(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """One micro-batch, four drivers: three die; then orphans are counted, and cleaned up."""
    incoming, checkpoint = tmp_path / "incoming", tmp_path / "checkpoint"
    pilum.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    arrive(incoming, {"id": 0}, {"id": 1})
    for moment, expected in (("before", 1), ("within", 1), ("behind", 2)):
        run_until_killed("mortal.py", moment, uri, incoming, checkpoint)
        assert version(uri) == expected
    assert sorted(pilum.dataset(uri).to_table()["id"].to_pylist()) == [0, 1]

    arrive(incoming, {"id": 2})
    drain(spark.readStream.schema("id bigint").json(str(incoming)), uri, checkpoint)
    table = pilum.dataset(uri)
    assert sorted(table.to_table()["id"].to_pylist()) == [0, 1, 2]
    assert table.version == 3

    # The last driver deletes what it wrote for the batch that is in; the first two could not.
    assert len(files(uri)) - len(table.get_fragments()) == 2
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len(files(uri)) - len(table.get_fragments()) == 0
    assert table.verify(deep=True).is_valid
    assert sorted(pilum.dataset(uri).to_table()["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.slow
def test_drivers_killed_in_the_first_batch_of_a_table_that_grows_lose_no_row(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    """When the end is logged and nothing planned, and after the commit of the target."""
    copy, checkpoint, beside = str(tmp_path / "copy"), tmp_path / "c", tmp_path / "beside"
    with Writer(uri, beside) as writer:
        writer.append("before the query")
        for step in ("before partitions", "after commit"):
            writer.stop_at(step)
            run_until_killed("mortal_reader.py", uri, beside, copy, checkpoint)
            assert (checkpoint / "offsets" / "0").exists()
        assert not (checkpoint / "commits" / "0").exists()
    drain(spark.readStream.format("pilum").load(uri), copy, checkpoint)
    found = sorted(pilum.dataset(copy).to_table()["id"].to_pylist())
    assert found == list(range(len(writer.steps)))
    assert pilum.dataset(copy).verify(deep=True).is_valid
