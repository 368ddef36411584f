"""Spark Connect, a standalone master with a worker process, and who is killed when."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
import pytest
from guard import GUARD_SECONDS
from pyspark.sql import SparkSession
from spark import deaths
from spark.helpers import environment, files, has_only

import pilum
import pilum.spark

SCRIPT = Path(__file__).with_name("elsewhere.py")
CONNECT = ("grpc", "grpc_status", "google.rpc", "zstandard")

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(
        not (os.environ.get("JAVA_HOME") or shutil.which("java")), reason="Spark needs Java"
    ),
]


def has_connect() -> bool:
    try:
        return all(importlib.util.find_spec(name) for name in CONNECT)
    except ModuleNotFoundError:
        return False


def run(where: str, uri: str) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, where, uri],
        # Spark Connect then takes a free port, not 15002, which another process may have.
        env=environment() | ({"SPARK_TESTING": "1"} if where == "connect" else {}),
        cwd=Path(uri).parent,
        capture_output=True,
        text=True,
        timeout=GUARD_SECONDS,
        check=False,
    )
    assert "done" in done.stdout, done.stderr[-5000:]


@contextmanager
def daemon(folder: Path, name: str, *arguments: str) -> Iterator[Path]:
    """A process of Spark; gives the file that it logs to."""
    log = folder / f"{name}-{len(list(folder.iterdir()))}.log"
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    command += [f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment(), stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(GUARD_SECONDS)


def found(log: Path, before: str, within_seconds: float = GUARD_SECONDS) -> str:
    """The word that follows a text in a log, as soon as it is there."""
    deadline = time.monotonic() + within_seconds
    while time.monotonic() < deadline:
        _, is_there, rest = log.read_text().partition(before)
        if is_there and "\n" in rest:
            return rest.split()[0].rstrip(",.")
        time.sleep(0.1)
    raise TimeoutError(f"no {before!r} in {log}: {log.read_text()[-2000:]}")


def check_main_operations(uri: str, more: list[int]) -> None:
    """By way of pylance, if it is there."""
    lance = pytest.importorskip("lance")
    ids = lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist()
    assert sorted(ids) == sorted([*range(1000), *range(10), *range(5), *more])


@pytest.mark.reference
@pytest.mark.skipif(not has_connect(), reason="Spark Connect needs pyspark[connect]")
def test_everything_works_through_spark_connect(uri: str) -> None:
    run("connect", uri)
    check_main_operations(uri, [])
    assert sorted(pilum.dataset(f"{uri}-z").to_table()["id"].to_pylist()) == [*range(1000)]
    deaths.check_killed(f"{uri}-driver", deaths.ON_CONNECT)


@pytest.mark.reference
def test_a_standalone_cluster_survives_the_loss_of_an_executor(uri: str, tmp_path: Path) -> None:
    """Also attempts of one task at once, by both ways to write; then orphans are cleaned up."""
    with daemon(tmp_path, "master.Master", "--host", "127.0.0.1", "--port", "0") as log:
        master = found(log, "Starting Spark master at ")
        with ExitStack() as workers:
            logs = [
                workers.enter_context(
                    daemon(tmp_path, "worker.Worker", "--host", host, "-c", "1", "-m", "1g", master)
                )
                for host in ("127.0.0.1", "127.0.0.2")  # Spark speculates on another host only
            ]
            for worker in logs:
                found(worker, "Successfully registered with master")
            run(master, uri)
    check_main_operations(uri, [*range(1000, 2000), *range(3000, 3100), *range(4000, 4100)])
    table = pilum.dataset(uri)
    of_table = [file.path for one in table.get_fragments() for file in one.metadata.files]
    assert set(files(uri)) >= set(of_table)
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert has_only(uri, sorted(of_table))
    assert table.verify(deep=True).is_valid


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What workers and a driver leave that are killed in the middle of many things."""
    uri = str(tmp_path_factory.mktemp("killed") / "table")
    run("killed", uri)
    return uri


def test_a_job_whose_driver_dies_goes_on_where_it_was(
    spark: SparkSession, killed: str, tmp_path: Path
) -> None:
    """Groups that were committed stay, and no finished fragment is computed again."""
    uri = f"{killed}-job"
    table = pilum.dataset(uri)
    twice = [2 * number for number in range(40)]
    assert table.to_table()["twice"].to_pylist() == [*twice[:20], *[None] * 20]
    calls = tmp_path / "calls"

    def double(batch: pa.RecordBatch) -> pa.RecordBatch:
        with calls.open("a") as notes:
            notes.write(f"{batch['id'][0]}\n")
        return pa.record_batch({"twice": pc.multiply(batch["id"], 2)})

    pilum.spark.add_columns(
        spark,
        uri,
        double,
        read_columns=["id"],
        output_schema="twice bigint",
        job="double",
        commit_every=1,
    )
    assert sorted(calls.read_text().split()) == ["20", "30"]
    table = pilum.dataset(uri)
    assert table.to_table()["twice"].to_pylist() == twice
    in_use = [file.path for one in table.get_fragments() for file in one.metadata.files]
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert has_only(uri, sorted(in_use))


@pytest.mark.reference
def test_an_index_whose_driver_dies_goes_on_where_it_was(spark: SparkSession, killed: str) -> None:
    """Nothing is visible before the commit, and finished segments are not trained again."""
    import lance

    uri = f"{killed}-index"
    assert (pilum.dataset(uri).version, pilum.dataset(uri).list_indices()) == (1, [])
    trained = {path.parent.name for path in Path(uri, "_indices").glob("*/*")}
    assert len(trained) == 3

    version = pilum.spark.create_index(spark, uri, "id", "BTREE", job="by-id", fragments_per_task=1)
    table = pilum.dataset(uri)
    segments = {one["uuid"]: set(one["fragment_ids"] or ()) for one in table.list_indices()}
    assert trained < set(segments)
    assert sorted(map(sorted, segments.values())) == [[0], [1], [2], [3]]
    assert table.version == version == 2
    for condition in ("id = 25", "id >= 29 AND id < 31"):
        assert table.to_table(filter=condition) == lance.dataset(uri).to_table(filter=condition)
    table.cleanup_old_versions(timedelta(0), delete_unverified=True)
    assert {path.parent.name for path in Path(uri, "_indices").glob("*/*")} == set(segments)


def test_workers_and_a_driver_that_die_leave_all_rows_or_none(
    spark: SparkSession, killed: str
) -> None:
    """Then orphans are cleaned up, and the same is done again."""
    table = pilum.dataset(killed)
    assert (table.version, sorted(table.to_table()["id"].to_pylist())) == (2, [*range(1, 100)])
    assert set(files(killed)) == deaths.in_some_version(killed)
    deaths.all_at_once(spark, deaths.check_killed(f"{killed}-driver"))
