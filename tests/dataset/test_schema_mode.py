"""Rows that have more columns than the table: both are in by one commit (S2.9)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import (
    CommitConflictError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
    UnsupportedVersionError,
)

TABLE = pa.table({"a": [1, 2, 3], "s": [{"x": 1}, None, {"x": 3}]})
MORE = pa.table({"b": ["new"], "s": [{"y": [7], "x": 4}], "a": [4]})


@pytest.fixture(params=["2.1", "2.2"])
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> pilum.LanceDataset:
    made = pilum.write_dataset(
        TABLE, tmp_path / "t", max_rows_per_file=2, data_storage_version=request.param
    )
    made.delete("a = 3")
    return made


def test_rows_and_columns_come_together(dataset: pilum.LanceDataset) -> None:
    after = pilum.write_dataset(MORE, dataset, mode="append", schema_mode="merge")
    assert after.version == dataset.version + 1
    assert after.schema.names == ["a", "s", "b"]
    assert after.to_table().to_pylist() == [
        {"a": 1, "s": {"x": 1, "y": None}, "b": None},
        {"a": 2, "s": None, "b": None},
        {"a": 4, "s": {"x": 4, "y": [7]}, "b": "new"},
    ]
    assert [one.fragment_id for one in after.get_fragments()] == [0, 2]
    # Now the columns are there, so it is an append, also of rows that lack some.
    after.insert(pa.table({"a": [5], "c": [1.5]}), schema_mode="merge")
    after.insert(pa.table({"a": [6]}), schema_mode="merge")
    assert after.to_table(["a", "c"], filter="a >= 5").to_pydict() == {
        "a": [5, 6],
        "c": [1.5, None],
    }


def test_rows_keep_their_ids_and_get_new_ones(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    pilum.write_dataset(TABLE, uri, enable_stable_row_ids=True)
    after = pilum.write_dataset(MORE, uri, mode="append", schema_mode="merge")
    assert after.to_table(["a"], with_row_id=True)["_rowid"].to_pylist() == [0, 1, 2, 3]


def append(dataset: pilum.LanceDataset) -> None:
    dataset.insert(pa.table({"a": [9]}))


def append_and_compact(dataset: pilum.LanceDataset) -> None:
    append(dataset)
    dataset.optimize.compact_files()


OTHERS: dict[str, Callable[[pilum.LanceDataset], object]] = {
    "append": append,
    "delete": lambda dataset: dataset.delete("a = 1"),
    "update": lambda dataset: dataset.update({"a": "10 * a"}),
    "compaction": append_and_compact,
    "config": lambda dataset: dataset.update_config({"k": "v"}),
}


def beaten(dataset: pilum.LanceDataset, other: Callable[[pilum.LanceDataset], object]) -> Any:
    """Rows of which somebody else is asked to commit first."""

    def batches() -> Any:
        yield from MORE.to_batches()
        other(pilum.dataset(dataset.uri))

    return pa.RecordBatchReader.from_batches(MORE.schema, batches())


@pytest.mark.parametrize("other", OTHERS)
def test_others_may_change_rows_meanwhile(dataset: pilum.LanceDataset, other: str) -> None:
    expected = {"append": [1, 2, 4, 9], "compaction": [1, 2, 4, 9], "delete": [2, 4]}
    dataset.insert(beaten(dataset, OTHERS[other]), schema_mode="merge")
    found = sorted(dataset.to_table(["a"])["a"].to_pylist())
    assert found == expected.get(other, [4, 10, 20] if other == "update" else [1, 2, 4])
    assert dataset.to_table(filter="a = 4").to_pylist() == [
        {"a": 4, "s": {"x": 4, "y": [7]}, "b": "new"}
    ]


def test_others_may_not_change_columns_meanwhile(dataset: pilum.LanceDataset) -> None:
    def add(other: pilum.LanceDataset) -> None:
        other.add_columns({"b": "a"})

    files = len(list(Path(dataset.uri, "data").iterdir()))
    with pytest.raises(CommitConflictError) as error:
        dataset.insert(beaten(dataset, add), schema_mode="merge")
    assert error.value.retryable
    assert len(list(Path(dataset.uri, "data").iterdir())) == files + 1


@pytest.mark.parametrize(
    "kind",
    [pa.map_(pa.string(), pa.int64()), pa.struct([pa.field("x", pa.int8(), nullable=False)])],
    ids=str,
)
def test_new_nested_columns_may_have_members_that_must_not_be_null(
    tmp_path: Path, kind: pa.DataType
) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    value = [("k", 1)] if pa.types.is_map(kind) else {"x": 1}
    dataset.insert(pa.table({"a": [2], "b": pa.array([value], kind)}), schema_mode="merge")
    assert dataset.to_table()["b"].to_pylist() == [None, value]


@pytest.mark.parametrize(
    ("data", "arguments", "error", "message"),
    [
        (MORE, {}, SchemaMismatchError, "no column 'b'"),
        (MORE, {"mode": "overwrite", "schema_mode": "merge"}, InvalidInputError, "only with mode"),
        (MORE, {"schema_mode": "strict"}, InvalidInputError, "expected merge"),
        ({"a": ["x"], "b": [1]}, {"schema_mode": "merge"}, SchemaMismatchError, "'a' of the table"),
        ({"a": [1], "_rowid": [1]}, {"schema_mode": "merge"}, InvalidInputError, "reserved"),
        ({"a": [1], "b.c": [1]}, {"schema_mode": "merge"}, InvalidInputError, "dot"),
        (
            pa.table(
                {"a": [1], "b": [1]}, pa.schema([("a", "int64"), pa.field("b", "int64", False)])
            ),
            {"schema_mode": "merge"},
            InvalidInputError,
            r"must be nullable.*\['b'\]",
        ),
    ],
)
def test_what_cannot_be_merged_changes_nothing(
    dataset: pilum.LanceDataset,
    data: Any,
    arguments: dict[str, Any],
    error: type[PilumError],
    message: str,
) -> None:
    files = sorted(Path(dataset.uri).rglob("*"))
    with pytest.raises(error, match=message):
        dataset.insert(data, **arguments)
    assert sorted(Path(dataset.uri).rglob("*")) == files


def test_a_new_table_has_the_columns_of_its_rows(tmp_path: Path) -> None:
    made = pilum.write_dataset(MORE, tmp_path / "t", mode="append", schema_mode="merge")
    assert made.schema.names == ["b", "s", "a"]


def test_old_versions_take_what_their_files_can(tmp_path: Path) -> None:
    table = TABLE.slice(0, 1)
    pilum.write_dataset(table, tmp_path / "2.0", data_storage_version="2.0")
    after = pilum.write_dataset(MORE, tmp_path / "2.0", mode="append", schema_mode="merge")
    assert after.to_table(["s"])["s"].to_pylist() == [{"x": 1, "y": None}, {"x": 4, "y": [7]}]
    pilum.write_dataset(table, tmp_path / "0.1", data_storage_version="0.1")
    with pytest.raises(UnsupportedVersionError, match=r"0\.1"):
        pilum.write_dataset(MORE, tmp_path / "0.1", mode="append", schema_mode="merge")
