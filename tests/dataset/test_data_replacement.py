"""Files take the place of others: values of columns, by hand (S2.9)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.dataset.metadata import DataFile
from pilum.errors import CommitConflictError, InvalidInputError, PilumError, SchemaMismatchError

Group = pilum.LanceOperation.DataReplacementGroup


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    table = pa.table({"a": range(6), "b": range(6), "c": [str(row) for row in range(6)]})
    made = pilum.write_dataset(table, tmp_path / "t", max_rows_per_file=3)
    made.add_columns(pa.field("n", pa.int64()))
    made.delete("a = 4")
    return made


def new_file(dataset: pilum.LanceDataset, fragment: int, **columns: Any) -> DataFile:
    """A file with some columns, with the ids of the table."""
    number = [one.fragment_id for one in dataset.get_fragments()].index(fragment)
    keys = dataset.get_fragments()[number].to_table(columns=["a"])
    data = keys.append_column("k", keys["a"]).drop_columns(["a"])
    for name, values in columns.items():
        data = data.append_column(name, pa.array(values))
    image, _ = dataset.get_fragments()[number].update_columns(data, "a", "k")
    return image.files[-1]


def commit(dataset: pilum.LanceDataset, *groups: Any) -> pilum.LanceDataset:
    operation = pilum.LanceOperation.DataReplacement(list(groups))
    return pilum.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def fields(dataset: pilum.LanceDataset) -> list[list[list[int]]]:
    return [[file.fields for file in one.data_files()] for one in dataset.get_fragments()]


def test_a_file_supplies_columns_of_its_fragment(dataset: pilum.LanceDataset) -> None:
    first = commit(dataset, Group(0, new_file(dataset, 0, b=[10, 11, 12])))
    assert first.to_table(["b"])["b"].to_pylist() == [10, 11, 12, 3, 5]
    assert fields(first) == [[[0, -2, 2], [1]], [[0, 1, 2]]]
    again = commit(first, Group(0, new_file(first, 0, b=[20, 21, 22])))
    assert again.to_table(["b"])["b"].to_pylist() == [20, 21, 22, 3, 5]
    assert fields(again) == [[[0, -2, 2], [1]], [[0, 1, 2]]]
    both = [
        Group(0, new_file(again, 0, n=[1, 2, 3])),
        Group(1, new_file(again, 1, n=[4, 5])),
    ]
    filled = commit(again, *both)
    assert filled.to_table(["n"])["n"].to_pylist() == [1, 2, 3, 4, 5]
    assert fields(filled) == [[[0, -2, 2], [1], [3]], [[0, 1, 2], [3]]]
    assert filled.to_table(filter="n > 3")["a"].to_pylist() == [3, 5]


def test_what_does_not_fit_changes_nothing(dataset: pilum.LanceDataset) -> None:
    good = new_file(dataset, 0, b=[1, 2, 3])
    short = new_file(pilum.write_dataset({"a": [0], "b": [1]}, dataset.uri + "2"), 0, b=[1])
    other = new_file(dataset, 1, n=[1, 2])
    unknown = DataFile(good.path, [9], [0], 2, 1, good.file_size_bytes)
    strange: Any = "file"
    cases: list[tuple[list[Any], type[PilumError], str]] = [
        ([Group(7, good)], InvalidInputError, "no fragment 7"),
        ([Group(0, good), Group(0, good)], InvalidInputError, "one file for each"),
        ([Group(0, good), Group(1, other)], InvalidInputError, "has the fields"),
        ([Group(0, unknown)], SchemaMismatchError, "no fields"),
        ([Group(0, strange)], InvalidInputError, "DataFile"),
        ([strange], InvalidInputError, "DataFile"),
    ]
    for groups, error, message in cases:
        with pytest.raises(error, match=message):
            commit(dataset, *groups)
    path = Path(dataset.uri, "data", short.path)
    Path(dataset.uri + "2", "data", short.path).rename(path)
    with pytest.raises(InvalidInputError, match="has 1 rows, fragment 0 3"):
        commit(dataset, Group(0, short))
    assert pilum.dataset(dataset.uri).version == dataset.version
    assert path.exists()  # whoever wrote it may try again


def test_others_may_have_changed_other_values_meanwhile(dataset: pilum.LanceDataset) -> None:
    files = [new_file(dataset, 0, b=[7, 8, 9]), new_file(dataset, 0, n=[1, 1, 1])]
    clash = new_file(dataset, 0, b=[0, 0, 0])
    pilum.dataset(dataset.uri).delete("a = 1")
    for file in files:
        commit(dataset, Group(0, file))
    with pytest.raises(CommitConflictError) as error:
        commit(dataset, Group(0, clash))
    assert error.value.retryable
    last = pilum.dataset(dataset.uri)
    assert last.to_table(["b", "n"]).to_pydict() == {
        "b": [7, 9, 3, 5],
        "n": [1, 1, None, None],
    }
    pilum.dataset(dataset.uri).delete("a < 3")
    with pytest.raises(CommitConflictError) as error:
        commit(last, Group(0, clash))
    assert not error.value.retryable


def test_the_history_tells_the_files(dataset: pilum.LanceDataset) -> None:
    file = new_file(dataset, 0, b=[1, 2, 3])
    after = commit(dataset, Group(0, file))
    found = after.read_transaction(after.version)
    assert found is not None
    assert found.operation == pilum.LanceOperation.DataReplacement([Group(0, file)])
