"""SQL over one table, which DuckDB runs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    rows = pa.table({"key": pa.array(range(1000)), "name": [f"n{row % 3}" for row in range(1000)]})
    return pilum.write_dataset(rows, tmp_path / "table.lance", max_rows_per_file=400)


def test_a_query_is_answered(dataset: pilum.LanceDataset) -> None:
    query = dataset.sql("SELECT name, count(*) AS n FROM dataset GROUP BY name ORDER BY name")
    [batch] = query.build().to_batch_records()
    assert batch.to_pydict() == {"name": ["n0", "n1", "n2"], "n": [334, 333, 333]}


def test_a_query_is_answered_as_a_stream(dataset: pilum.LanceDataset) -> None:
    query = dataset.sql("SELECT key FROM t WHERE key >= 10 ORDER BY key").table_name("t")
    built = query.batch_size(100).build()
    for _ in range(2):
        reader = built.to_stream_reader()
        assert reader.schema.names == ["key"]
        assert reader.read_all()["key"].to_pylist() == list(range(10, 1000))


def test_rows_have_ids_and_addresses_on_request(dataset: pilum.LanceDataset) -> None:
    query = dataset.sql("SELECT _rowid, _rowaddr FROM dataset WHERE key = 401")
    [batch] = query.with_row_id().with_row_addr().build().to_batch_records()
    assert batch.to_pydict() == {"_rowid": [(1 << 32) + 1], "_rowaddr": [(1 << 32) + 1]}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nothing FROM dataset", "nothing"),
        ("SELECT FROM WHERE", "syntax error"),
        ("DROP TABLE dataset", "expected one query"),
        ("SELECT 1; SELECT 2", "expected one query"),
        ("SELECT * FROM read_csv('/etc/hostname')", "disabled"),
    ],
)
def test_wrong_queries_are_named(dataset: pilum.LanceDataset, query: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        dataset.sql(query).build().to_batch_records()


def test_a_wrong_batch_size_is_named(dataset: pilum.LanceDataset) -> None:
    with pytest.raises(InvalidInputError, match="batch_size"):
        dataset.sql("SELECT 1").batch_size(0)
