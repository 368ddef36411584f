"""Columns by keys, and columns of single fragments that are committed together (S2.9)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
from pilum.errors import (
    ColumnNotFoundError,
    CommitConflictError,
    InvalidInputError,
    PilumError,
    SchemaMismatchError,
)

VERSIONS = ("2.0", "2.1", "2.2")


@pytest.fixture(params=VERSIONS)
def dataset(tmp_path: Path, request: pytest.FixtureRequest) -> pilum.LanceDataset:
    """Keys 0 to 9 without 4, in three fragments; 9 is null."""
    table = pa.table(
        {
            "k": pa.array([*range(9), None]),
            "v": [f"v{row}" for row in range(10)],
            "s": [{"x": [row], "y": row % 2 == 0} for row in range(10)],
        }
    )
    made = pilum.write_dataset(
        table, tmp_path / "t", max_rows_per_file=4, data_storage_version=request.param
    )
    made.delete("k = 4")
    return made


def state(dataset: pilum.LanceDataset) -> tuple[int, list[str]]:
    folder = Path(dataset.uri)
    return pilum.dataset(dataset.uri).version, sorted(map(str, folder.rglob("*")))


def test_columns_are_joined_by_keys(dataset: pilum.LanceDataset) -> None:
    other = pa.table({"key": [7, 77, 2, None, 2, 4], "w": [70, 0, 20, 90, 21, 40], "n": ["a"] * 6})
    dataset.merge(other.to_reader(max_chunksize=2), "k", "key")
    found = {row["k"]: (row["w"], row["n"]) for row in dataset.to_table().to_pylist()}
    assert found == dict.fromkeys((0, 1, 3, 5, 6, 8, None), (None, None)) | {
        2: (21, "a"),
        7: (70, "a"),
    }
    dataset.merge(pa.table({"k": pa.array([99]), "none": [[1]]}), "k")
    assert dataset.to_table(["none"])["none"].null_count == 9


def test_rows_are_joined_by_their_ids(dataset: pilum.LanceDataset) -> None:
    ids = dataset.to_table(["k"], with_row_id=True)
    dataset.merge(pa.table({"_rowid": ids["_rowid"], "again": ids["k"]}), "_rowid")
    found = dataset.to_table(["k", "again"])
    assert found["again"].equals(found["k"])


@pytest.mark.parametrize(
    ("data", "on", "error", "message"),
    [
        ({"k": [1], "v": ["x"]}, ("k",), SchemaMismatchError, "column 'v' already"),
        ({"k": ["1"], "w": ["x"]}, ("k",), SchemaMismatchError, "the keys differ"),
        ({"w": ["x"]}, ("k",), SchemaMismatchError, "no column 'k'"),
        ({"k": [1], "w": ["x"]}, ("q", "k"), ColumnNotFoundError, "'q'"),
        ({"k": [1]}, ("k",), InvalidInputError, "column"),
        ({"s": [{"x": [1], "y": True}], "w": [1]}, ("s",), InvalidInputError, "cannot be a key"),
    ],
)
def test_what_cannot_be_joined_changes_nothing(
    dataset: pilum.LanceDataset,
    data: dict[str, Any],
    on: tuple[str, ...],
    error: type[PilumError],
    message: str,
) -> None:
    before = state(dataset)
    with pytest.raises(error, match=message):
        dataset.merge(data, *on)
    assert state(dataset) == before


def test_a_value_for_each_row_is_demanded_where_nulls_are_not_allowed(
    dataset: pilum.LanceDataset,
) -> None:
    schema = pa.schema([("k", pa.int64()), pa.field("w", pa.int64(), nullable=False)])
    with pytest.raises(SchemaMismatchError, match="'w' must not be null"):
        dataset.merge(pa.table({"k": [1], "w": [1]}, schema=schema), "k")


def test_columns_of_fragments_are_committed_together(dataset: pilum.LanceDataset) -> None:
    def function(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch["v"]], ["copy"])

    fragments = dataset.get_fragments()
    grown = [
        fragments[0].merge_columns({"copy": "v"}),
        fragments[1].merge_columns(function, columns=["v"], batch_size=1),
        fragments[2].merge_columns(pa.table({"copy": ["v8", "v9"]})),
    ]
    assert all(schema == grown[0][1] for _, schema in grown)
    metadata = [pilum.FragmentMetadata.from_json(json.dumps(one.to_json())) for one, _ in grown]
    operation = pilum.LanceOperation.Merge(metadata, grown[0][1])
    after = pilum.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    found = after.to_table(["v", "copy"])
    assert found["v"].equals(found["copy"])
    assert dataset.schema.names == ["k", "v", "s"]
    with pytest.raises(CommitConflictError):
        pilum.LanceDataset.commit(dataset, operation, read_version=dataset.version)


def test_values_of_fragments_come_by_keys(dataset: pilum.LanceDataset) -> None:
    other = pa.table({"k": range(0, 9, 2), "w": range(0, 90, 20)})
    grown = [fragment.merge(other, "k") for fragment in dataset.get_fragments()]
    operation = pilum.LanceOperation.Merge([one for one, _ in grown], grown[0][1])
    after = pilum.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    assert after.to_table(["w"])["w"].to_pylist() == [0, None, 20, None, None, 60, None, 80, None]


def test_columns_get_other_values_in_place(dataset: pilum.LanceDataset) -> None:
    other = pa.table(
        {
            "key": [6, 1, 6, 99],
            "s": [{"x": [row, row], "y": None if row else True} for row in range(4)],
        }
    )
    images, fields, changed = [], list[int](), {}
    for fragment in dataset.get_fragments():
        image, fields, offsets = fragment.update_columns(other, "k", "key", with_offsets=True)
        images.append(image)
        changed[fragment.fragment_id] = list(BitMap.deserialize(offsets))
    assert changed == {0: [1], 1: [2], 2: []}
    operation = pilum.LanceOperation.Update(
        updated_fragments=images, fields_modified=fields, update_mode="rewrite_columns"
    )
    after = pilum.LanceDataset.commit(dataset, operation, read_version=dataset.version)
    found = after.to_table().to_pylist()
    assert [row["v"] for row in found] == [f"v{row}" for row in range(10) if row != 4]
    assert found[1]["s"] == {"x": [1, 1], "y": None}
    assert found[5]["s"] == {"x": [2, 2], "y": None}
    assert found[2]["s"] == {"x": [2], "y": True}
    assert len(after.get_fragments()[0].data_files()) == 2
    # All columns of the first file, so that it goes.
    fragment = after.get_fragments()[0]
    everything = pa.table({"_rowid": [0], "k": [5], "v": ["new"]}).cast(
        pa.schema([("_rowid", pa.uint64()), ("k", pa.int64()), ("v", pa.string())])
    )
    image, fields = fragment.update_columns(everything)
    operation = pilum.LanceOperation.Update(
        updated_fragments=[image], fields_modified=fields, update_mode="rewrite_columns"
    )
    last = pilum.LanceDataset.commit(dataset, operation, read_version=after.version)
    assert last.take([0]).to_pylist() == [{"k": 5, "v": "new", "s": {"x": [0], "y": True}}]
    assert len(last.get_fragments()[0].data_files()) == 2


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"k": [1], "w": [1]}, ColumnNotFoundError),
        ({"k": [1], "v": [1]}, SchemaMismatchError),
        ({"k": [1]}, InvalidInputError),
        ({"v": ["x"]}, SchemaMismatchError),
        ({"k": [1], "s": [{"y": True}]}, SchemaMismatchError),
    ],
)
def test_values_that_do_not_fit_leave_no_file(
    dataset: pilum.LanceDataset, data: dict[str, Any], error: type[PilumError]
) -> None:
    before = state(dataset)
    with pytest.raises(error):
        dataset.get_fragments()[0].update_columns(data, "k")
    assert state(dataset) == before
