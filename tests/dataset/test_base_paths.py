"""Base paths of a dataset: data files in other folders, chosen by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum import DatasetBasePath, LanceDataset, LanceOperation, blob_array, blob_field
from pilum.dataset.base import publish
from pilum.dataset.write import Write, write_transaction
from pilum.errors import CommitConflictError, InvalidInputError
from pilum.fragment import write_fragments
from pilum.table.write.write import WriteOptions


def bases(tmp_path: Path) -> list[DatasetBasePath]:
    """A root of its own, a plain folder with an id, and one without a name."""
    return [
        DatasetBasePath(str(tmp_path / "root"), "root", is_dataset_root=True),
        DatasetBasePath(str(tmp_path / "plain"), "plain", id=7),
        DatasetBasePath((tmp_path / "nameless").as_uri()),
    ]


def base_ids(dataset: LanceDataset) -> list[int | None]:
    return [one.metadata.files[0].base_id for one in dataset.get_fragments()]


def values(dataset: LanceDataset) -> list[int]:
    return sorted(dataset.to_table()["a"].to_pylist())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_files_go_where_they_are_sent(tmp_path: Path) -> None:
    path, rows = tmp_path / "t", {"a": [1, 2, 3, 4, 5]}
    made = pilum.write_dataset(
        rows,
        path,
        initial_bases=bases(tmp_path),
        target_bases=["plain", "root"],
        max_rows_per_file=1,
    )
    assert base_ids(made) == [7, 1, 7, 1, 7]
    assert not (path / "data").exists()
    assert len(names(tmp_path / "plain")) == 3
    assert len(names(tmp_path / "root" / "data")) == 2
    found = made.base_paths()
    assert {number: base.name for number, base in found.items()} == {1: "root", 7: "plain", 2: None}
    last = pilum.write_dataset(
        rows, path, mode="append", target_all_bases=True, max_rows_per_file=1
    )
    assert base_ids(last)[5:] == [None, 1, 2, 7, None]
    pilum.write_dataset({"a": [6]}, path, mode="append", target_bases=[found[2].path])
    last.checkout_latest()
    assert values(last) == sorted([*rows["a"], *rows["a"], 6])
    last.delete("a < 5")
    last.optimize.compact_files()
    assert values(last) == [5, 5, 6]
    over = pilum.write_dataset({"a": [1]}, path, mode="overwrite", target_bases=["root"])
    assert (base_ids(over), values(over)) == ([1], [1])


def test_blobs_lie_beside_their_file(tmp_path: Path) -> None:
    large = bytes(range(256)) * 1024
    rows = pa.table([blob_array([large, b"small"])], schema=pa.schema([blob_field("b")]))
    for base in bases(tmp_path)[:2]:
        made = pilum.write_dataset(
            rows,
            tmp_path / f"t-{base.name}",
            initial_bases=[base],
            target_bases=[base.path],
            data_storage_version="2.2",
        )
        assert any(name.endswith(".blob") for name in names(Path(base.path)))
        found = [blob and blob.readall() for blob in made.take_blobs("b", indices=[0, 1])]
        assert found == [large, b"small"]
        assert names(Path(made.uri, "data")) == []


def test_fragments_written_elsewhere(tmp_path: Path) -> None:
    first, plain, _ = bases(tmp_path)
    rows = {"a": [1, 2]}
    transaction = write_fragments(
        rows,
        tmp_path / "t",
        mode="create",
        initial_bases=[first, plain],
        target_bases=["plain"],
        return_transaction=True,
    )
    made = LanceDataset.commit(tmp_path / "t", transaction)
    assert (base_ids(made), values(made)) == ([7], [1, 2])
    back = made.read_transaction(1)
    assert back
    assert isinstance(back.operation, LanceOperation.Overwrite)
    assert back.operation.initial_bases == [
        DatasetBasePath(first.path, "root", is_dataset_root=True, id=1),
        plain,
    ]
    more = write_fragments(rows, made, target_bases=["root"])
    made = LanceDataset.commit(made, LanceOperation.Append(more), read_version=1)
    assert (base_ids(made), values(made)) == ([7, 1], [1, 1, 2, 2])


def test_bases_are_added(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    assert dataset.base_paths() == {}
    assert dataset.add_bases(bases(tmp_path)[:1], {"why": "room"}) is dataset
    assert (dataset.version, list(dataset.base_paths())) == (2, [1])
    transaction = dataset.read_transaction(2)
    assert transaction
    assert transaction.transaction_properties == {"why": "room"}
    stale = dataset.checkout_version(1)
    stale.add_bases([DatasetBasePath(str(tmp_path / "x"), "x")])
    assert {number: base.name for number, base in stale.base_paths().items()} == {1: "root", 2: "x"}
    dataset.checkout_latest()
    dataset.insert({"a": [2]}, target_bases=["x"])
    assert base_ids(dataset) == [None, 2]
    dataset.checkout_version(1).restore()
    assert pilum.dataset(dataset.uri).base_paths() == {}


def test_two_who_take_one_name_conflict(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    stale = dataset.checkout_version(1)
    dataset.add_bases(bases(tmp_path))
    for clash in (
        DatasetBasePath("/other", "plain"),
        DatasetBasePath(str(tmp_path / "root"), "other"),
        DatasetBasePath("/other", "other", id=7),
    ):
        with pytest.raises(CommitConflictError) as found:
            stale.add_bases([clash])
        assert not found.value.retryable
        with pytest.raises(InvalidInputError, match="clashes"):
            dataset.add_bases([clash])
    assert dataset.latest_version == 2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"target_bases": ["none"]}, "no base path 'none'"),
        ({"target_bases": "root"}, "target_bases: expected a list"),
        ({"target_bases": ["root"], "target_all_bases": True}, "not both"),
        ({"initial_bases": ["x"]}, "DatasetBasePath"),
        ({"initial_bases": [DatasetBasePath("")]}, "DatasetBasePath"),
        ({"initial_bases": [DatasetBasePath("/a", id=-1)]}, "DatasetBasePath"),
        ({"initial_bases": [DatasetBasePath("/a", "x"), DatasetBasePath("/b", "x")]}, "clashes"),
        ({"initial_bases": [DatasetBasePath("/a"), DatasetBasePath("/a")]}, "clashes"),
    ],
)
def test_requests_that_make_no_sense(tmp_path: Path, arguments: Any, text: str) -> None:
    with pytest.raises(InvalidInputError, match=text):
        pilum.write_dataset({"a": [1]}, tmp_path / "t", **arguments)
    assert not list(tmp_path.iterdir())


def test_a_table_that_exists_takes_no_initial_bases(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    for mode in ("append", "overwrite"):
        with pytest.raises(InvalidInputError, match="add_bases"):
            pilum.write_dataset({"a": [1]}, dataset, mode=mode, initial_bases=bases(tmp_path))
    operation = LanceOperation.Overwrite(dataset.lance_schema, [], bases(tmp_path))
    with pytest.raises(InvalidInputError, match="add_bases"):
        LanceDataset.commit(dataset, operation, read_version=1)


def test_nothing_is_left_in_bases_by_what_fails(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t", initial_bases=bases(tmp_path))

    def batches() -> Any:
        yield pa.record_batch({"a": [1, 2, 3]})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dataset.insert(batches(), target_bases=["plain", "root"], max_rows_per_file=1)
    request = Write("append", WriteOptions(max_rows_per_file=1), all_bases=True)
    store = dataset.snapshot.store
    transaction = write_transaction(store, {"a": [1, 2, 3, 4]}, None, request)
    assert names(tmp_path / "plain")
    dataset.insert({"a": [2]}, mode="overwrite")
    with pytest.raises(CommitConflictError):
        publish(store, transaction)
    assert names(tmp_path / "plain") == names(tmp_path / "root") == []
    assert len(names(tmp_path / "t" / "data")) == 2
