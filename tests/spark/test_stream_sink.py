"""Streams into tables, by real queries, with the faults that exactly-once is about (S5)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark import helpers
from spark.helpers import drain, files, flaky, forget, version

import pilum
from pilum.distributed import commit_parts, start_job, write_part
from pilum.errors import InvalidInputError, JobMismatchError
from pilum.spark.options import Options
from pilum.spark.sink import PilumStreamWriter, stream_writer
from pilum.spark.source import PilumDataSource

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def incoming(tmp_path: Path) -> Path:
    """A folder of JSON lines, one file per micro-batch."""
    (tmp_path / "incoming").mkdir()
    return tmp_path / "incoming"


def arrive(incoming: Path, *ids: int) -> None:
    """One more file, with these rows."""
    helpers.arrive(incoming, *({"id": one} for one in ids))


def rows_of(spark: SparkSession, incoming: Path) -> DataFrame:
    reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    return reader.json(str(incoming))


def ids(uri: str) -> list[int]:
    return sorted(pilum.dataset(uri).to_table()["id"].to_pylist())


def test_each_micro_batch_is_one_commit_and_a_replayed_one_none(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    arrive(incoming, 0, 1)
    arrive(incoming, 2)
    query = drain(rows_of(spark, incoming), uri, tmp_path / "c")
    assert (version(uri), ids(uri)) == (2, [0, 1, 2])
    before = files(uri)

    forget(tmp_path / "c", 1)
    arrive(incoming, 3)
    assert drain(rows_of(spark, incoming), uri, tmp_path / "c") == query
    assert (version(uri), ids(uri)) == (3, [0, 1, 2, 3])
    assert len(files(uri)) == len(before) + 1  # those of the replay are gone again
    last = pilum.dataset(uri).last_commit(query)
    assert last is not None
    assert (last.app_version, last.version) == (2, 3)


def test_small_files_are_joined_after_some_micro_batches(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    for number in range(4):
        arrive(incoming, number)
    drain(rows_of(spark, incoming), uri, tmp_path / "c", options={"compactEvery": "3"})
    table = pilum.dataset(uri)
    assert table.to_table()["id"].to_pylist() == [0, 1, 2, 3]
    assert [one.count_rows() for one in table.get_fragments()] == [3, 1]


def test_batches_without_rows_change_nothing(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    for rows in ([], [1], []):
        arrive(incoming, *rows)
    drain(rows_of(spark, incoming), uri, tmp_path / "c")
    assert (version(uri), ids(uri), len(files(uri))) == (2, [1], 1)


def test_complete_mode_replaces_the_rows_once_per_batch(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    arrive(incoming, 1, 1, 2)
    arrive(incoming, 1)
    counts = rows_of(spark, incoming).groupBy("id").count()
    drain(counts, uri, tmp_path / "c", outputMode="complete")
    forget(tmp_path / "c", 1)
    drain(counts, uri, tmp_path / "c", outputMode="complete")
    assert version(uri) == 2
    found = pilum.dataset(uri).to_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "count": 3}, {"id": 2, "count": 1}]


def test_a_stream_that_dies_at_a_commit_goes_on_with_nothing_lost_or_doubled(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    """Before the commit, and behind it with the answer lost; then orphans are counted."""
    flag = str(tmp_path / "die")

    # Within a function, so that Spark carries these classes to its other processes by value.
    class Mortal(PilumStreamWriter):
        def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
            when = Path(flag).read_text() if Path(flag).exists() else ""
            if when == "before":
                raise OSError("died before the commit")
            super().commit(messages, batchId)
            if when == "behind":
                raise OSError("the answer was lost")

    class MortalSource(PilumDataSource):
        @classmethod
        def name(cls) -> str:
            return "mortal"

        def streamWriter(self, schema: StructType, overwrite: bool) -> PilumStreamWriter:  # noqa: N802
            return Mortal(schema, Options.parse(dict(self.options)), overwrite)

    spark.dataSource.register(MortalSource)
    checkpoint = tmp_path / "c"
    frame = rows_of(spark, incoming)
    for number, when in enumerate(("before", "behind")):
        arrive(incoming, 2 * number, 2 * number + 1)
        Path(flag).write_text(when)
        with pytest.raises(PySparkException, match=r"died before|answer was lost"):
            drain(frame, uri, checkpoint, "mortal")
        Path(flag).unlink()
        drain(frame, uri, checkpoint, "mortal")
        assert ids(uri) == list(range(2 * number + 2))
    assert version(uri) == 2

    orphans = len(files(uri)) - 2
    assert orphans == 1  # of the driver that died before its commit
    table = pilum.dataset(uri)
    table.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    assert len(files(uri)) - 2 == 0
    assert ids(uri) == [0, 1, 2, 3]


def test_a_batch_of_which_a_task_fails_leaves_no_rows(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    arrive(incoming, *range(100))
    failing = rows_of(spark, incoming).repartition(2).mapInArrow(flaky(always=True), "id bigint")
    with pytest.raises(PySparkException, match="failed on purpose"):
        drain(failing, uri, tmp_path / "c")
    assert len(files(uri)) <= 1  # of the task that did not fail, if Spark had not heard of it
    once = rows_of(spark, incoming).repartition(2).mapInArrow(flaky(always=False), "id bigint")
    drain(once, uri, tmp_path / "c")
    assert ids(uri) == list(range(100))
    table = pilum.dataset(uri)
    table.cleanup_old_versions(retain_versions=1, delete_unverified=True)
    own = [file.path for fragment in table.get_fragments() for file in fragment.data_files()]
    assert files(uri) == sorted(own)


def test_a_checkpoint_that_is_older_than_the_table_ends_the_query(
    spark: SparkSession, uri: str, incoming: Path, tmp_path: Path
) -> None:
    """It plans its batches again, with other bounds: rows would be passed over."""
    checkpoint, backup = tmp_path / "c", tmp_path / "backup"

    def run(**options: str) -> None:
        reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", files_per_batch)
        drain(reader.json(str(incoming)), uri, checkpoint, options=options)

    def restore_backup() -> None:
        shutil.rmtree(checkpoint)
        shutil.copytree(backup, checkpoint)

    files_per_batch = 1
    arrive(incoming, 0)
    run()
    shutil.copytree(checkpoint, backup)
    arrive(incoming, 1)
    arrive(incoming, 2)
    run()
    assert (version(uri), ids(uri), before := files(uri)) == (3, [0, 1, 2], files(uri))

    restore_backup()  # batch 1 again, and the table has batch 2
    with pytest.raises(PySparkException, match="comes after commit 2"):
        run()
    pilum.dataset(uri, version=2).restore()
    for number, rows in ((3, "had 1 rows .* and has 2 rows"), (4, "had 1 rows .* and has 1 rows")):
        restore_backup()
        if number == 3:
            files_per_batch = 2
        else:  # another row instead
            files_per_batch = 1
            (incoming / "0001.json").unlink()
        with pytest.raises(PySparkException, match=rf"with other rows: it {rows}"):
            run()
    assert (version(uri), ids(uri), files(uri)) == (4, [0, 1], before)

    run(checkReplays="false")  # as for queries that give other rows each time
    assert ids(uri) == [0, 1]


def test_a_batch_without_rows_is_no_repetition_of_one_with_rows(uri: str) -> None:
    job = start_job(uri, SCHEMA, "create")
    part = write_part(job, [pa.record_batch({"id": [1]}, SCHEMA)], partition=0)
    commit_parts(job, [part], idempotency_key=("q", 0), content="1:0a")
    job = start_job(uri, SCHEMA, "append")
    empty = write_part(job, [], partition=0)
    with pytest.raises(JobMismatchError, match="other rows"):
        commit_parts(job, [empty], idempotency_key=("q", 0), content="0:00")
    assert commit_parts(job, [empty], idempotency_key=("q", 1), content="0:00") == 1


def test_other_rows_under_the_number_of_a_write_are_refused(spark: SparkSession, uri: str) -> None:
    def write(rows: DataFrame, number: int, **more: str) -> None:
        once = {"txnAppId": "nightly", "txnVersion": str(number), **more}
        rows.write.format("pilum").mode("append").options(**once).save(uri)

    write(spark.range(3), 7)
    write(spark.range(3).repartition(2), 7)
    for number in (6, 7):
        with pytest.raises(PySparkException, match="commit 7"):
            write(spark.range(3, 6), number)
        write(spark.range(3, 6), number, checkReplays="false")
    assert (version(uri), ids(uri), len(files(uri))) == (1, [0, 1, 2], 2)


def test_writes_of_one_number_happen_once(spark: SparkSession, uri: str) -> None:
    once = {"txnAppId": "nightly", "txnVersion": "7"}
    for _ in range(2):
        spark.range(3).write.format("pilum").mode("append").options(**once).save(uri)
    assert (version(uri), ids(uri), len(files(uri))) == (1, [0, 1, 2], 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "create"}, "cannot create a table in every batch"),
        ({"txnAppId": "a", "txnVersion": "1"}, "counts its batches itself"),
    ],
)
def test_options_that_make_no_sense_for_a_stream(options: dict[str, str], message: str) -> None:
    schema = StructType().add("id", "long")
    with pytest.raises(InvalidInputError, match=message):
        stream_writer(schema, Options.parse({"path": "/t", **options}), overwrite=False)


def test_a_number_needs_an_application() -> None:
    with pytest.raises(InvalidInputError, match="go together"):
        Options.parse({"path": "/t", "txnVersion": "1"})
