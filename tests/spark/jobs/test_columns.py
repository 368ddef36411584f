from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.helpers import exist, files, has_only, write_table

import pilum
import pilum.spark
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    FilterError,
    InvalidInputError,
    SchemaMismatchError,
)

VECTORS = pa.schema([("vector", pa.list_(pa.float32(), 2))])


@pytest.fixture
def table(uri: str) -> str:
    """Three fragments of four rows; one row of the second is deleted."""
    for start in (0, 4, 8):
        write_table(uri, pa.table({"a": range(start, start + 4)}), "append")
    pilum.dataset(uri).delete("a = 5")
    return uri


def embed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Two numbers for one."""
    both = pc.cast(pc.list_flatten(pa.array([[x, 2 * x] for x in batch["a"].to_pylist()])), "float")
    return pa.record_batch([pa.FixedSizeListArray.from_arrays(both, 2)], schema=VECTORS)


def failing(calls: Path, last_good: int, after: Sequence[Path] = ()) -> Any:
    """Like `embed`, but notes its calls, and fails beyond a row until there is a file "mended".

    It fails when the files `after` are there: what tasks beside it do is then finished.
    """

    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        with calls.open("a") as notes:
            notes.write(f"{batch['a'][0]}\n")
        if batch["a"][0].as_py() > last_good and not calls.with_name("mended").exists():
            assert exist(after)
            raise RuntimeError("no model")
        return embed(batch)

    return function


def dies_once(calls: Path) -> Any:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not calls.exists():
            calls.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return embed(batch)

    return function


def test_what_a_task_refuses_reaches_the_driver_as_it_is(spark: SparkSession, table: str) -> None:
    before = files(table)
    with pytest.raises(FilterError):
        pilum.spark.add_columns(spark, table, {"b": "10 / (a - 8)"})
    with pytest.raises(SchemaMismatchError, match="returned other columns"):
        pilum.spark.add_columns(spark, table, embed, output_schema="other long")
    assert has_only(table, before)
    assert pilum.dataset(table).version == 4


def values(uri: str, name: str) -> list[Any]:
    return list(pilum.dataset(uri).to_table(columns=[name]).column(0).to_pylist())


@pytest.mark.reference
def test_expressions_and_functions_become_columns(spark: SparkSession, table: str) -> None:
    import lance

    before = files(table)
    version = pilum.spark.add_columns(spark, table, {"twice": "a * 2", "text": "cast(a as string)"})
    assert version == 5
    assert len(files(table)) == len(before) + 3
    pilum.spark.add_columns(spark, table, embed, read_columns=["a"], output_schema=VECTORS)
    pilum.spark.add_columns(
        spark,
        table,
        lambda frame: frame["a"] + 0.5,
        read_columns=["a"],
        output_schema="half double",
        form="pandas",
    )
    rows = lance.dataset(table).to_table().to_pylist()
    assert [row["a"] for row in rows] == [a for a in range(12) if a != 5]
    for row in rows:
        a = row["a"]
        assert row == {
            "a": a,
            "twice": 2 * a,
            "text": str(a),
            "vector": [a, 2 * a],
            "half": a + 0.5,
        }
    assert pilum.dataset(table).verify(deep=True).is_valid


def test_a_worker_that_is_killed_writes_no_row_twice(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    before = len(files(table))
    function = dies_once(tmp_path / "calls")
    pilum.spark.add_columns(spark, table, function, read_columns=["a"], output_schema=VECTORS)
    assert values(table, "vector")[-1] == [11, 22]
    assert len(files(table)) == before + 3
    assert not pilum.dataset(table).verify().orphaned


def test_a_named_job_goes_on_where_it_failed_and_is_not_done_twice(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    journal = Path(table, "_jobs/embed-1")

    def run() -> int:
        return pilum.spark.add_columns(
            spark,
            table,
            failing(calls, 7, after=[journal / "0.json", journal / "1.json"]),
            read_columns=["a"],
            output_schema=VECTORS,
            job="embed-1",
        )

    with pytest.raises(PySparkException, match="no model"):
        run()
    assert pilum.dataset(table).schema.names == ["a"]
    assert sorted(path.name for path in journal.iterdir()) == [
        "0.json",
        "1.json",
        "plan.json",
    ]
    with pytest.raises(InvalidInputError, match="was begun with"):
        pilum.spark.add_columns(spark, table, {"other": "a"}, job="embed-1")
    write_table(table, pa.table({"a": [12]}), "append")  # another fragment meanwhile
    calls.write_text("")
    calls.with_name("mended").touch()
    version = run()
    assert sorted(calls.read_text().split()) == ["12", "8"]
    assert values(table, "vector") == [[a, 2 * a] for a in range(13) if a != 5]
    assert run() == version == pilum.dataset(table).version
    assert not list(Path(table, "_jobs").glob("*/*"))


def test_groups_are_committed_one_by_one(spark: SparkSession, table: str, tmp_path: Path) -> None:
    calls = tmp_path / "calls"

    def run() -> int:
        return pilum.spark.add_columns(
            spark,
            table,
            failing(calls, 7),
            read_columns=["a"],
            output_schema=VECTORS,
            job="embed",
            journal=str(tmp_path / "journals"),
            commit_every=1,
        )

    with pytest.raises(PySparkException, match="no model"):
        run()
    assert values(table, "vector") == [*([a, 2 * a] for a in range(8) if a != 5), *[None] * 4]
    calls.write_text("")
    calls.with_name("mended").touch()
    version = run()
    assert calls.read_text().split() == ["8"]
    assert version == 8  # the columns, and three groups
    assert values(table, "vector")[-1] == [11, 22]


def test_groups_do_not_lose_rows_that_were_moved_meanwhile(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    with pytest.raises(PySparkException):
        pilum.spark.update_columns(
            spark, table, _grown(tmp_path, 7), output_schema="a long", job="grow", commit_every=1
        )
    pilum.dataset(table).optimize.compact_files()
    with pytest.raises(CommitConflictError, match="rows of the fragments"):
        pilum.spark.update_columns(
            spark, table, _grown(tmp_path, 99), output_schema="a long", job="grow", commit_every=1
        )
    assert values(table, "a") == [100, 101, 102, 103, 104, 106, 107, 8, 9, 10, 11]


def _grown(folder: Path, last_good: int) -> Any:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch["a"][0].as_py() > last_good:
            raise RuntimeError("no model")
        return pa.record_batch({"a": pc.add(batch["a"], 100)})

    return function


@pytest.mark.reference
def test_update_columns_changes_values_in_place(spark: SparkSession, table: str) -> None:
    import lance

    pilum.dataset(table).add_columns({"b": "a * 10"})
    before = {path.name for path in Path(table, "data").iterdir()}
    pilum.spark.update_columns(spark, table, {"b": "b + 1"}, where="a >= 4")
    found = lance.dataset(table).to_table()
    assert found["b"].to_pylist() == [a * 10 + (a >= 4) for a in range(12) if a != 5]
    # Once more as a job: a second call of the same name changes nothing.
    for _ in range(2):
        version = pilum.spark.update_columns(spark, table, {"b": "b + 1"}, job="plus-one")
    assert version == pilum.dataset(table).version
    assert values(table, "b")[0] == 1
    assert len(files(table)) == len(before) + 6


@pytest.mark.reference
def test_columns_of_other_types_take_the_places_of_old_ones(
    spark: SparkSession, table: str, tmp_path: Path
) -> None:
    import lance

    pilum.dataset(table).add_columns({"b": "a * 10", "c": "a"})
    before = files(table)

    journal = Path(table, "_jobs/swap")

    def run() -> int:
        others = [journal / "0.json", journal / "1.json"]
        function = failing(tmp_path / "calls", 7, after=others)
        named = {"read_columns": ["a"], "output_schema": VECTORS, "job": "swap"}
        return pilum.spark.replace_columns(spark, table, function, **named)

    pilum.spark.replace_columns(spark, table, {"b": "cast(b as string)", "a": "b / 10"})
    pilum.dataset(table).alter_columns({"path": "c", "name": "vector"})
    with pytest.raises(PySparkException, match="no model"):
        run()
    write_table(table, pa.table({"a": [12], "b": ["120"], "vector": [0]}), "append")
    (tmp_path / "mended").touch()
    assert run() == run() == pilum.dataset(table).version
    found = lance.dataset(table).to_table()
    assert found.schema.names == ["a", "b", "vector"]
    rest = [a for a in range(13) if a != 5]
    assert found.to_pylist() == [{"a": a, "b": str(10 * a), "vector": [a, 2 * a]} for a in rest]
    assert len(files(table)) == len(before) + 8
    assert lance.dataset(table, version=5).to_table()["b"].to_pylist()[-1] == 110


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (SchemaMismatchError, {"transforms": {"a": "a + 1"}}),
        (ColumnNotFoundError, {"transforms": {"b": "nothing + 1"}}),
        (InvalidInputError, {"transforms": embed}),
        (InvalidInputError, {"transforms": {"b": "a"}, "commit_every": 2}),
        (InvalidInputError, {"transforms": {"b": "a"}, "job": "../up"}),
        (InvalidInputError, {"transforms": {"b": "a"}, "read_columns": ["a"]}),
        (InvalidInputError, {"transforms": embed, "output_schema": VECTORS, "form": "text"}),
    ],
)
def test_misuse_is_refused_before_anything_is_written(
    table: str, error: type[Exception], arguments: dict[str, Any]
) -> None:
    no_session: Any = None
    before = files(table)
    with pytest.raises(error):
        pilum.spark.add_columns(no_session, table, **arguments)
    assert files(table) == before
    assert pilum.dataset(table).version == 4


def test_columns_that_are_not_there_or_needed_as_they_are_stay(uri: str) -> None:
    no_session: Any = None
    key = pa.field("k", pa.int64(), False, {"lance-schema:unenforced-primary-key": "true"})
    pilum.write_dataset(pa.table([[1], [2]], schema=pa.schema([key, ("a", pa.int64())])), uri)
    for error, name in ((ColumnNotFoundError, "b"), (InvalidInputError, "k")):
        with pytest.raises(error):
            pilum.spark.replace_columns(no_session, uri, {name: "cast(a as string)"})
