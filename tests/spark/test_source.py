from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from spark.helpers import PUSHDOWN, filters_in_spark, since, write_table

import pilum

HALF = datetime.datetime(2026, 1, 2, 12, 30, 0, 500)
AWARE = HALF.replace(tzinfo=datetime.UTC)
DAY = datetime.date(2026, 1, 2)

# Columns that no table of Spark would have: the type, a value, and what Spark sees of it.
FOREIGN: dict[str, tuple[pa.DataType, Any, Any]] = {
    "u8": (pa.uint8(), 255, 255),
    "u16": (pa.uint16(), 65535, 65535),
    "u32": (pa.uint32(), 2**32 - 1, 2**32 - 1),
    "u64": (pa.uint64(), 2**64 - 1, Decimal(2**64 - 1)),
    "f16": (pa.float16(), 1.5, 1.5),
    "text": (pa.large_string(), "long", "long"),
    "bytes": (pa.large_binary(), b"long", bytearray(b"long")),
    "id": (pa.binary(4), b"four", bytearray(b"four")),
    "day": (pa.date64(), DAY, DAY),
    "ms": (
        pa.timestamp("ms", "Europe/Berlin"),
        AWARE.replace(microsecond=0),
        HALF.replace(microsecond=0),
    ),
    "ns": (pa.timestamp("ns"), HALF, HALF),
    "gap": (pa.duration("ns"), datetime.timedelta(hours=1), datetime.timedelta(hours=1)),
    "list": (pa.large_list(pa.uint8()), [1, None], [1, None]),
    "vector": (pa.list_(pa.float32(), 2), [1.0, 2.0], [1.0, 2.0]),
    "half": (pa.list_(pa.float16(), 2), [1.0, 2.0], [1.0, 2.0]),
    "deep": (
        pa.struct([("v", pa.list_(pa.int8(), 1)), ("t", pa.large_string())]),
        {"v": [7], "t": "x"},
        Row(v=[7], t="x"),
    ),
}


def load(spark: SparkSession, uri: str, schema: str | None = None, **options: Any) -> DataFrame:
    reader = spark.read.format("pilum").options(**options)
    return (reader.schema(schema) if schema else reader).load(uri)


def some_rows(count: int = 4) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(count), pa.int32()),
            "name": [f"n{number}" for number in range(count)],
            "st": [{"x": number, "y": {"z": "z", "w": number}} for number in range(count)],
        }
    )


@pytest.fixture
def table(uri: str) -> str:
    write_table(uri, some_rows())
    return uri


def test_every_arrow_type_arrives_as_sparks_nearest(spark: SparkSession, uri: str) -> None:
    schema = pa.schema([(name, kind) for name, (kind, _, _) in FOREIGN.items()])
    values = {name: value for name, (_, value, _) in FOREIGN.items()}
    write_table(uri, pa.Table.from_pylist([values, {}], schema=schema))
    first, second = load(spark, uri).collect()
    assert first.asDict() == {name: seen for name, (_, _, seen) in FOREIGN.items()}
    assert set(second.asDict().values()) == {None}


def test_a_schema_of_the_user_is_the_projection(spark: SparkSession, table: str) -> None:
    frame = load(spark, table, "st struct<y: struct<w: bigint>>, id int")
    assert frame.collect()[3] == Row(st=Row(y=Row(w=3)), id=3)
    assert load(spark, table, "id bigint").collect()[3] == Row(id=3)


def test_the_option_columns_is_the_projection(spark: SparkSession, table: str) -> None:
    frame = load(spark, table, columns="name, _rowid, st.y.z, _rowaddr")
    assert frame.columns == ["name", "_rowid", "st.y.z", "_rowaddr"]
    assert tuple(frame.collect()[2]) == ("n2", 2, "z", 2)


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ("nmae string", {}, "no column 'nmae'"),
        ("id string", {}, "column 'id': expected string, found int32"),
        ("st struct<y: struct<q: int>>", {}, r"'st.y': expected a struct of \['q'\]"),
        ("id int", {"columns": "name"}, "give only one of them"),
        (None, {"columns": "nmae"}, "no column 'nmae'"),
        (None, {"nope": "1"}, "unknown option 'nope'; known: path, version"),
        (None, {"version": "9"}, "has no version 9"),
        (None, {"filter": "id >"}, "cannot parse the filter"),
    ],
)
def test_what_cannot_be_read_is_told(
    spark: SparkSession, table: str, schema: str | None, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, table, schema, **options).collect()


def test_no_table_is_told(spark: SparkSession, uri: str) -> None:
    with pytest.raises(PySparkException, match=r"DatasetNotFoundError: there is no Lance table"):
        load(spark, uri)


def test_a_column_declared_not_null_must_be_so(spark: SparkSession, uri: str) -> None:
    write_table(uri, pa.table({"a": [1, 2], "b": [1, None]}))
    assert load(spark, uri, "a bigint NOT NULL").collect() == [Row(a=1), Row(a=2)]
    with pytest.raises(PySparkException, match="column 'b': 1 nulls"):
        load(spark, uri, "b bigint NOT NULL").collect()


def test_the_option_filter_is_more_than_spark_can_push(spark: SparkSession, table: str) -> None:
    frame = load(spark, table, filter="id = 0 OR name LIKE '%3'", columns="id")
    assert frame.collect() == [Row(id=0), Row(id=3)]


def test_a_frame_sees_the_version_of_its_load(spark: SparkSession, table: str) -> None:
    pinned = load(spark, table)
    floating = load(spark, table, "id int")
    view = "CREATE OR REPLACE TEMPORARY VIEW v USING pilum OPTIONS (path '{}', version '1')"
    spark.sql(view.format(table))
    write_table(table, some_rows(6), "append")
    assert pinned.count() == 4
    assert floating.count() == 10
    assert load(spark, table).count() == 10
    assert spark.sql("SELECT count(*) AS n FROM v").collect() == [Row(n=4)]


def test_time_travel_by_time(spark: SparkSession, table: str) -> None:
    between = datetime.datetime.now(datetime.UTC).isoformat()
    write_table(table, some_rows(1), "overwrite")
    assert load(spark, table, asOf=between).count() == 4
    with pytest.raises(PySparkException, match="no version as old"):
        load(spark, table, asOf="2020-01-01")


def test_a_large_file_is_read_in_parts_and_in_order(spark: SparkSession, uri: str) -> None:
    write_table(uri, pa.table({"id": range(20_000)}))
    write_table(uri, pa.table({"id": range(20_000, 30_000)}), "append")
    frame = load(spark, uri, partitionBytes=5000, batchSize=1000)
    assert frame.rdd.getNumPartitions() > 3
    assert [row.id for row in frame.collect()] == list(range(30_000))
    assert load(spark, uri).rdd.getNumPartitions() == 1


def test_a_table_without_rows_has_columns(spark: SparkSession, uri: str) -> None:
    write_table(uri, some_rows(0))
    assert load(spark, uri).collect() == []
    assert load(spark, uri).columns == ["id", "name", "st"]


@pytest.mark.usefixtures("pushdown")
@since(4, 1)
def test_filters_are_pushed_on_request_beside_the_option(spark: SparkSession, table: str) -> None:
    """Each time with a frame of its own, as such a frame answers one query."""
    pushed = load(spark, table, pushdown="true").where("id > 1")
    assert not filters_in_spark(pushed)
    assert [row.id for row in pushed.collect()] == [2, 3]
    both = load(spark, table, pushdown="true", filter="id = 1 OR id = 3", columns="id")
    assert both.where("id > 1").collect() == [Row(id=3)]


@since(4, 1)
def test_pushed_on_request_needs_the_setting_of_spark(spark: SparkSession, table: str) -> None:
    with pytest.raises(PySparkException, match=PUSHDOWN.replace(".", r"\.")):
        load(spark, table, pushdown="true").where("id > 1").collect()


def test_finer_times_are_refused_or_cut(spark: SparkSession, uri: str) -> None:
    write_table(uri, pa.table({"t": pa.array([1_001], pa.timestamp("ns"))}))
    with pytest.raises(PySparkException, match='set the option "nanoseconds" to "truncate"'):
        load(spark, uri).collect()
    (row,) = load(spark, uri, nanoseconds="truncate").collect()
    assert row.t == datetime.datetime(1970, 1, 1, 0, 0, 0, 1)


def test_deleted_rows_are_not_read(spark: SparkSession, uri: str) -> None:
    """S2.7: also where a file is read in parts."""
    dataset = pilum.write_dataset(pa.table({"id": range(100_000)}), uri)
    dataset.delete("id % 3 = 0")
    frame = load(spark, uri, partitionBytes=20_000)
    assert frame.rdd.getNumPartitions() > 1
    assert frame.count() == frame.filter("id % 3 > 0").count() == 66_666
    assert [row.id for row in frame.orderBy("id").limit(3).collect()] == [1, 2, 4]


def test_columns_that_came_went_and_changed(spark: SparkSession, tmp_path: Path) -> None:
    dataset = pilum.write_dataset(some_rows(10), tmp_path / "t", max_rows_per_file=4)
    dataset.delete("id = 5")
    dataset.drop_columns(["name", "st.y.w"])
    dataset.add_columns({"double": "id * 2"})
    dataset.add_columns(pa.field("nothing", pa.string()))
    dataset.alter_columns({"path": "id", "name": "key"})
    frame = load(spark, dataset.uri).orderBy("key")
    assert frame.columns == ["key", "st", "double", "nothing"]
    assert [row.asDict(recursive=True) for row in frame.collect()] == dataset.to_table().to_pylist()
    assert load(spark, dataset.uri).where("double > 9 and nothing is null").count() == 4
