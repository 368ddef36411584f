"""Functions compute new columns, also when they are interrupted and go on later (S2.9)."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pilum
from pilum.dataset.udf import BatchUDF
from pilum.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
)

OUTPUT = pa.schema([("double", pa.int64())])


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """27 rows in three fragments."""
    table = pa.table({"a": range(30), "b": [f"text {row}" for row in range(30)]})
    made = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=10)
    made.delete("a in (0, 14, 15)")
    return made


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch([pc.multiply(batch["a"], 2)], ["double"])


def data_files(dataset: pilum.LanceDataset) -> set[str]:
    return {path.name for path in (Path(dataset.uri) / "data").iterdir()}


@pytest.mark.parametrize(
    "function",
    [
        double,
        BatchUDF(double),
        pilum.batch_udf()(double),
        pilum.batch_udf(output_schema=OUTPUT)(double),
        lambda batch: double(batch).to_pandas(),
    ],
)
@pytest.mark.parametrize("reads", [None, ["a"]])
def test_functions_see_batches_of_live_rows(
    dataset: pilum.LanceDataset, function: Any, reads: list[str] | None
) -> None:
    dataset.add_columns(function, read_columns=reads, batch_size=4)
    found = dataset.to_table(["a", "double"]).to_pydict()
    assert found["double"] == [2 * value for value in found["a"]]
    assert len(found["a"]) == 27


def test_each_batch_is_computed_once(dataset: pilum.LanceDataset) -> None:
    seen = []

    def ids(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append((batch.num_rows, batch.schema.names))
        return pa.record_batch([batch["_rowaddr"]], ["address"])

    dataset.add_columns(ids, read_columns=["_rowaddr", "b"], batch_size=5)
    assert seen == [(count, ["_rowaddr", "b"]) for count in (5, 4, 5, 3, 5, 5)]
    assert dataset.to_table(["address"])["address"].to_pylist()[:2] == [1, 2]


def failing_at(row: int, calls: list[int]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        calls.append(batch["a"][0].as_py())
        if row in batch["a"].to_pylist():
            raise OSError("no more memory")
        return double(batch)

    return function


def test_a_computation_goes_on_where_it_failed(dataset: pilum.LanceDataset, tmp_path: Path) -> None:
    path, calls = tmp_path / "checkpoint", list[int]()
    before = data_files(dataset)
    with pytest.raises(OSError, match="no more memory"):
        dataset.add_columns(BatchUDF(failing_at(26, calls), checkpoint_file=path), batch_size=5)
    assert calls == [1, 6, 10, 17, 20, 25]
    assert len(data_files(dataset) - before) == 2  # of the fragments that were finished
    assert pilum.dataset(dataset.uri).schema.names == ["a", "b"]
    # Somebody appends meanwhile, so that what was computed would be committed for another version.
    pilum.write_dataset(pa.table({"a": [100], "b": ["x"]}), dataset.uri, mode="append")
    with pytest.raises(CommitConflictError):
        dataset.add_columns(BatchUDF(failing_at(-1, calls), checkpoint_file=path), batch_size=5)
    assert calls[6:] == [25]
    dataset.checkout_latest()
    dataset.add_columns(BatchUDF(failing_at(-1, calls), checkpoint_file=path), batch_size=5)
    assert calls[7:] == [100]
    assert not path.exists()
    found = dataset.to_table(["a", "double"]).to_pydict()
    assert found["double"] == [2 * value for value in found["a"]]


@pytest.mark.parametrize("change", ["delete", "batch_size", "columns", "file"])
def test_what_was_computed_from_something_else_is_computed_anew(
    dataset: pilum.LanceDataset, tmp_path: Path, change: str
) -> None:
    path, calls = tmp_path / "checkpoint", list[int]()
    with pytest.raises(OSError, match="no more memory"):
        dataset.add_columns(BatchUDF(failing_at(29, calls), checkpoint_file=path), batch_size=5)
    del calls[:]
    sizes, reads, first = 5, None, 25
    if change == "delete":
        dataset.delete("a = 20")
        first = 21
    elif change == "batch_size":
        sizes, first = 7, 1
    elif change == "columns":
        reads, first = ["a"], 1
    else:
        database = sqlite3.connect(path)
        (data,) = database.execute("SELECT data FROM fragments WHERE fragment = 1").fetchone()
        database.close()
        Path(dataset.uri, "data", json.loads(data[32:])["path"]).unlink()  # after the checksum
        first = 10
    function = BatchUDF(failing_at(-1, calls), checkpoint_file=path)
    dataset.add_columns(function, read_columns=reads, batch_size=sizes)
    assert calls[0] == first
    found = dataset.to_table(["a", "double"]).to_pydict()
    assert found["double"] == [2 * value for value in found["a"]]


SCRIPT = """
import os, signal, sys
import pyarrow as pa, pyarrow.compute as pc
import pilum

@pilum.batch_udf(checkpoint_file=sys.argv[2])
def double(batch):
    with open(sys.argv[3], "a") as log:
        log.write(f"{batch['a'][0]}\\n")
    if 26 in batch["a"].to_pylist() and sys.argv[4] == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return pa.record_batch([pc.multiply(batch["a"], 2)], ["double"])

pilum.dataset(sys.argv[1]).add_columns(double, batch_size=5)
"""


def test_a_killed_computation_goes_on_in_another_process(
    dataset: pilum.LanceDataset, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    codes = []
    for wish in ("die", "live"):
        arguments = [dataset.uri, str(tmp_path / "checkpoint"), str(log), wish]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, *arguments], check=False, env=os.environ
        )
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL, 0]
    assert log.read_text().split() == ["1", "6", "10", "17", "20", "25", "25"]
    dataset.checkout_latest()
    found = dataset.to_table(["a", "double"]).to_pydict()
    assert found["double"] == [2 * value for value in found["a"]]


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda batch: None, InvalidInputError, "NoneType, not a RecordBatch"),
        (lambda batch: double(batch.slice(1)), InvalidInputError, "3 rows for 4"),
        (lambda batch: batch.select(["a"]), SchemaMismatchError, "column 'a' already"),
        (
            BatchUDF(double, pa.schema([("double", pa.int8())])),
            SchemaMismatchError,
            "returned other columns",
        ),
        (
            lambda batch: double(batch) if batch["a"][0].as_py() < 9 else batch.select(["b"]),
            SchemaMismatchError,
            "expected a batch with the columns",
        ),
    ],
)
def test_what_functions_must_not_give_changes_nothing(
    dataset: pilum.LanceDataset, function: Any, error: type[PilumError], message: str
) -> None:
    before = data_files(dataset)
    with pytest.raises(error, match=message):
        dataset.add_columns(function, batch_size=4)
    assert data_files(dataset) == before
    assert pilum.dataset(dataset.uri).version == dataset.version


def test_what_cannot_be_computed_is_said_before(tmp_path: Path) -> None:
    empty = pilum.write_dataset(pa.schema([("a", pa.int64())]).empty_table(), tmp_path / "e")
    with pytest.raises(InvalidInputError, match="output_schema: needed"):
        empty.add_columns(double)
    empty.add_columns(BatchUDF(double, OUTPUT))
    assert empty.schema.names == ["a", "double"]
    with pytest.raises(InvalidInputError, match="read_columns"):
        empty.add_columns({"c": "a"}, read_columns=["a"])


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("batches", 5),
        ("batches", b"no stream"),
        ("results", None),
        ("results", "text"),
        ("fragments", "{"),
        ("fragments", "[]"),
        ("fragments", 5),
    ],
)
def test_damaged_results_are_no_results(
    dataset: pilum.LanceDataset, tmp_path: Path, table: str, value: object
) -> None:
    path = tmp_path / "checkpoint"
    with pytest.raises(OSError, match="no more memory"):
        dataset.add_columns(BatchUDF(failing_at(25, []), checkpoint_file=path), batch_size=5)
    with sqlite3.connect(path) as database:
        assert database.execute(f"UPDATE {table} SET data = ?", (value,)).rowcount
    database.close()
    if value is None:  # as if nothing was kept
        dataset.add_columns(BatchUDF(double, checkpoint_file=path), batch_size=5)
        return
    with pytest.raises(CorruptFileError, match="checksum differs"):
        dataset.add_columns(BatchUDF(double, checkpoint_file=path), batch_size=5)
    assert pilum.dataset(dataset.uri).version == dataset.version


@pytest.mark.parametrize(
    ("table", "known"),
    [("batches", struct.pack("<2q", 40, 42)), ("fragments", b'2], "column_indices"')],
    ids=["values", "fields"],
)
def test_single_damaged_bytes_are_noticed(
    dataset: pilum.LanceDataset, tmp_path: Path, table: str, known: bytes
) -> None:
    """They would be other values, or another field of a file: neither SQLite nor Arrow notices."""
    path = tmp_path / "checkpoint"
    with pytest.raises(OSError, match="no more memory"):
        dataset.add_columns(BatchUDF(failing_at(25, []), checkpoint_file=path), batch_size=5)
    with sqlite3.connect(path) as database:
        rows = database.execute(f"SELECT rowid, data FROM {table}").fetchall()
        row, data = next(one for one in rows if known in one[1])
        changed = data.replace(known, bytes([known[0] ^ 1]) + known[1:])
        database.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (changed, row))
    database.close()
    with pytest.raises(CorruptFileError, match="checksum differs"):
        dataset.add_columns(BatchUDF(double, checkpoint_file=path), batch_size=5)
    assert pilum.dataset(dataset.uri).version == dataset.version


def test_a_file_that_is_no_checkpoint_is_left_alone(
    dataset: pilum.LanceDataset, tmp_path: Path
) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, by far " * 100)
    other = tmp_path / "other"
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE batches (fragment_id INT, result BLOB)")
    database.close()
    for path in (text, other, tmp_path / "no" / "folder"):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(InvalidInputError, match="cannot be used"):
            dataset.add_columns(BatchUDF(double, checkpoint_file=path))
        assert path != text or path.read_bytes() == before
    assert pilum.dataset(dataset.uri).version == dataset.version


@pytest.mark.parametrize(
    "other",
    [
        pa.record_batch({"n": [0.5, 1.5]}),
        pa.record_batch({"n": pa.array([1, 2], pa.int32())}),
        pa.record_batch({"m": [1, 2]}),
        pa.record_batch({"n": [1, 2], "m": [1, 2]}),
    ],
    ids=str,
)
def test_results_of_another_schema_in_a_later_fragment_are_refused(
    tmp_path: Path, other: pa.RecordBatch
) -> None:
    """Their buffers would be read as those of the columns of the first result."""
    path = tmp_path / "t"
    dataset = pilum.write_dataset({"id": [0, 1, 2, 3]}, path, max_rows_per_file=2)
    first = pa.record_batch({"n": [5, 6]})
    before = set(path.rglob("*"))
    with pytest.raises(SchemaMismatchError, match=r"'[nm]'"):
        dataset.add_columns(lambda batch: first if batch["id"][0].as_py() == 0 else other)
    assert set(path.rglob("*")) == before


def test_results_whose_structs_lack_a_member_later_are_refused(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"id": [0, 1]}, tmp_path / "t", max_rows_per_file=1)
    results = [
        pa.record_batch({"p": [{"x": 1, "y": "a"}]}),
        pa.record_batch({"p": [{"x": 1}]}),
    ]
    with pytest.raises(SchemaMismatchError, match="'p'"):
        dataset.add_columns(lambda batch: results[batch["id"][0].as_py()])
