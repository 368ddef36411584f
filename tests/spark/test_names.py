"""Names of columns mean those of the table in any case, unless the session says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as st
from spark.helpers import drain, since

import pilum
import pilum.spark
from pilum.errors import ColumnNotFoundError, InvalidInputError, SchemaMismatchError
from pilum.spark.names import find_name, stored_fields, stored_paths

TABLE = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "St": [{"x": 5, "List": [{"m": 7}]}, {"x": 6, "List": []}],
        "v": ["a", "b"],
    }
)
FRAME = """SELECT {id}L AS ID, named_struct('X', 9L, 'list', array(named_struct('M', 8L))) AS st,
           '{v}' AS V"""
ADDED = {"St": {"x": 9, "List": [{"m": 8}]}}


@pytest.fixture
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.caseSensitive", "true")
    yield
    spark.conf.unset("spark.sql.caseSensitive")


@pytest.fixture
def table(uri: str) -> str:
    pilum.write_dataset(TABLE, uri)
    return uri


def ddl(text: str) -> st.StructType:
    kind = st.DataType.fromDDL(text)
    assert isinstance(kind, st.StructType)
    return kind


def rows(uri: str) -> list[dict[str, Any]]:
    table = pilum.dataset(uri).to_table()
    assert table.schema.names == TABLE.schema.names
    assert table.schema.types == TABLE.schema.types
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def other_case(spark: SparkSession, id: int = 3, v: str = "c") -> DataFrame:
    return spark.sql(FRAME.format(id=id, v=v))


def test_a_name_is_what_is_written_or_the_only_one_like_it() -> None:
    assert [find_name(name, ["a", "A", "b"]) for name in ("a", "A", "B", "c")] == [
        *("a", "A", "b"),
        None,
    ]
    assert find_name("B", ["a", "b"], case_sensitive=True) is None
    with pytest.raises(InvalidInputError, match="column 'Ab' is ambiguous: ab, AB"):
        find_name("Ab", ["ab", "AB"])
    paths = ("ID", "ST.LIST", "st.x", "_rowid", "nope.x", "id.x")
    assert stored_paths(paths, TABLE.schema, case_sensitive=False) == (
        *("id", "St.List", "St.x", "_rowid", "nope.x", "id.x"),
    )
    assert stored_paths(paths, TABLE.schema, case_sensitive=True) == paths
    with pytest.raises(InvalidInputError, match="come twice"):
        stored_paths(["v", "V"], TABLE.schema, case_sensitive=False)


def test_names_of_members_are_resolved_at_any_depth(spark: SparkSession) -> None:
    given = ddl("M map<string, array<struct<X: int, y: int>>>, other int")
    table = ddl("m map<string, array<struct<x: int, Z: int>>>")
    found = stored_fields(given, table, case_sensitive=False)
    assert found.simpleString() == "struct<m:map<string,array<struct<x:int,y:int>>>,other:int>"
    assert stored_fields(given, table, case_sensitive=True) == given
    twice = ddl("m struct<x: int, X: int>")
    with pytest.raises(InvalidInputError, match="come twice"):
        stored_fields(twice, ddl("m struct<x: int>"), case_sensitive=False)


@since(4, 1)
def test_rows_are_appended_by_names_of_any_case(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    other_case(spark).write.format("pilum").mode("append").save(table)
    pilum.spark.write(other_case(spark, 4), table, mode="append", schema_mode="merge")
    incoming = str(tmp_path / "incoming")
    other_case(spark, 5).write.json(incoming)
    stream = spark.readStream.schema(other_case(spark).schema).json(incoming)
    drain(stream, table, tmp_path / "checkpoint")
    added = [{"id": id, **ADDED, "v": "c"} for id in (3, 4, 5)]
    assert rows(table) == [*TABLE.to_pylist(), *added]
    twice = spark.sql("SELECT 1L AS one, 2L AS two").toDF("id", "ID")
    with pytest.raises(InvalidInputError, match="come twice"):
        pilum.spark.write(twice, table, mode="append")
    assert pilum.spark.write(
        spark.sql("SELECT 7L AS Id, 1 AS more"), table, mode="append", schema_mode="merge"
    )
    assert pilum.dataset(table).schema.names == ["id", "St", "v", "more"]


def test_columns_are_read_by_names_of_any_case(spark: SparkSession, table: str) -> None:
    asked = ["V", "ID", "sT.x", "_rowid"]
    expected = [("a", 1, 5, 0), ("b", 2, 6, 1)]
    frames = [
        pilum.spark.read(spark, table, columns=asked),
        spark.read.format("pilum").option("columns", ",".join(asked)).load(table),
    ]
    for frame in frames:
        assert frame.columns == asked
        assert [tuple(row) for row in frame.collect()] == expected
        assert [tuple(row) for row in frame.where("id > 1").collect()] == expected[1:]
    schema = "ST struct<list: array<struct<M: bigint>>, X: bigint>, Id bigint"
    frame = spark.read.format("pilum").schema(schema).load(table)
    assert frame.collect() == [
        Row(ST=Row(list=[Row(M=7)], X=5), Id=1),
        Row(ST=Row(list=[], X=6), Id=2),
    ]
    with pytest.raises(PySparkException, match="column 'ID': expected string, found int64"):
        spark.read.format("pilum").schema("ID string").load(table).collect()


@pytest.mark.parametrize("on", ["id", "ID"])
@pytest.mark.parametrize("local_rows", [0, 100])
def test_merges_match_keys_of_any_case(
    spark: SparkSession, table: str, on: str, local_rows: int
) -> None:
    changes = other_case(spark, 2, "new").union(other_case(spark, 3, "more"))
    merge = pilum.spark.merge_into(spark, table, changes, on, local_rows=local_rows)
    done = merge.when_matched_update_all().when_not_matched_insert_all().execute()
    assert (done["num_updated_rows"], done["num_inserted_rows"]) == (1, 1)
    assert rows(table) == [
        TABLE.to_pylist()[0],
        {"id": 2, **ADDED, "v": "new"},
        {"id": 3, **ADDED, "v": "more"},
    ]


def test_conditions_of_a_merge_name_the_columns_of_its_source(
    spark: SparkSession, table: str
) -> None:
    changes = spark.sql("SELECT 2L AS ID, 'new' AS V, true AS Go")
    merge = pilum.spark.merge_into(spark, table, changes, "id")
    merge.when_matched_update({"v": "source.V"}, "source.Go").execute()
    assert [row["v"] for row in rows(table)] == ["a", "new"]


def test_upserts_know_names_of_any_case(spark: SparkSession, table: str) -> None:
    take = pilum.spark.upsert(table, on="ID", newest_by="V", app_id="changes")
    take(other_case(spark, 2, "z").union(other_case(spark, 1, "A")), 0)
    assert [row["v"] for row in rows(table)] == ["a", "z"]  # 'A' is older than 'a'


def test_a_session_may_tell_cases_apart(
    spark: SparkSession, table: str, case_sensitive: None
) -> None:
    with pytest.raises(SchemaMismatchError, match="no column 'ID'"):
        pilum.spark.write(other_case(spark), table, mode="append")
    with pytest.raises(ColumnNotFoundError, match="no column 'ID'"):
        pilum.spark.read(spark, table, columns=["ID"])
    with pytest.raises(ColumnNotFoundError, match=r"no columns \['ID'\]"):
        pilum.spark.merge_into(spark, table, other_case(spark), "ID")
    with pytest.raises(PySparkException, match="no column 'ID'"):
        other_case(spark).write.format("pilum").mode("append").save(table, caseSensitive="true")
    reader = spark.read.format("pilum").schema("ID bigint").option("caseSensitive", "true")
    with pytest.raises(PySparkException, match="no column 'ID'"):
        reader.load(table).collect()
    both = spark.sql("SELECT 7L AS id, 8L AS ID")
    pilum.spark.write(both, table, mode="append", schema_mode="merge")
    pilum.spark.write(spark.sql("SELECT 9L AS ID"), table, mode="append")
    found = pilum.dataset(table).to_table(columns=["id", "ID"]).to_pylist()
    assert found[2:] == [{"id": 7, "ID": 8}, {"id": None, "ID": 9}]
    read = pilum.spark.read(spark, table, columns=["ID", "id"]).collect()
    assert [tuple(row) for row in read][2:] == [(8, 7), (9, None)]
