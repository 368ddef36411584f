"""The columns that a query names: never too few."""

from __future__ import annotations

import pytest

from pilum.errors import InvalidInputError
from pilum.inspection.queries import columns_named


@pytest.mark.parametrize(
    ("sql", "named", "absent"),
    [
        ("SELECT a FROM dataset WHERE B > 1 ORDER BY c", {"a", "b", "c"}, {"d"}),
        ('SELECT max("my Column") FROM dataset', {"my column"}, {"a"}),
        ("SELECT count(*) FROM dataset", set(), {"a"}),
        ("WITH t AS (SELECT a, d.b FROM dataset d) SELECT a FROM t", {"a", "b"}, {"c"}),
        ("SELECT s.x FROM dataset", {"s"}, set()),
        ("SELECT a FROM dataset UNION ALL SELECT b FROM dataset", {"a", "b"}, {"c"}),
        ("SELECT x.a FROM dataset x JOIN other USING (id)", {"a", "id"}, set()),
    ],
)
def test_names_of_a_query(sql: str, named: set[str], absent: set[str]) -> None:
    found = columns_named(sql)
    assert found is not None
    assert named <= found
    assert not absent & found


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM dataset",
        "SELECT d.* FROM dataset d",
        "SELECT count(*) FROM (SELECT * FROM dataset)",
        "SELECT * EXCLUDE (a) FROM dataset",
        "SELECT COLUMNS('a.*') FROM dataset",
        "SELECT columns(*) FROM dataset",
        "FROM dataset",
        "SELECT dataset FROM dataset",
        "SELECT d FROM dataset AS d",
        "SELECT a FROM dataset NATURAL JOIN other",
        "SELECT a FROM dataset POSITIONAL JOIN other",
        "SELECT t.x FROM (SELECT d AS x FROM dataset AS d) AS t",
        "FROM dataset SELECT unnest(dataset)",
    ],
)
def test_queries_that_may_read_every_column(sql: str) -> None:
    assert columns_named(sql) is None


@pytest.mark.parametrize("sql", ["", "DELETE FROM dataset", "SELECT 1; SELECT 2", "COPY x TO 'y'"])
def test_anything_else_is_refused(sql: str) -> None:
    with pytest.raises(InvalidInputError):
        columns_named(sql)
