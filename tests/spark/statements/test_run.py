"""Statements carried out: queries with pruned tables, changes, and what is refused."""

from __future__ import annotations

from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from spark.helpers import files, version

import pilum
import pilum.spark
from pilum.errors import (
    ColumnNotFoundError,
    DatasetAlreadyExistsError,
    FilterError,
    InvalidInputError,
    UnsupportedFeatureError,
)

TABLE = pa.table(
    {
        "id": range(6),
        "name": [*"abcdef"],
        "vector": pa.array([[i, i] for i in range(6)], pa.list_(pa.float32(), 2)),
    }
)

INSERT = "WHEN NOT MATCHED THEN INSERT *"
UPDATE = "WHEN MATCHED AND f.id > 1 THEN UPDATE SET *"


@pytest.fixture
def table(uri: str) -> str:
    """Six rows in two fragments, and a tag on them."""
    pilum.write_dataset(TABLE, uri, max_rows_per_file=3).tags.create("first", 1)
    return uri


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def rows(uri: str, *columns: str) -> list[tuple[Any, ...]]:
    """What pylance reads."""
    table = lance.dataset(uri).to_table(columns=list(columns or ("id", "name")))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_queries_read_tables_beside_views_of_spark(spark: SparkSession, table: str) -> None:
    spark.range(2, 5).createOrReplaceTempView("wanted")
    text = f"""
        WITH some AS (SELECT id, name FROM t WHERE id > 1 AND length(name) = 1)
        SELECT some.name, p.id AS other, '{{x}}' AS brace
        FROM some JOIN wanted USING (id) JOIN lance.`{table}` p ON p.id = some.id
        WHERE p.id < 4 OR p.name = 'zzz'
    """
    found = pilum.spark.sql(spark, text, tables={"t": table})
    assert values(found) == [("c", 2, "{x}"), ("d", 3, "{x}")]
    plan = found._jdf.queryExecution().analyzed().toString()
    assert "vector" not in plan
    assert values(pilum.spark.sql(spark, "SELECT 1 + 1")) == [(2,)]
    count = pilum.spark.sql(spark, f"SELECT count(*) FROM pilum.`{table}`")
    assert values(count) == [(6,)]


def test_queries_travel_in_time(spark: SparkSession, table: str) -> None:
    pilum.dataset(table).delete("id > 1")
    later = "2100-01-01 00:00:00"
    for suffix, expected in {
        "": 2,
        " VERSION AS OF 1": 6,
        " VERSION AS OF 'first' AS t": 6,
        f" TIMESTAMP AS OF '{later}'": 2,
    }.items():
        found = pilum.spark.sql(spark, f"SELECT count(*) FROM lance.`{table}`{suffix}")
        assert values(found) == [(expected,)], suffix
    with pytest.raises(InvalidInputError, match="TIMESTAMP AS OF takes a time"):
        pilum.spark.sql(spark, "SELECT * FROM t TIMESTAMP AS OF 'now'", tables={"t": table})


def test_a_tag_on_a_branch_reads_the_branch(spark: SparkSession, table: str) -> None:
    """Also where the main line has a version of the same number, with other rows."""
    main = pilum.dataset(table)
    branch = main.create_branch("trial")
    branch.delete("id > 0")
    main.tags.create("tried", ("trial", branch.version))
    main.delete("id > 3")
    assert main.version == branch.version
    found = pilum.spark.sql(spark, f"SELECT id FROM lance.`{table}` VERSION AS OF 'tried'")
    assert values(found) == [(0,)]


@pytest.mark.reference
def test_rows_are_updated_and_deleted(spark: SparkSession, table: str) -> None:
    done = pilum.spark.sql(
        spark, f"UPDATE lance.`{table}` AS t SET name = concat(t.name, '\\'s') WHERE t.ID >= 4"
    )
    assert values(done) == [(2,)]
    done = pilum.spark.sql(spark, "DELETE FROM t WHERE id BETWEEN 1 AND 3", tables={"t": table})
    assert done.columns == ["num_deleted_rows"]
    assert rows(table) == [(0, "a"), (4, "e's"), (5, "f's")]


@pytest.mark.reference
def test_a_feed_of_changes_is_merged(spark: SparkSession, table: str) -> None:
    feed = [("D", 1, None), ("U", 2, "C"), ("I", 7, "g"), ("D", 8, None)]
    spark.createDataFrame(feed, "op string, key bigint, name string").createOrReplaceTempView(
        "feed"
    )
    done = pilum.spark.sql(
        spark,
        f"""
        MERGE INTO lance.`{table}` t
        USING (SELECT op, key AS id, name FROM feed) AS f ON t.id = f.id
        WHEN MATCHED AND f.op = 'D' THEN DELETE
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND f.op <> 'D' THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id = 5 THEN DELETE
        """,
    )
    assert values(done) == [(1, 1, 2)]
    assert rows(table) == [(0, "a"), (2, "C"), (3, "d"), (4, "e"), (7, "g")]


@pytest.mark.reference
def test_a_merge_computes_what_it_sets_and_inserts(spark: SparkSession, table: str) -> None:
    feed = [(1, "x"), (2, "y"), (9, "z")]
    spark.createDataFrame(feed, "key bigint, name string").createOrReplaceTempView("feed")
    pilum.spark.sql(
        spark,
        """
        MERGE INTO t USING feed f ON f.key = t.id
        WHEN MATCHED AND f.name = 'x' THEN UPDATE SET name = concat(t.name, f.name)
        WHEN MATCHED THEN DELETE
        WHEN NOT MATCHED THEN INSERT (id, name, vector)
            VALUES (f.key, upper(f.name), array(1.0, 2))
        """,
        tables={"t": table},
    )
    assert rows(table) == [(0, "a"), (1, "bx"), (3, "d"), (4, "e"), (5, "f"), (9, "Z")]
    made = lance.dataset(table).to_table(columns=["vector"], filter="id = 9")
    assert made["vector"].to_pylist() == [[1, 2]]  # decimals, in the type of the column


@pytest.mark.reference
def test_a_merge_leaves_columns_that_spark_has_no_type_for(spark: SparkSession, uri: str) -> None:
    notes = pa.array(['{"a":1}', "[2]"], pa.json_())
    pilum.write_dataset(pa.table({"id": [1, 2], "note": notes, "half": [0.5, 1.0]}), uri)
    pilum.spark.sql(
        spark,
        """
        MERGE INTO t USING range(2, 4) r ON t.id = r.id
        WHEN MATCHED THEN UPDATE SET half = 7
        WHEN NOT MATCHED THEN INSERT (id, half) VALUES (r.id, 1.5)
        """,
        tables={"t": uri},
    )
    assert rows(uri, "id", "half") == [(1, 0.5), (2, 7.0), (3, 1.5)]
    assert sorted(pilum.dataset(uri).to_table()["note"].to_pylist(), key=str) == [
        None,
        "[2]",
        '{"a":1}',
    ]


@pytest.mark.reference
@pytest.mark.parametrize("insert", ["*", "(id, name) VALUES (f.id, f.name)"])
def test_the_first_clause_that_holds_counts(spark: SparkSession, table: str, insert: str) -> None:
    feed = [(0, "x", 1), (1, "y", 2), (2, "z", 3), (3, None, 4), (4, "w", None), (9, "n", 1)]
    spark.createDataFrame(feed, "id bigint, name string, n int").createOrReplaceTempView("feed")
    done = pilum.spark.sql(
        spark,
        f"""
        MERGE INTO t USING feed f ON f.id = t.id
        WHEN MATCHED AND f.name = 'x' THEN DELETE
        WHEN MATCHED AND f.n <= 3 THEN UPDATE SET *
        WHEN MATCHED AND f.n > 2 THEN DELETE
        WHEN NOT MATCHED THEN INSERT {insert}
        WHEN NOT MATCHED BY SOURCE AND t.name = 'f' THEN DELETE
        WHEN NOT MATCHED BY SOURCE AND t.id = 6 THEN DELETE
        """,
        tables={"t": table},
    )
    assert values(done) == [(1, 2, 3)]
    assert rows(table) == [(1, "y"), (2, "z"), (4, "e"), (9, "n")]


@pytest.mark.reference
def test_tables_are_created_and_filled(spark: SparkSession, table: str, tmp_path: Any) -> None:
    other, empty = str(tmp_path / "other"), str(tmp_path / "empty")
    create = f"CREATE TABLE lance.`{other}` USING lance AS SELECT id, name FROM t WHERE id < 2"
    pilum.spark.sql(spark, create, tables={"t": table})
    assert rows(other) == [(0, "a"), (1, "b")]
    with pytest.raises(DatasetAlreadyExistsError):
        pilum.spark.sql(spark, create, tables={"t": table})
    if_not = create.replace("TABLE", "TABLE IF NOT EXISTS", 1)
    assert values(pilum.spark.sql(spark, if_not, tables={"t": table})) == [(1, other)]
    pilum.spark.sql(spark, f"INSERT INTO lance.`{other}` (name, id) VALUES ('q', 7), ('r', 8)")
    pilum.spark.sql(spark, f"INSERT INTO lance.`{other}` SELECT id, name FROM lance.`{table}`")
    assert len(rows(other)) == 10
    pilum.spark.sql(spark, f"INSERT OVERWRITE lance.`{other}` VALUES (1, 'only')")
    assert rows(other) == [(1, "only")]
    pilum.spark.sql(spark, f"CREATE TABLE pilum.`{empty}` (id BIGINT, name STRING) USING pilum")
    assert pilum.dataset(empty).schema.names == ["id", "name"]
    assert rows(empty) == []


@pytest.mark.reference
def test_rows_of_a_condition_are_replaced(spark: SparkSession, uri: str) -> None:
    """What pylance reads afterwards, and the new rows of one commit."""
    shops = pa.table({"id": range(6), "shop": [0, 1, 2] * 2, "name": [*"abcdef"]})
    pilum.write_dataset(shops, uri, max_rows_per_file=3, enable_stable_row_ids=True)

    def sql(text: str) -> list[tuple[Any, ...]]:
        return values(pilum.spark.sql(spark, text, tables={"t": uri}))

    assert sql("INSERT INTO t PARTITION (shop = '2') SELECT 6, 'g'") == [(2,)]
    assert sql("INSERT OVERWRITE t PARTITION (SHOP = 1) (name, id) VALUES ('h', 7)") == [(2, 1)]
    replace = (
        "INSERT INTO t REPLACE WHERE shop = 0 OR name = 'c' SELECT id, 0, 'n' FROM range(8, 10)"
    )
    assert sql(replace) == [(3, 2)]
    assert sql("INSERT INTO t PARTITION (shop = NULL) (id) VALUES (10)") == [(5,)]
    assert sql("INSERT OVERWRITE t PARTITION (shop = NULL) (id) VALUES (11)") == [(1, 1)]
    expected = [(5, 2, "f"), (6, 2, "g"), (7, 1, "h"), (8, 0, "n"), (9, 0, "n"), (11, None, None)]
    assert rows(uri, "id", "shop", "name") == expected
    assert sql("INSERT INTO t REPLACE WHERE id > 8 SELECT 1L, 1L, 'x' WHERE false") == [(2, 0)]
    assert rows(uri, "id") == [(5,), (6,), (7,), (8,)]
    assert pilum.dataset(uri).verify(deep=True).is_valid


def test_new_rows_outside_of_the_condition_are_refused(spark: SparkSession, table: str) -> None:
    before = files(table)
    given = spark.range(5, 10).selectExpr("id", "'n' AS name")
    with pytest.raises(InvalidInputError, match="of the rows that they replace"):
        pilum.spark.replace_where(given, table, "id > 6")
    assert (version(table), files(table)) == (1, before)


def test_one_fragment_is_optimized(spark: SparkSession, uri: str) -> None:
    """Fragments without such rows stay, also between two that have some."""
    pilum.write_dataset(pa.table({"id": [*range(10)]}), uri, max_rows_per_file=2)
    condition = "id IN (0, 2, 7, 8)"
    done = pilum.spark.sql(spark, f"OPTIMIZE lance.`{uri}` WHERE {condition}")
    assert values(done) == [(4, 2)]
    stayed, *_ = (one.to_table()["id"].to_pylist() for one in pilum.dataset(uri).get_fragments())
    assert stayed == [4, 5]
    pilum.dataset(uri).update({"id": "10 - id"})  # one fragment again
    pilum.write_dataset(pa.table({"id": [20, 30]}), uri, mode="append")
    statement = f"OPTIMIZE lance.`{uri}` WHERE id < 20 ZORDER BY (id)"
    assert values(pilum.spark.sql(spark, statement)) == [(1, 1)]
    parts = [one.to_table()["id"].to_pylist() for one in pilum.dataset(uri).get_fragments()]
    assert sorted(parts) == [[*range(1, 11)], [20, 30]]


def test_upkeep(spark: SparkSession, table: str) -> None:
    done = pilum.spark.sql(spark, f"OPTIMIZE lance.`{table}`")
    assert (done.columns, values(done)) == (["fragments_removed", "fragments_added"], [(2, 1)])
    pilum.dataset(table).update({"id": "10 - id"})
    pilum.spark.sql(spark, f"OPTIMIZE lance.`{table}` ZORDER BY (`ID`)")
    assert "".join(pilum.dataset(table).to_table()["name"].to_pylist()) == "fedcba"
    pilum.dataset(table).tags.delete("first")
    pilum.spark.sql(spark, "VACUUM t RETAIN 0 HOURS", tables={"t": table})
    assert len(pilum.dataset(table).versions()) == 1
    with pytest.raises(InvalidInputError, match="RETAIN"):
        pilum.spark.sql(spark, "VACUUM t KEEP 3", tables={"t": table})


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CACHE TABLE t", UnsupportedFeatureError, "CACHE is no statement"),
        ("UPDATE t SET name = (SELECT 'x')", InvalidInputError, "no subqueries"),
        ("UPDATE t SET nope = 1", ColumnNotFoundError, "nope"),
        ("DELETE FROM t WHERE id = ", InvalidInputError, "line 1, column"),
        ("DELETE FROM t WHERE soundex(name) = 'a'", FilterError, "(?i)soundex"),
        ("DELETE FROM t VERSION AS OF 1", InvalidInputError, "latest version"),
        ("INSERT INTO t VALUES (1)", InvalidInputError, "1 values for the columns"),
        ("INSERT INTO t (id, nope) VALUES (1, 2)", ColumnNotFoundError, "line 1, column 20"),
        ("INSERT INTO t PARTITION (id) SELECT 1", UnsupportedFeatureError, "has no partitions"),
        ("INSERT INTO t PARTITION (id = name) SELECT 1", InvalidInputError, "is a constant"),
        ("INSERT INTO t PARTITION (id = 1) (id) SELECT 1", InvalidInputError, "already sets id"),
        ("INSERT INTO t PARTITION (id = 1, ID = 2) SELECT 1", InvalidInputError, "twice"),
        ("INSERT OVERWRITE t PARTITION (id = 'x') (name) VALUES (1)", FilterError, "column 31"),
        ("INSERT INTO t REPLACE WHERE nope = 1 SELECT 1", ColumnNotFoundError, "column 29"),
        ("INSERT INTO t REPLACE WHERE _rowid = 1 SELECT 1, 'a', NULL", InvalidInputError, "_rowid"),
        ("OPTIMIZE t WHERE nope = 1", ColumnNotFoundError, "line 1, column 18"),
        (
            "MERGE INTO t USING t AS f ON t.id > f.id WHEN MATCHED THEN DELETE",
            UnsupportedFeatureError,
            "ON takes equal columns",
        ),
        (
            "MERGE INTO t USING t AS f ON t.id = f.id WHEN MATCHED THEN UPDATE SET name = q.x",
            ColumnNotFoundError,
            "line 1, column 78",
        ),
        (
            "MERGE INTO t USING t f ON t.id=f.id WHEN MATCHED THEN DELETE WHEN MATCHED THEN DELETE",
            InvalidInputError,
            "the clause before takes all rows",
        ),
        (
            f"MERGE INTO t USING t f ON t.id = f.id {INSERT} {INSERT}",
            UnsupportedFeatureError,
            "INSERT comes twice",
        ),
        (
            f"MERGE INTO t USING t f ON t.id = f.id {UPDATE} {UPDATE}",
            UnsupportedFeatureError,
            "UPDATE comes twice",
        ),
    ],
)
def test_what_is_wrong_is_said_and_changes_nothing(
    spark: SparkSession, table: str, text: str, error: type[Exception], message: str
) -> None:
    before = files(table)
    with pytest.raises(error, match=message):
        pilum.spark.sql(spark, text, tables={"t": table})
    assert (version(table), files(table)) == (1, before)
