"""Fragments: reading one, and writing without committing."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.fragment import FragmentMetadata, LanceFragment, write_fragments

TABLE = pa.table({"a": list(range(10)), "s": [str(row) for row in range(10)]})


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    """Ten rows in fragments of 4, 4 and 2."""
    return pilum.write_dataset(TABLE, tmp_path / "t", max_rows_per_file=4)


def test_reading_a_fragment(dataset: pilum.LanceDataset) -> None:
    fragment = dataset.get_fragments()[1]
    rows = TABLE.slice(4, 4)
    assert (fragment.fragment_id, fragment.physical_rows, fragment.num_deletions) == (1, 4, 0)
    assert fragment.schema == TABLE.schema
    assert fragment.to_table().equals(rows)
    assert pa.Table.from_batches(fragment.to_batches(batch_size=1)).equals(rows)
    assert fragment.head(2).equals(rows.slice(0, 2))
    assert fragment.take([3, 0, 0]).equals(rows.take([3, 0, 0]))
    assert fragment.take([1], {"twice": "a * 2"}).to_pydict() == {"twice": [10]}
    assert (fragment.count_rows(), fragment.count_rows("a > 5")) == (4, 2)
    found = fragment.to_table(["a"], "a > 4", limit=2, offset=1, with_row_id=True)
    assert found.to_pydict() == {"a": [6, 7], "_rowid": [(1 << 32) + 2, (1 << 32) + 3]}
    with pytest.raises(InvalidInputError, match="no row 4"):
        fragment.take([4])


def test_scanning_some_fragments(dataset: pilum.LanceDataset) -> None:
    scanner = dataset.scanner(["a"], "a <> 0", fragments=dataset.get_fragments()[::2])
    assert scanner.to_table()["a"].to_pylist() == [1, 2, 3, 8, 9]
    assert scanner.count_rows() == 5


def test_a_fragment_that_does_not_exist(dataset: pilum.LanceDataset) -> None:
    assert dataset.get_fragment(7) is None
    with pytest.raises(InvalidInputError, match="no fragment 7"):
        LanceFragment(dataset, 7)


def test_metadata_goes_through_json(dataset: pilum.LanceDataset) -> None:
    for fragment in dataset.get_fragments():
        metadata = fragment.metadata
        assert metadata.num_rows == metadata.physical_rows == fragment.count_rows()
        assert metadata.files == fragment.data_files()
        again = FragmentMetadata.from_json(json.dumps(metadata.to_json()))
        assert again == metadata
        assert again.to_table() == metadata.to_table()


def test_metadata_has_the_form_of_the_reference(tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason="the reference is not installed")
    theirs = lance.write_dataset(TABLE, tmp_path / "t", data_storage_version="2.1")
    expected = theirs.get_fragments()[0].metadata.to_json()
    assert pilum.dataset(tmp_path / "t").get_fragments()[0].metadata.to_json() == expected
    assert lance.FragmentMetadata.from_json(json.dumps(expected)).physical_rows == 10


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no json", InvalidInputError),
        ("{}", InvalidInputError),
        ("[]", InvalidInputError),
        (
            '{"id": 0, "files": [], "physical_rows": 1, "overlays": [{}]}',
            InvalidInputError,
        ),
    ],
)
def test_metadata_that_is_none(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        FragmentMetadata.from_json(text)


def test_fragments_are_invisible_until_they_are_committed(dataset: pilum.LanceDataset) -> None:
    written = write_fragments(TABLE, dataset, max_rows_per_file=6)
    assert [fragment.num_rows for fragment in written] == [6, 4]
    assert dataset.latest_version == 1
    operation = pilum.LanceOperation.Append(written)
    found = pilum.LanceDataset.commit(dataset.uri, operation, read_version=1)
    assert (found.version, found.count_rows()) == (2, 20)
    assert [fragment.fragment_id for fragment in found.get_fragments()] == [0, 1, 2, 3, 4]


def test_fragments_of_an_append_must_fit_the_table(dataset: pilum.LanceDataset) -> None:
    with pytest.raises(SchemaMismatchError):
        write_fragments({"other": [1]}, dataset)


def test_fragments_travel_to_other_processes(dataset: pilum.LanceDataset) -> None:
    """They stay at their version, whatever becomes of the dataset that they are from."""
    fragment = dataset.get_fragments()[0]
    dataset.delete("true")
    found = pickle.loads(pickle.dumps(fragment))
    assert found.fragment_id == fragment.fragment_id
    assert found.to_table().equals(fragment.to_table())
    assert found.count_rows() > 0
