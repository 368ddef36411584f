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
from spark.helpers import arrive, drain, environment, files, version

import pilum

SCRIPT = Path(__file__).with_name("mortal.py")


def run_until_killed(moment: str, *arguments: object) -> None:
    """A driver that goes on with a stream, and dies."""
    done = subprocess.run(
        [sys.executable, SCRIPT, moment, *map(str, arguments)],
        env=environment(Path(str(arguments[0])).parent),
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
        run_until_killed(moment, uri, incoming, checkpoint)
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
