"""What queries name and need, told from their text alone: no session."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from pilum.errors import InvalidInputError
from pilum.expressions import bind
from pilum.spark.statements.parsing import parsed
from pilum.spark.statements.pushdown import Needs, needs_of
from pilum.spark.statements.references import Statement

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("Name", pa.string()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("day", pa.date32()),
        ("flag", pa.bool_()),
        ("s", pa.struct([("a", pa.int32())])),
        ("when", pa.timestamp("us", "UTC")),
    ]
)
TABLES = {"people": "/p", "other": "/o"}


def statement(text: str) -> Statement:
    found = parsed(text, TABLES)
    assert found is not None
    return found


def needs(text: str, number: int = 0) -> Needs:
    found = statement(text)
    return needs_of(found.references[number], found.tree, SCHEMA)


def condition(where: str, of: str = "people") -> str | None:
    found = needs(f"SELECT id FROM {of} WHERE {where}").filter
    if found is not None:
        bind(found, SCHEMA)
    return found


def test_tables_are_found_by_path_and_by_name_with_their_versions() -> None:
    text = (
        "SELECT * FROM lance.`/a b` VERSION AS OF 3 AS t JOIN Pilum.`/c` TIMESTAMP AS OF "
        "'2026-01-01' USING (id) JOIN people VERSION AS OF 'tag' p JOIN plain USING (id)"
    )
    found = statement(text).references
    assert [(one.uri, one.version, one.as_of, one.alias) for one in found] == [
        ("/a b", 3, None, "t"),
        ("/c", None, datetime(2026, 1, 1, tzinfo=UTC), ""),
        ("/p", "tag", None, "p"),
    ]
    places = {
        (one.start, one.stop): f"{{t{number}}}{one.added_alias}" for number, one in enumerate(found)
    }
    assert statement(text).rewritten(places) == (
        "SELECT * FROM {t0} AS t JOIN {t1} USING (id) JOIN {t2} p JOIN plain USING (id)"
    )


def test_braces_and_names_stay_what_they_are() -> None:
    found = statement("SELECT '{x}', people.id FROM people")
    (one,) = found.references
    assert found.rewritten({(one.start, one.stop): f"{{t}}{one.added_alias}"}) == (
        "SELECT '{{x}}', people.id FROM {t} AS `people`"
    )


@pytest.mark.parametrize("text", ["SELECT * FROM t", "SHOW TABLES", "SELEC 1", "SELECT lance.x"])
def test_what_names_no_table_is_not_looked_at(text: str) -> None:
    found = parsed(text, {})
    assert found is None or not found.references


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT *\nFROM lance.`/a` WHERE (", r"line 2, column \d+: "),
        ("SELECT * FROM people VERSION AS OF x", "line 1, column 15: VERSION AS OF takes"),
        ("SELECT * FROM people TIMESTAMP AS OF 3", "TIMESTAMP AS OF takes a 'time'"),
        ("WITH people AS (SELECT 1) SELECT * FROM people", "the name of a WITH"),
    ],
)
def test_errors_say_where(text: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        _ = statement(text).references


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT ID, upper(name) FROM people", ("id", "Name")),
        ("SELECT count(*) FROM people", ()),
        ("SELECT count(*) FROM people p WHERE p.x > 1 GROUP BY p.`day`", ("x", "day")),
        ("SELECT * FROM (SELECT id FROM people)", ("id",)),
        (
            "WITH c AS (SELECT id FROM people) SELECT c.* FROM c JOIN t ON c.id = t.Name",
            ("id", "Name"),
        ),
        ("SELECT s.a FROM people", ("s",)),
        ("SELECT _rowid, id FROM people", ("id", "_rowid")),
        ("SELECT * FROM people", tuple(SCHEMA.names)),
        ("SELECT p.* FROM people p JOIN other o ON p.id = o.id", tuple(SCHEMA.names)),
        ("SELECT to_json(struct(*)) FROM people", tuple(SCHEMA.names)),
        ("SELECT t.q FROM people NATURAL JOIN t", tuple(SCHEMA.names)),
    ],
)
def test_columns_are_those_that_are_named(text: str, columns: tuple[str, ...]) -> None:
    assert needs(text).columns == columns


def test_a_star_of_one_table_is_not_that_of_the_other() -> None:
    assert needs("SELECT p.* FROM people p JOIN other o ON p.id = o.id", 1).columns == ("id",)


@pytest.mark.parametrize(
    ("where", "filter"),
    [
        ("id > 3", "(`id` > 3)"),
        ("3 <= id", "(`id` >= 3)"),
        ("id = 1 OR name = 'it''s'", "((`id` = 1) OR (`Name` = 'it''s'))"),
        ("id % 7 = 3", "((`id` % 7) = 3)"),
        ("length(name) = 3", "(length(`Name`) = 3)"),
        ("s.a IN (1, 2)", "(`s`.`a` IN (1, 2))"),
        ("NOT (id BETWEEN 1 AND 5)", "(NOT ((`id` >= 1) AND (`id` <= 5)))"),
        ("day < DATE '2026-01-31'", "(`day` < DATE '2026-01-31')"),
        ("x > 1.5 AND flag", "(`x` > 1.5 OR isnan(`x`)) AND `flag`"),
        ("name LIKE 'a%' AND x / 2 > 1", "(`Name` LIKE 'a%')"),
        ("name NOT LIKE 'a%'", "(`Name` NOT LIKE 'a%')"),
        ("NOT (name NOT LIKE 'a%')", "(NOT (`Name` NOT LIKE 'a%'))"),
        ("name IS NOT NULL", "(NOT (`Name` IS NULL))"),
        ("id > 3L AND id <> -4S", "(`id` > 3) AND (`id` <> -4)"),
        ("x > 1.5D", "(`x` > 1.5 OR isnan(`x`))"),
        (
            "startswith(name, 'a') AND contains(name, 'b')",
            "(`Name` LIKE 'a%') AND (`Name` LIKE '%b%')",
        ),
        ("endswith(name, 'a')", "(`Name` LIKE '%a')"),
        ("id <=> 3", "(`id` IS NOT NULL AND `id` = 3)"),
        # What Spark and pilum do not mean the same by, or the table alone cannot tell.
        ("id / 2 = 1", None),
        ("id > 3 OR rand() > 0.5", None),
        ("f = 0.1", None),
        ("f < 1e300", None),
        ("id = 3D", None),
        ("name NOT LIKE ALL ('a', 'b')", None),
        ("name LIKE 'a%' ESCAPE '/'", None),
        ("id BETWEEN SYMMETRIC 5 AND 1", None),
        ("id IN (SELECT 1)", None),
        ("id = CAST(300 AS TINYINT)", None),
        ("startswith(name, 'a_')", None),
        ("startswith(name, s.b)", None),
        ("id <=> NULL", None),
        ("name = 3", None),
        ("day > '2026-01-31'", None),
        ("`when` > TIMESTAMP '2026-01-31 12:00:00'", None),
        ("name LIKE 'a\\\\_%'", None),
        ("upper(name) = 'A'", None),
        ("id IN (SELECT id FROM t)", None),
        ("missing = 3", None),
        ("id > (SELECT max(id) FROM t)", None),
    ],
)
def test_conditions_are_pushed_where_both_mean_the_same(where: str, filter: str | None) -> None:
    assert condition(where) == filter


@pytest.mark.parametrize(
    ("of", "filter"),
    [
        ("people p JOIN t ON p.id = t.id", "(`id` = 1)"),
        ("people p LEFT JOIN t ON p.id = t.id", "(`id` = 1)"),
        ("t JOIN people p ON p.id = t.id", "(`id` = 1)"),
        ("t, people p", "(`id` = 1)"),
        ("t LEFT JOIN people p ON p.id = t.id", None),
        ("people p RIGHT JOIN t ON p.id = t.id", None),
        ("people p FULL JOIN t ON p.id = t.id", None),
        ("people TABLESAMPLE (10 PERCENT) p", None),
    ],
)
def test_conditions_are_pushed_only_below_joins_that_keep_them(of: str, filter: str | None) -> None:
    assert condition("p.id = 1", of) == filter


def test_columns_that_say_no_table_are_told_only_if_there_is_one() -> None:
    assert condition("id = 1", "people p JOIN t ON p.x = t.x") is None
    assert condition("p.id = 1 AND t.id = 2", "people p JOIN t ON p.x = t.x") == "(`id` = 1)"
