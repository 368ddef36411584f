"""Queries over several tables, beside DuckDB over the same rows in memory."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.inspection.queries import query

DATASET = pa.table({"id": range(100), "a": [row % 7 for row in range(100)], "b": ["x", "y"] * 50})
OTHER = pa.table({"id": [3, 50, 200], "c": [1.5, None, 2.5]})


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pilum.LanceDataset]:
    folder: Path = tmp_path_factory.mktemp("queries")
    rows = {"dataset": DATASET, "other": OTHER}
    return {name: pilum.write_dataset(one, folder / name) for name, one in rows.items()}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM dataset WHERE B = 'x' ORDER BY id",
        "SELECT count(*) FROM dataset",
        "WITH t AS (SELECT a, d.b FROM dataset d) SELECT sum(a) FROM t",
        "SELECT x.a, c FROM dataset x JOIN other USING (id) ORDER BY id",
        "SELECT * EXCLUDE (a) FROM dataset ORDER BY id",
        "SELECT COLUMNS('i.*') FROM dataset ORDER BY id",
        "FROM dataset ORDER BY id",
        "SELECT d FROM dataset AS d ORDER BY d.id",
        "SELECT a, c FROM dataset NATURAL JOIN other ORDER BY a",
        "SELECT id FROM dataset UNION ALL SELECT id FROM other ORDER BY id",
    ],
)
def test_answers_are_those_of_rows_in_memory(
    tables: dict[str, pilum.LanceDataset], sql: str
) -> None:
    with duckdb.connect() as connection:
        connection.register("dataset", DATASET)
        connection.register("other", OTHER)
        wanted = connection.execute(sql)
        names, rows = [one[0] for one in wanted.description], wanted.fetchall()
    found = query(sql, tables)
    assert found.schema.names == names
    assert [tuple(row.values()) for row in found.to_pylist()] == rows


@pytest.mark.parametrize("sql", ["", "DELETE FROM dataset", "SELECT 1; SELECT 2", "COPY x TO 'y'"])
def test_anything_else_is_refused(tables: dict[str, pilum.LanceDataset], sql: str) -> None:
    with pytest.raises(InvalidInputError):
        query(sql, tables)
