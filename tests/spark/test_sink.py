from __future__ import annotations

import datetime
import os
import signal
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType
from spark.helpers import files, flaky, has_only, since, version, write_table

import pilum
import pilum.spark
from pilum.errors import InvalidInputError
from pilum.spark.options import Options
from pilum.spark.sink import PartCommit, PilumWriter, job_mode
from pilum.spark.source import PilumDataSource
from pilum.storage.open import open_store
from pilum.table.read.snapshot import Snapshot

EVERY_TYPE = """
    yes boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint, f32 float, f64 double,
    price decimal(20, 3), text string, bytes binary, day date, moment timestamp,
    wall timestamp_ntz, gap interval day to second, nothing void, clock time(6),
    list array<int>, lists array<array<float>>, structs array<struct<x: int, y: string>>,
    st struct<a: int, b: struct<c: string, d: array<date>>>
"""
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, 678901)
ROWS = [
    (
        *(True, 1, 2, 3, 2**40, 0.5, 0.1, Decimal("12.345"), "täxt", bytearray(b"\0x")),
        *(NOW.date(), NOW, NOW, datetime.timedelta(days=-1, microseconds=5), None, NOW.time()),
        *([1, None], [[0.5], None, []], [Row(x=1, y=None), None]),
        Row(a=1, b=Row(c="c", d=[NOW.date(), None])),
    ),
    (None,) * 20,
    (
        *(False, -1, -2, -3, -4, -0.5, 1e300, Decimal(0), "", bytearray(), *(None,) * 6),
        *([], [], [], Row(a=None, b=None)),
    ),
]


def save(frame: DataFrame, uri: str, mode: str = "append", **options: Any) -> None:
    frame.write.format("pilum").mode(mode).options(**options).save(uri)


def load(spark: SparkSession, uri: str) -> DataFrame:
    return spark.read.format("pilum").load(uri)


def ids(spark: SparkSession, uri: str) -> list[int]:
    return sorted(row.id for row in load(spark, uri).collect())


@since(4, 1)
def test_every_type_of_spark_survives(spark: SparkSession, uri: str) -> None:
    spark.conf.set("spark.sql.timeType.enabled", "true")
    frame = spark.createDataFrame(ROWS, EVERY_TYPE)
    save(frame, uri)
    assert load(spark, uri).schema == frame.schema
    assert load(spark, uri).collect() == frame.collect()
    save(frame, uri)
    assert load(spark, uri).count() == 2 * len(ROWS)


MAPS = [
    Row(m={"a": 1, "b": None}, deep=[{1: Row(x=[0.5, None], y={"k": b"v"})}, None]),
    Row(m={}, deep=[]),
    Row(m=None, deep=None),
]
MAP_TYPES = (
    "m map<string, int>, deep array<map<bigint, struct<x: array<float>, y: map<string, binary>>>>"
)


def test_maps_travel_in_both_directions(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    frame = spark.createDataFrame(MAPS, MAP_TYPES)
    save(frame, uri)
    assert pilum.dataset(uri).data_storage_version == "2.2"
    assert load(spark, uri).schema == frame.schema
    assert load(spark, uri).collect() == frame.collect()
    pilum.spark.write(load(spark, uri), copy := str(tmp_path / "copy"), mode="create")
    assert pilum.dataset(copy).to_table() == pilum.dataset(uri).to_table()
    found = load(spark, uri).selectExpr("m['a'] AS a", "get(deep, 0)[1].y['k'] AS k").collect()
    assert [(row.a, row.k) for row in found] == [(1, b"v"), (None, None), (None, None)]
    with pytest.raises(PySparkException, match=r"maps need files of version 2\.2"):
        save(frame, str(tmp_path / "old"), dataStorageVersion="2.1")


def test_maps_of_other_writers_are_read_and_grow(spark: SparkSession, uri: str) -> None:
    kind = pa.map_(pa.large_string(), pa.list_(pa.float16(), 2))
    maps = pa.array([[("x", [1, 2]), ("y", None)], None, []], kind)
    pilum.write_dataset(pa.table({"id": range(3), "m": maps}), uri)
    frame = load(spark, uri)
    assert [row.m for row in frame.collect()] == [{"x": [1, 2], "y": None}, None, {}]
    save(frame.where("id = 0").selectExpr("id + 3 AS id", "m"), uri)
    more = spark.sql("SELECT 9L AS id, map('z', array(5.0F, 6.0F)) AS m")
    merge = pilum.spark.merge_into(spark, uri, more, "id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    found = pilum.dataset(uri).to_table()
    assert found.schema.field("m").type == kind
    assert dict(zip(found["id"].to_pylist(), found["m"].to_pylist(), strict=True)) == {
        0: [("x", [1, 2]), ("y", None)],
        1: None,
        2: [],
        3: [("x", [1, 2]), ("y", None)],
        9: [("z", [5, 6])],
    }
    wrong = spark.sql("SELECT 9L AS id, map('z', array('no')) AS m")
    with pytest.raises(PySparkException, match=r"column 'm.value\[\]': expected float"):
        save(wrong, uri)


@since(4, 1)
def test_types_that_promise_more_are_kept_or_refused(spark: SparkSession, uri: str) -> None:
    """A frame that comes back has the types that it had, or was never written."""
    spark.conf.set("spark.sql.timeType.enabled", "true")
    text = "SELECT TIME '12:34:56.789012' :: time({0}) AS t, INTERVAL '5' HOUR AS gap"
    for precision in (0, 3, 6):
        frame = spark.sql(text.format(precision)).drop("gap")
        save(frame, uri, "overwrite")
        assert load(spark, uri).schema.simpleString() == f"struct<t:time({precision})>"
        assert load(spark, uri).collect() == frame.collect()
    for columns, advice in [("gap", "interval day to second"), ("t", r"time\(0\), time\(3\)")]:
        with pytest.raises(PySparkException, match=f"cast it to {advice}"):
            save(spark.sql(text.format(2)).select(columns), uri, "overwrite")
    save(spark.sql(text.format(3)).select("t"), uri)  # a time that fits
    with pytest.raises(PySparkException, match=r"'t': expected time32\[s\], found time64\[us\]"):
        spark.read.format("pilum").schema("t time(0)").load(uri).collect()
    save(spark.sql(text.format(0)).select("t"), other := f"{uri}-seconds")
    with pytest.raises(PySparkException, match=r"'t': expected time32\[s\], found time64\[us\]"):
        save(spark.sql(text.format(6)).select("t"), other)
    wide = spark.read.format("pilum").schema("t time(6)").load(other)
    assert wide.collect() == [Row(t=datetime.time(12, 34, 56))]
    assert sorted(row.t for row in load(spark, uri).collect()) == [
        datetime.time(12, 34, 56, 789000),
        datetime.time(12, 34, 56, 789012),
    ]


def test_variants_survive(spark: SparkSession, uri: str) -> None:
    text = '{"a":[1,null]}'
    save(spark.sql(f"SELECT parse_json('{text}') AS v UNION ALL SELECT NULL"), uri)
    rows = load(spark, uri).selectExpr("to_json(v) AS text").collect()
    assert {row.text for row in rows} == {text, None}


def test_vectors_stay_vectors(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    vectors = pa.array([[1.0, 2.0], None, [3.0, 4.0]], pa.list_(pa.float16(), 2))
    write_table(uri, pa.table({"v": vectors}))
    save(load(spark, uri), copy := str(tmp_path / "copy"))
    save(spark.createDataFrame([([5.0, 6.0],)], "v array<float>"), uri)
    with pytest.raises(PySparkException, match=r"column 'v': .*expected size"):
        save(spark.createDataFrame([([5.0],)], "v array<float>"), uri)
    assert [row.v for row in load(spark, uri).collect()] == [[1, 2], None, [3, 4], [5, 6]]
    found = Snapshot.latest(open_store(copy)).schema.arrow.field("v").type
    assert found == pa.list_(pa.float32(), 2)


def test_extension_types_are_their_storage(spark: SparkSession, uri: str) -> None:
    kind = pa.opaque(pa.int64(), "length", "pilum")
    lengths = pa.ExtensionArray.from_storage(kind, pa.array([1, None, 3], pa.int64()))
    structs = pa.StructArray.from_arrays([lengths], fields=[pa.field("m", kind)])
    pilum.write_dataset(pa.table({"n": lengths, "s": structs}), uri)
    frame = load(spark, uri)
    assert frame.where("n > 1").collect() == [Row(n=3, s=Row(m=3))]
    save(frame, uri)
    found = pilum.dataset(uri).to_table()
    assert found.schema.field("n").type == kind
    assert found["s"].to_pylist() == 2 * [{"m": 1}, {"m": None}, {"m": 3}]


def test_append_creates_then_adds_then_overwrite_replaces(spark: SparkSession, uri: str) -> None:
    save(spark.range(3), uri)
    save(spark.range(3, 5), uri)
    assert ids(spark, uri) == [0, 1, 2, 3, 4]
    save(spark.range(7, 9).selectExpr("id", "'x' AS extra"), uri, "overwrite")
    assert load(spark, uri).collect() == [Row(id=7, extra="x"), Row(id=8, extra="x")]
    assert version(uri) == 3
    assert spark.read.format("pilum").load(uri, version=2).count() == 5


def test_what_spark_knows_to_be_not_null_may_be_null_later(spark: SparkSession, uri: str) -> None:
    first = spark.sql("SELECT 1 AS id, 'x' AS text, array(1) AS list, struct(1 AS m) AS st")
    later = "2 AS id, CAST(NULL AS string) AS text, array(int(NULL)) AS list, NULL AS st"
    save(first, uri)
    save(spark.sql(f"SELECT {later}"), uri)
    assert load(spark, uri).where("id = 2").collect() == [
        Row(id=2, text=None, list=[None], st=None)
    ]


def test_columns_are_matched_by_name_and_may_be_missing(spark: SparkSession, uri: str) -> None:
    save(spark.sql("SELECT 1L AS id, 'a' AS text, 1.5F AS score"), uri)
    save(spark.sql("SELECT 'b' AS text, 2 AS id"), uri)
    assert load(spark, uri).where("id = 2").collect() == [Row(id=2, text="b", score=None)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT 1L AS id, 'x' AS nmae", "the table has no column 'nmae'; it has"),
        ("SELECT 'x' AS id", "column 'id': expected int64, found string"),
        ("SELECT 1L AS id, INTERVAL '5' HOUR AS gap", "interval day to second"),
    ],
)
def test_what_does_not_fit_leaves_nothing_behind(
    spark: SparkSession, uri: str, query: str, message: str
) -> None:
    save(spark.range(1), uri)
    before = files(uri)
    with pytest.raises(PySparkException, match=message):
        save(spark.sql(query), uri)
    assert (version(uri), files(uri)) == (1, before)


def test_create_demands_that_there_is_no_table(spark: SparkSession, uri: str) -> None:
    writer = spark.range(1).write.format("pilum").mode("append").option("mode", "create")
    writer.save(uri)
    with pytest.raises(PySparkException, match="DatasetAlreadyExistsError"):
        writer.save(uri)
    assert version(uri) == 1


def test_modes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="contradicts"):
        job_mode(Options(path="/t", mode="append"), overwrite=True)


def test_an_empty_frame_makes_a_table_but_no_version(spark: SparkSession, uri: str) -> None:
    save(spark.range(0), uri)
    assert load(spark, uri).columns == ["id"]
    save(spark.range(0), uri)
    assert (version(uri), ids(spark, uri), files(uri)) == (1, [], [])
    save(spark.range(2), uri)
    save(spark.range(0), uri, "overwrite")
    assert (version(uri), ids(spark, uri)) == (3, [])


def test_files_are_cut_by_rows(spark: SparkSession, uri: str) -> None:
    save(spark.range(0, 10, 1, 1), uri, maxRowsPerFile=4)
    assert len(files(uri)) == 3
    assert ids(spark, uri) == list(range(10))


def test_a_task_that_fails_once_doubles_no_row(spark: SparkSession, uri: str) -> None:
    save(spark.range(0, 1000, 1, 4).mapInArrow(flaky(always=False), "id bigint"), uri)
    assert ids(spark, uri) == list(range(1000))
    assert version(uri) == 1


def test_a_worker_that_is_killed_behind_its_write_doubles_no_row(
    spark: SparkSession, uri: str
) -> None:
    # Within a function, so that Spark carries these classes to its other processes by value.
    class Mortal(PilumWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> PartCommit:
            message = super().write(iterator)
            if (message.part.partition, message.part.attempt) == (1, 0):
                os.kill(os.getpid(), signal.SIGKILL)
            return message

    class MortalSource(PilumDataSource):
        @classmethod
        def name(cls) -> str:
            return "mortal"

        def writer(self, schema: StructType, overwrite: bool) -> PilumWriter:
            return Mortal(schema, Options.parse(dict(self.options)), overwrite)

    spark.dataSource.register(MortalSource)
    spark.range(0, 30, 1, 3).write.format("mortal").mode("append").save(uri)
    assert ids(spark, uri) == list(range(30))
    assert (version(uri), len(files(uri))) == (1, 3)


def test_a_job_that_fails_leaves_the_table_as_it_was(spark: SparkSession, uri: str) -> None:
    save(spark.range(5), uri)
    before = files(uri)
    with pytest.raises(PySparkException, match="failed on purpose"):
        save(spark.range(0, 1000, 1, 4).mapInArrow(flaky(always=True), "id bigint"), uri)
    assert version(uri) == 1
    assert has_only(uri, before)
    assert ids(spark, uri) == list(range(5))


def test_a_commit_whose_answer_is_lost_keeps_its_rows(spark: SparkSession, uri: str) -> None:
    # Within a function, so that Spark carries these classes to its other processes by value.
    class Forgetful(PilumWriter):
        def commit(self, messages: list[WriterCommitMessage | None]) -> None:
            super().commit(messages)
            raise OSError("the answer was lost")

    class ForgetfulSource(PilumDataSource):
        @classmethod
        def name(cls) -> str:
            return "forgetful"

        def writer(self, schema: StructType, overwrite: bool) -> PilumWriter:
            return Forgetful(schema, Options.parse(dict(self.options)), overwrite)

    spark.dataSource.register(ForgetfulSource)
    save(spark.range(5), uri)
    with pytest.raises(PySparkException, match="the answer was lost"):
        spark.range(5, 9).write.format("forgetful").mode("append").save(uri)
    assert ids(spark, uri) == list(range(9))
    assert version(uri) == 2


@pytest.mark.reference
def test_the_reference_reads_what_spark_wrote_and_the_reverse(
    spark: SparkSession, uri: str
) -> None:
    lance = pytest.importorskip("lance")
    frame = spark.range(0, 3000, 1, 2).selectExpr(
        "id",
        "IF(id % 3 = 0, NULL, string(id)) AS text",
        "array(id, NULL) AS list",
        "struct(id AS x, CAST(id AS float) AS y) AS st",
        "timestamp_micros(id) AS moment",
    )
    save(frame, uri)
    assert (
        frame.toArrow()
        .sort_by("id")
        .equals(lance.dataset(uri).to_table().sort_by("id").cast(frame.toArrow().schema))
    )
    lance.write_dataset(lance.dataset(uri).to_table(), uri, mode="append")
    assert load(spark, uri).count() == 6000
    assert load(spark, uri).distinct().count() == 3000
