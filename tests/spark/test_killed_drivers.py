"""Drivers of streams that are killed with SIGKILL, and the ones that go on from the checkpoint."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from guard import GUARD_SECONDS
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.beside import Writer
from spark.deadly_workers import die
from spark.helpers import RELEASE, arrive, drain, environment, files, version
from spark.mortal import MOMENTS, STEPS, mortal_source

import pilum

SCRIPT = Path(__file__).with_name("mortal.py")

pytestmark = pytest.mark.slow

_RUNS = 1 if RELEASE >= (4, 2) else 2
"""Before Spark 4.2 a run that takes what is available ends with the batch that was not finished."""


@dataclass(frozen=True)
class Killed:
    """What a driver of streams left when it was killed.

    Attributes:
        folder: Has the tables, and their checkpoints beside them.
        appended: How many rows each followed table has.
    """

    folder: Path
    appended: dict[str, int]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    """One driver with a stream for each moment, which dies when all are there."""
    folder = tmp_path_factory.mktemp("killed")
    arrive(folder / "incoming", {"id": 0}, {"id": 1})
    for moment in MOMENTS:
        pilum.write_dataset(pa.table({"id": pa.array([], pa.int64())}), folder / moment)
    with ExitStack() as stack:
        writers = {
            step: stack.enter_context(Writer(str(folder / step), folder / f"{step}-beside"))
            for step in STEPS
        }
        for step, writer in writers.items():
            writer.append("before the query")
            writer.stop_at(step.replace("-", " "))
        done = subprocess.run(
            [sys.executable, SCRIPT, folder],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=GUARD_SECONDS,
            check=False,
        )
    assert done.stdout == "died\n", done.stdout + done.stderr[-5000:]
    arrive(folder / "incoming", {"id": 2})
    return Killed(folder, {step: len(writer.steps) for step, writer in writers.items()})


@pytest.mark.parametrize(
    ("moment", "published", "later", "orphans"),
    [
        ("before", 1, {"within": 1, "behind": 2}, 2),
        ("within", 1, {}, 1),
        ("behind", 2, {"before": 2}, 1),
    ],
)
def test_a_driver_killed_at_a_moment_of_a_commit_takes_each_row_once(
    spark: SparkSession,
    killed: Killed,
    moment: str,
    published: int,
    later: dict[str, int],
    orphans: int,
) -> None:
    """The next driver runs the batch again; then orphans are counted, and cleaned up.

    Before that, some die again at other moments of the same batch. Of these only the process that
    commits is killed: the JVM has done its part, and the checkpoint is as the first death left it.
    """
    uri = str(killed.folder / moment)
    assert version(uri) == published
    assert len(files(uri)) == 1
    rows = spark.readStream.schema("id bigint").json(str(killed.folder / "incoming"))
    for again, number in later.items():
        spark.dataSource.register(mortal_source(again, die))
        with pytest.raises(PySparkException, match="crashed"):
            drain(rows, uri, Path(f"{uri}-checkpoint"), again)
        assert version(uri) == number
    drain(rows, uri, Path(f"{uri}-checkpoint"))
    table = pilum.dataset(uri)
    assert sorted(table.to_table()["id"].to_pylist()) == [0, 1, 2]
    assert table.version == 3

    # What it wrote for a batch that was published it deletes; a killed driver could not.
    assert len(files(uri)) - len(table.get_fragments()) == orphans
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert len(files(uri)) - len(table.get_fragments()) == 0
    assert table.verify(deep=True).is_valid
    assert sorted(pilum.dataset(uri).to_table()["id"].to_pylist()) == [0, 1, 2]


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_killed_in_the_first_batch_of_a_table_that_grows_loses_no_row(
    spark: SparkSession, killed: Killed, step: str
) -> None:
    """When the end is logged and nothing planned, and after the commit of the target."""
    uri = str(killed.folder / step)
    copy, checkpoint = f"{uri}-copy", Path(f"{uri}-copy-checkpoint")
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()
    for _ in range(_RUNS):
        drain(spark.readStream.format("pilum").load(uri), copy, checkpoint)
    found = sorted(pilum.dataset(copy).to_table()["id"].to_pylist())
    assert found == list(range(killed.appended[step]))
    assert pilum.dataset(copy).verify(deep=True).is_valid
