"""Modes, inputs, and that a refused write leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.dataset import AutoCleanupConfig
from pilum.errors import (
    CommitConflictError,
    DatasetAlreadyExistsError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
    UnsupportedFormatError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)

TABLE = pa.table({"a": [1, 2, 3], "s": ["x", None, "z"]})


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


def test_create_append_overwrite(tmp_path: Path) -> None:
    created = pilum.write_dataset(TABLE, tmp_path / "t")
    appended = pilum.write_dataset(TABLE.slice(1), tmp_path / "t", mode="append")
    other = pa.table({"b": [0.5]})
    overwritten = pilum.write_dataset(other, tmp_path / "t", mode="overwrite")
    assert [created.version, appended.version, overwritten.version] == [1, 2, 3]
    assert created.to_table().equals(TABLE)
    assert appended.to_table().equals(pa.concat_tables([TABLE, TABLE.slice(1)]))
    assert overwritten.to_table().equals(other)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_append_and_overwrite_create_what_is_missing(tmp_path: Path, mode: str) -> None:
    assert pilum.write_dataset(TABLE, str(tmp_path / "t"), mode=mode).to_table().equals(TABLE)


def test_a_dataset_is_a_destination_too(tmp_path: Path) -> None:
    first = pilum.write_dataset(TABLE, tmp_path / "t")
    assert pilum.write_dataset(TABLE, first, mode="append").count_rows() == 6
    assert first.version == 1
    first.insert(TABLE)
    assert (first.version, first.count_rows()) == (3, 9)


def while_writing(other: Callable[[], object]) -> pa.RecordBatchReader:
    """Rows of `TABLE`, during which somebody else does something."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from TABLE.slice(0, 1).to_batches()
        other()
        yield from TABLE.slice(1).to_batches()

    return pa.RecordBatchReader.from_batches(TABLE.schema, batches())


def test_who_loses_the_race_to_create_a_table_appends(tmp_path: Path) -> None:
    """The reference's overwrite takes the rows of the winner away."""
    path = tmp_path / "t"
    other = pa.table({"a": [7, 8], "s": ["u", "v"]})

    def create() -> None:
        settings: AutoCleanupConfig = {"interval": 9, "older_than_seconds": 60}
        pilum.write_dataset(other, path, mode="append", auto_cleanup_options=settings)
        pilum.dataset(path).delete("a = 7")

    settings: AutoCleanupConfig = {"interval": 5, "older_than_seconds": 60}
    rows = while_writing(create)
    found = pilum.write_dataset(rows, path, mode="append", auto_cleanup_options=settings)
    assert found.version == 3
    assert found.to_table().equals(pa.concat_tables([other.slice(1), TABLE]))
    assert found.config()["lance.auto_cleanup.interval"] == "9"


@pytest.mark.parametrize(
    ("mode", "error"),
    [
        ("create", DatasetAlreadyExistsError),
        ("overwrite", CommitConflictError),
        ("append", CommitConflictError),
    ],
)
def test_who_loses_the_race_to_create_a_table_takes_nothing_away(
    tmp_path: Path, mode: str, error: type[PilumError]
) -> None:
    """An append of other columns has to look again, like an overwrite; all can be repeated."""
    path, other = tmp_path / "t", pa.table({"s": ["u"], "a": [7]})
    before: set[str] = set()

    def create() -> None:
        pilum.write_dataset(other, path)
        before.update(files(path / "_versions") | files(path / "_transactions"))

    with pytest.raises(error, match=r"another writer has created the table|do it again"):
        pilum.write_dataset(while_writing(create), path, mode=mode)
    assert files(path / "_versions") | files(path / "_transactions") == before
    assert len(files(path / "data")) == 1
    assert pilum.dataset(path).to_table().equals(other)
    if mode != "create":
        pilum.write_dataset(TABLE, path, mode=mode)


@pytest.mark.parametrize("mode", ["create", "append", "overwrite"])
def test_a_clone_that_came_first_is_not_replaced(tmp_path: Path, mode: str) -> None:
    source = pilum.write_dataset(pa.table({"s": ["u"]}), tmp_path / "source")
    clone = while_writing(lambda: source.shallow_clone(tmp_path / "t", 1))
    with pytest.raises((DatasetAlreadyExistsError, CommitConflictError)):
        pilum.write_dataset(clone, tmp_path / "t", mode=mode)
    assert pilum.dataset(tmp_path / "t").to_table().equals(source.to_table())


def test_columns_of_an_append_come_in_any_order_and_may_be_missing(tmp_path: Path) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    pilum.write_dataset(TABLE.select(["s", "a"]), tmp_path / "t", mode="append")
    found = pilum.write_dataset(pa.table({"s": ["only"]}), tmp_path / "t", mode="append")
    assert found.to_table().slice(3).to_pydict() == {
        "a": [1, 2, 3, None],
        "s": ["x", None, "z", "only"],
    }


def _batches() -> Iterator[pa.RecordBatch]:
    yield from TABLE.to_batches(max_chunksize=1)


class _Stream:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return TABLE.__arrow_c_stream__(requested_schema)


def _pandas() -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame({"a": [1]})


def _arrow_dataset() -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(TABLE)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TABLE,
        lambda: TABLE.to_batches()[0],
        TABLE.to_reader,
        _batches,
        lambda: list(_batches()),
        lambda: iter([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.to_pylist,
        TABLE.to_pydict,
        _Stream,
        _arrow_dataset,
        lambda: _arrow_dataset().scanner(),
    ],
)
def test_what_can_be_written(tmp_path: Path, make: Any) -> None:
    assert pilum.write_dataset(make(), tmp_path / "t").to_table().equals(TABLE)


def test_pandas_and_other_datasets_can_be_written(tmp_path: Path) -> None:
    first = pilum.write_dataset(_pandas(), tmp_path / "t")
    assert first.to_table().to_pydict() == {"a": [1]}
    copy = pilum.write_dataset(first, tmp_path / "copy")
    scan = pilum.write_dataset(copy.scanner(filter="a > 1"), tmp_path / "scan")
    assert (copy.count_rows(), scan.count_rows()) == (1, 0)


def test_the_schema_brings_data_to_its_types(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int8()), ("s", pa.large_string())])
    for number, data in enumerate([TABLE, TABLE.to_pylist(), TABLE.to_pydict(), TABLE.to_reader()]):
        assert pilum.write_dataset(data, tmp_path / str(number), schema).schema == schema
    assert pilum.write_dataset(iter([]), tmp_path / "empty", schema).count_rows() == 0


def test_input_is_streamed(tmp_path: Path) -> None:
    """Files are finished while the input still comes."""
    seen: list[int] = []

    def produce() -> Iterator[pa.RecordBatch]:
        for number in range(40):
            seen.append(sum(file.endswith(".lance") for file in files(tmp_path)))
            yield pa.RecordBatch.from_pydict({"a": [number] * 1000})

    found = pilum.write_dataset(produce(), tmp_path / "t", max_rows_per_file=1000)
    assert seen[-1] >= 20  # the last ones may still wait for the device
    assert [fragment.physical_rows for fragment in found.get_fragments()] == [1000] * 40


@pytest.mark.parametrize(
    ("data", "error", "reason"),
    [
        (5, InvalidInputError, "cannot write int"),
        ("path", InvalidInputError, "cannot write str"),
        ([], InvalidInputError, "pass schema="),
        ([1, 2], InvalidInputError, "yields int"),
        ({"a": [1], "b": [1, 2]}, SchemaMismatchError, "does not fit"),
        (pa.table({"_rowid": [1]}), InvalidInputError, "reserved"),
        (pa.table({"a.b": [1]}), InvalidInputError, "dot"),
        (pa.table({"m": pa.array([], pa.month_day_nano_interval())}), UnsupportedTypeError, "type"),
    ],
)
def test_data_that_cannot_be_written(
    tmp_path: Path, data: Any, error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        pilum.write_dataset(data, tmp_path / "t")
    assert not files(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({}, DatasetAlreadyExistsError, "mode='append'"),
        ({"mode": "bogus"}, InvalidInputError, "mode"),
        ({"mode": "append", "max_rows_per_file": 0}, InvalidInputError, "max_rows_per_file"),
        ({"mode": "append", "data_storage_version": "2.3"}, UnsupportedVersionError, "2.3"),
        ({"mode": "append", "data_storage_version": "9"}, InvalidInputError, "unknown"),
        ({"mode": "append", "commit_message": 5}, InvalidInputError, "texts"),
        ({"mode": "append", "schema": "a int"}, InvalidInputError, "schema"),
    ],
)
def test_arguments_that_make_no_sense_write_nothing(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], reason: str
) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    before = files(tmp_path)
    with pytest.raises(error, match=reason):
        pilum.write_dataset(TABLE, tmp_path / "t", **arguments)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    "data",
    [pa.table({"other": [1]}), pa.table({"a": ["1"]}), pa.table({"a": [1], "more": [1]})],
)
def test_an_append_with_another_schema_writes_nothing(tmp_path: Path, data: pa.Table) -> None:
    pilum.write_dataset(TABLE, tmp_path / "t")
    before = files(tmp_path)
    with pytest.raises(SchemaMismatchError):
        pilum.write_dataset(data, tmp_path / "t", mode="append")
    assert files(tmp_path) == before


def test_input_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def produce() -> Iterator[pa.RecordBatch]:
        yield from TABLE.to_batches()
        raise KeyError("the source broke")

    with pytest.raises(KeyError, match="the source broke"):
        pilum.write_dataset(produce(), tmp_path / "t", max_rows_per_file=1)
    assert not files(tmp_path)


def test_batches_that_differ_leave_nothing(tmp_path: Path) -> None:
    data = iter([*TABLE.to_batches(), pa.RecordBatch.from_pydict({"a": ["no"]})])
    with pytest.raises(SchemaMismatchError, match="differ"):
        pilum.write_dataset(data, tmp_path / "t")
    assert not files(tmp_path)


def test_locations_without_a_store_are_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="hdfs"):
        pilum.write_dataset(TABLE, "hdfs://host/table")


def test_an_empty_table_keeps_its_schema(tmp_path: Path) -> None:
    found = pilum.write_dataset(TABLE.schema.empty_table(), tmp_path / "t")
    assert found.to_table().equals(TABLE.schema.empty_table())
    assert found.get_fragments() == []


def test_messages_travel_with_the_commit(tmp_path: Path) -> None:
    from pilum.storage.open import open_store
    from pilum.table.model.manifest_file import load_manifest_and_transaction
    from pilum.table.versions.commit_handler import list_manifests

    pilum.write_dataset(
        TABLE, tmp_path / "t", commit_message="first", transaction_properties={"job": "7"}
    )
    store = open_store(tmp_path / "t")
    _, transaction = load_manifest_and_transaction(store, list_manifests(store)[0].path)
    assert transaction is not None
    assert dict(transaction.transaction_properties) == {
        "job": "7",
        "__lance_commit_message": "first",
    }


def test_file_uris_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pilum.write_dataset(TABLE, f"file://{tmp_path}/t")
    monkeypatch.chdir(tmp_path)
    assert pilum.dataset("t").to_table().equals(TABLE)


@pytest.mark.parametrize("nulls", [False, True])
def test_batches_that_declare_nulls_fit_a_schema_without_if_they_have_none(
    tmp_path: Path, nulls: bool
) -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("s", pa.string())])
    batches = pa.table({"a": [1, None if nulls else 2], "s": ["x", None]}).to_batches()
    if nulls:
        with pytest.raises(SchemaMismatchError, match="'a' must not be null, but 1 values are"):
            pilum.write_dataset(iter(batches), tmp_path / "t", schema=schema)
        return
    found = pilum.write_dataset(iter(batches), tmp_path / "t", schema=schema)
    assert found.schema.equals(schema)
    assert found.to_table().to_pydict() == {"a": [1, 2], "s": ["x", None]}
