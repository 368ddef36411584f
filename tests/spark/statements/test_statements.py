"""Statements about tables: their names, columns, versions and indices; and table functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import pilum
import pilum.spark
from pilum.errors import (
    BranchNotFoundError,
    ColumnNotFoundError,
    CorruptFileError,
    DatasetAlreadyExistsError,
    DatasetNotFoundError,
    IndexAlreadyExistsError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
    TagAlreadyExistsError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from pilum.spark.statements.parsing import parsed
from pilum.spark.statements.registry import STATEMENTS

TABLE = pa.table(
    {
        "id": range(6),
        "name": ["red apple", "green apple", "red car", "bee", "apple tree", "tree"],
        "vector": pa.array([[i, i] for i in range(6)], pa.list_(pa.float32(), 2)),
    }
)


@pytest.fixture
def table(uri: str) -> str:
    """Six rows in two fragments, whose rows keep their ids."""
    pilum.write_dataset(TABLE, uri, max_rows_per_file=3, enable_stable_row_ids=True)
    return uri


class Door:
    """The SQL of a session, with the table "t"."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self.spark, self.uri = spark, uri

    def __call__(self, text: str) -> DataFrame:
        return pilum.spark.sql(self.spark, text, tables={"t": self.uri})

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in self(text).collect()]

    def one(self, text: str) -> dict[str, Any]:
        (row,) = self(text).collect()
        return dict(row.asDict())


@pytest.fixture
def sql(spark: SparkSession, table: str) -> Door:
    return Door(spark, table)


@pytest.mark.reference
def test_columns_and_properties_are_altered(sql: Door, table: str) -> None:
    sql("ALTER TABLE t ADD COLUMNS (n INT COMMENT 'how many', `a b` STRUCT<x: DOUBLE>)")
    sql("ALTER TABLE t ADD COLUMN IF NOT EXISTS N BIGINT")
    sql("ALTER TABLE t RENAME COLUMN NAME TO title")
    sql("ALTER TABLE t DROP COLUMN IF EXISTS nope")
    sql("ALTER TABLE t DROP COLUMNS (`a b`)")
    sql("ALTER TABLE t ALTER COLUMN n TYPE BIGINT")
    sql("ALTER TABLE t ALTER COLUMN id TYPE STRING")
    sql("ALTER TABLE t ALTER COLUMN title SET NOT NULL")
    sql("ALTER TABLE t SET TBLPROPERTIES ('owner' = 'us', a.b = 3)")
    last = sql.one("ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('a.b', 'other')")
    found = lance.dataset(table)
    assert last == {"version": found.version}
    assert sorted(found.schema.names) == ["id", "n", "title", "vector"]
    kinds = [found.schema.field(name).type for name in ("id", "n", "title")]
    assert kinds == [pa.string(), pa.int64(), pa.string()]
    assert not found.schema.field("title").nullable
    assert sorted(found.to_table()["id"].to_pylist()) == [*"012345"]
    assert {"owner": "us"}.items() <= found.config().items()
    assert "a.b" not in found.config()
    columns = {name: (kind, comment) for name, kind, comment in sql.rows("DESCRIBE t")}
    assert columns["n"] == ("bigint", "how many")
    assert columns["vector"] == ("array<float>", None)
    assert ("owner", "us") in sql.rows("SHOW TBLPROPERTIES t")
    assert ("Location", table, None) in sql.rows("DESC EXTENDED t")


def test_the_history_is_shown_and_restored(sql: Door, table: str) -> None:
    data = pilum.dataset(table)
    data.tags.create("first", 1)
    data.create_branch("trial")
    assert sql.rows("TRUNCATE TABLE t") == [(6,)]
    assert sql.rows("SELECT count(*) FROM t") == [(0,)]
    assert sql.rows("RESTORE TABLE t TO VERSION AS OF 'first'") == [(3,)]
    assert sql.rows("SELECT count(*) FROM t") == [(6,)]
    history = sql("DESCRIBE HISTORY t LIMIT 2").drop("timestamp", "properties").collect()
    assert [tuple(row) for row in history] == [(3, "Restore"), (2, "Delete")]
    assert [row[0] for row in sql.rows("SHOW VERSIONS FROM t")] == [1, 2, 3]
    assert [row[:3] for row in sql.rows("SHOW TAGS t")] == [("first", 1, None)]
    assert [row[:3] for row in sql.rows("SHOW BRANCHES IN t")] == [("trial", None, 1)]
    detail = sql.one("DESCRIBE DETAIL t")
    assert detail["size_bytes"] > 0
    assert {name: detail[name] for name in ("version", "num_rows", "num_fragments")} == {
        "version": 3,
        "num_rows": 6,
        "num_fragments": 2,
    }
    planned = sql.one("VACUUM t RETAIN 0 HOURS DRY RUN")
    assert planned["old_versions"] == 1  # the first is tagged
    assert len(sql.rows("SHOW VERSIONS t")) == 3
    assert sql.one("VACUUM t RETAIN 0 HOURS")["old_versions"] == 1


def test_tags_and_branches_are_created_and_dropped(sql: Door, table: str) -> None:
    data = pilum.dataset(table)
    data.delete("id = 0")
    assert sql.rows("CREATE TAG first ON t VERSION AS OF 1") == [("first", 1)]
    assert sql.rows("CREATE TAG IF NOT EXISTS first ON TABLE t") == [("first", 1)]
    with pytest.raises(TagAlreadyExistsError, match="line 1, column 12: "):
        sql("CREATE TAG first ON t")
    assert sql.rows("CREATE BRANCH `a/b` ON t VERSION AS OF 'first'") == [("a/b", 1)]
    assert sql.rows("CREATE BRANCH IF NOT EXISTS `a/b` ON t") == [("a/b", 1)]
    assert pilum.dataset(table).checkout_version(("a/b", None)).count_rows() == 6
    assert sql.rows("CREATE OR REPLACE TAG first ON t") == [("first", 2)]
    assert sql.rows("SELECT count(*) FROM t VERSION AS OF 'first'") == [(5,)]
    assert sql.rows("DROP BRANCH `a/b` ON t") == [("a/b",)]
    assert sql.rows("DROP TAG first ON t") == [("first",)]
    assert sql.rows("DROP TAG IF EXISTS first ON t") == []
    assert sql.rows("DROP BRANCH IF EXISTS trial ON t") == []
    with pytest.raises(BranchNotFoundError, match="trial"):
        sql("DROP BRANCH trial ON t")
    assert not data.tags.list()
    assert not data.branches.list()


def test_indices_are_created_and_searched(sql: Door, table: str) -> None:
    assert sql.rows("CREATE INDEX by_id ON t (ID)") == [(2,)]
    assert sql.rows("CREATE INDEX IF NOT EXISTS by_id ON TABLE t (id) USING BTREE") == [(2,)]
    with pytest.raises(IndexAlreadyExistsError, match="by_id"):
        sql("CREATE INDEX by_id ON t (id)")
    sql("CREATE INDEX words ON t USING INVERTED (name) WITH (with_position = true)")
    sql("CREATE OR REPLACE INDEX near ON t (vector) USING IVF_FLAT OPTIONS (num_partitions 1)")
    shown = {row[0]: row[1:] for row in sql.rows("SHOW INDEXES ON t")}
    assert shown["by_id"] == ("BTree", ["id"], 1, 6)
    assert sorted(shown) == ["by_id", "near", "words"]
    found = sql.rows("""
        SELECT n.id, n._distance, other.name
        FROM nearest(t, vector, array(1.2, 1), 3, filter => 'id <> 2') AS n
        JOIN t AS other ON other.id = n.id WHERE other.id < 5 ORDER BY n._distance
    """)
    assert [row[0] for row in found] == [1, 0, 3]
    assert found[0][1:] == (pytest.approx(0.04), "green apple")
    texts = sql.rows("SELECT id FROM search(t, 'apple', 5, columns => array('name')) ORDER BY id")
    assert texts == [(0,), (1,), (4,)]
    assert len(sql.rows(f"SELECT * FROM search('{table}', 'red', 1)")) == 1
    last = sql.rows("DROP INDEX by_id ON t")
    assert sql.rows("DROP INDEX IF EXISTS by_id ON t") == last
    assert len(pilum.dataset(table).list_indices()) == 2


def test_changes_are_rows(sql: Door) -> None:
    sql("UPDATE t SET name = 'wasp' WHERE id = 3")
    sql("DELETE FROM t WHERE id = 0")
    rows = "SELECT id, name, _change_type, _commit_version FROM"
    assert sorted(sql.rows(f"{rows} changes(t, 2)")) == [
        (0, "red apple", "delete", 3),
        (3, "wasp", "update", 2),
    ]
    assert sql.rows(f"{rows} table_changes('t', 2, end => 2)") == [(3, "wasp", "update", 2)]
    with pytest.raises(PilumError, match="up to 3, found end=9"):
        sql("SELECT * FROM changes(t, 1, 9)")


@pytest.mark.reference
def test_names_of_the_session(spark: SparkSession, sql: Door, tmp_path: Path) -> None:
    place = tmp_path / "made.lance"
    made = sql.rows(f"""
        CREATE TABLE made (id BIGINT NOT NULL COMMENT 'the key', name STRING) USING pilum
        LOCATION '{place}' TBLPROPERTIES ('owner' = 'us')
    """)
    try:
        assert made == [(pilum.dataset(place).version, str(place))]
        assert sql.rows("DESCRIBE made")[0] == ("id", "bigint", "the key")
        assert not lance.dataset(str(place)).schema.field("id").nullable
        assert lance.dataset(str(place)).config()["owner"] == "us"
        sql("INSERT INTO Made BY NAME SELECT name, id FROM t WHERE id > 3")
        assert sql.rows("SELECT made.name FROM made ORDER BY id") == [("apple tree",), ("tree",)]
        assert ("", "made", True) in sql.rows("SHOW TABLES LIKE 'ma*|x'")
        sql("ALTER TABLE made RENAME TO other")
        assert sql.rows("WITH o AS (SELECT * FROM other) SELECT count(*) FROM o") == [(2,)]
        sql("CREATE TABLE plain USING parquet AS SELECT id FROM other")
        sql("INSERT INTO plain SELECT id + 10 FROM t WHERE id = 0")
        assert sorted(sql.rows("SELECT id FROM plain")) == [(4,), (5,), (10,)]
        with pytest.raises(DatasetAlreadyExistsError, match="other already exists"):
            sql("CREATE TABLE other (id INT)")
        assert sql.rows("DROP TABLE other") == [(str(place), False)]
        assert place.exists()
        pilum.spark.attach(spark, "made", place)
        sql("CREATE OR REPLACE TEMPORARY VIEW some AS SELECT id FROM made")
        assert sql.rows("SELECT count(*) FROM some") == [(2,)]
        assert "Scan" in sql.rows("EXPLAIN SELECT id FROM made")[0][0]
    finally:
        pilum.spark.detach(spark, "made")
        spark.sql("DROP TABLE IF EXISTS plain")
    with pytest.raises(DatasetNotFoundError, match="made"):
        pilum.spark.detach(spark, "made")


def test_names_of_a_file_and_of_a_namespace(spark: SparkSession, sql: Door, tmp_path: Path) -> None:
    from pilum.namespace import DirectoryNamespace

    names = tmp_path / "names.json"
    pilum.spark.attach(spark, "lake", pilum.spark.NameFile(names))
    pilum.spark.attach(spark, "shop", DirectoryNamespace(root=str(tmp_path / "shop")))
    (tmp_path / "shop").mkdir()
    try:
        pilum.spark.attach(spark, "lake.given", sql.uri)
        sql("CREATE TABLE lake.few AS SELECT id, vector FROM lake.given WHERE id < 2")
        sql("CREATE TABLE shop.few (id BIGINT, vector ARRAY<FLOAT>)")
        for place, folder in (("lake", tmp_path), ("shop", tmp_path / "shop")):
            sql(f"CREATE TABLE IF NOT EXISTS {place}.few (nope INT)")
            sql(f"CREATE TABLE {place}.same LIKE lake.given")
            assert pilum.dataset(folder / "same.lance").schema == TABLE.schema
            with pytest.raises(DatasetAlreadyExistsError, match="same already exists"):
                sql(f"CREATE TABLE {place}.same (id INT)")
            tables = sql.rows(f"SHOW TABLES IN {place} LIKE 'few|same'")
            assert tables == [(place, "few", False), (place, "same", False)]
            with pytest.raises(DatasetNotFoundError, match="there is no table 'nope'"):
                sql(f"SELECT * FROM {place}.nope")
            with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
                sql(f"CREATE TABLE {place}.bad AS SELECT nope FROM t")
            assert len(sql.rows(f"SHOW TABLES IN {place} LIKE 'bad'")) == 0
        sql("""
            MERGE INTO shop.few f USING lake.few s ON f.id = s.id
            WHEN NOT MATCHED THEN INSERT (id, vector) VALUES (s.id, s.vector)
        """)
        assert sql.rows("SELECT count(*), max(few.id) FROM shop.few") == [(2, 1)]
        for place in ("lake", "shop"):
            assert sql.rows(f"DROP TABLE {place}.few")[0][1]
            assert sql.rows(f"DROP TABLE IF EXISTS {place}.few") == []
        assert sql.rows("DROP TABLE lake.given") == [(sql.uri, False)]
        assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == [
            "same.lance",
            "shop",
            "table",
        ]
        names.write_text('{"tables": {"a": {}}}')
        with pytest.raises(CorruptFileError, match=r"names\.json: not a file of names"):
            sql("SELECT * FROM lake.a")
    finally:
        pilum.spark.detach(spark, "lake")
        pilum.spark.detach(spark, "shop")


@pytest.mark.parametrize(
    ("name", "target", "message"),
    [
        ("lance", "/t", "is no name"),
        ("a b", "/t", "is no name"),
        ("nope.t", "/t", "'nope' is no attached collection"),
        ("t", 3, "expected a location, a NameFile or a namespace"),
    ],
)
def test_names_that_cannot_be_attached(
    spark: SparkSession, name: str, target: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        pilum.spark.attach(spark, name, target)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("CREATE TAG x ON t VERSION AS OF 9", VersionNotFoundError, "line 1, column 17"),
        ("CREATE OR REPLACE TAG IF NOT EXISTS x ON t", InvalidInputError, "exclude each other"),
        ("DROP TAG x FROM t", InvalidInputError, "expected ON, found 'FROM'"),
        ("OPTIMIZE t WHERE nope = 1", ColumnNotFoundError, "nope"),
        ("OPTIMIZE t ZORDER BY (id + 1)", InvalidInputError, "line 1"),
        ("OPTIMIZE t ZORDER BY (nope)", ColumnNotFoundError, "column 23: no column 'nope'"),
        ("VACUUM t RETAIN two HOURS", InvalidInputError, "expected a whole number, found 'two'"),
        ("RESTORE t TO 3", InvalidInputError, "expected VERSION AS OF or TIMESTAMP AS OF"),
        ("CREATE INDEX ON t (id)", InvalidInputError, "line 1, column 17: expected ON"),
        ("CREATE TABLE x AS SELECT 1 FROM t USING lance", InvalidInputError, "line 1"),
        ("CREATE TABLE x USING lance AS SELECT 1 AS a", InvalidInputError, "pass its LOCATION"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", UnsupportedFeatureError, "PARTITIONED BY"),
        ("DROP TABLE t PURGE", UnsupportedFeatureError, "no PURGE"),
        ("CREATE OR REPLACE TABLE t (a CHAR(5))", UnsupportedFeatureError, r"CHAR\(5\).*STRING"),
        ("ALTER TABLE t ADD COLUMN s STRUCT<v: VARCHAR(2)>", UnsupportedFeatureError, "VARCHAR"),
        ("ALTER TABLE t ALTER COLUMN name TYPE VARCHAR(2)", UnsupportedFeatureError, "length"),
        ("ALTER TABLE t DROP COLUMN nope", ColumnNotFoundError, "line 1, column 27"),
        ("ALTER TABLE t ADD COLUMN n INT NOT NULL", UnsupportedFeatureError, "NOT NULL"),
        ("ALTER TABLE t ADD COLUMN n INT FIRST", UnsupportedFeatureError, "the last ones"),
        ("ALTER TABLE t UNSET TBLPROPERTIES ('x')", InvalidInputError, "no properties"),
        ("ALTER TABLE t RENAME TO u", UnsupportedFeatureError, "a name changes within"),
        ("ALTER TABLE t ALTER COLUMN name TYPE INT", PilumError, "column 28: .* int32"),
        ("INSERT INTO t REPLACE WHERE id = 1 SELECT * FROM t", InvalidInputError, "5 of 6 rows"),
        ("SELECT * FROM nearest(t, vector)", InvalidInputError, "nearest needs vector"),
        ("SELECT * FROM nearest(t, vector, array(id))", UnsupportedFeatureError, "a literal"),
        ("SELECT * FROM search(t, 'a', 1, 2)", InvalidInputError, "up to 2 arguments"),
        ("CREATE VIEW v AS SELECT * FROM t", UnsupportedFeatureError, "TEMPORARY VIEW"),
        ("SELECT 1 FROM t; SELECT 2", InvalidInputError, "one statement, found 2"),
    ],
)
def test_what_is_refused_shows_the_statement(
    sql: Door, table: str, text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        sql(text)
    assert f"\n\n    {text}" in str(caught.value)
    assert pilum.dataset(table).version == 1


def test_an_error_marks_its_place(sql: Door) -> None:
    with pytest.raises(ColumnNotFoundError) as caught:
        sql("UPDATE t\nSET nope = 1\nWHERE id = 2")
    assert str(caught.value).endswith(
        "\n\n    UPDATE t\n    SET nope = 1\n        ^\n    WHERE id = 2"
    )


def test_nulls_in_a_column_that_must_not_be_null(sql: Door) -> None:
    sql("ALTER TABLE t ADD COLUMN n INT")
    with pytest.raises(SchemaMismatchError, match=r"line 1, column \d+: .*n"):
        sql("ALTER TABLE t ALTER COLUMN n SET NOT NULL")


@pytest.mark.parametrize(
    "text", ["SHOW FUNCTIONS LIKE 't'", "SHOW COLUMNS IN t", "SHOW CREATE TABLE t", "SET t = 3"]
)
def test_statements_of_spark_are_left_to_it(text: str) -> None:
    found = parsed(text, {"t": "/t"})
    assert found is None or not any(rule.is_for(found.tree) for rule in STATEMENTS)
