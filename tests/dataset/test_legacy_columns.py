"""Columns of tables of version 0.1 come, go and change (S2.5, S2.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.container.legacy.file import LegacyFile
from pilum.errors import InvalidInputError, UnsupportedTypeError, UnsupportedVersionError
from pilum.storage.open import open_store

TABLE = pa.table(
    {
        "k": range(20),
        "t": [f"text {row}" for row in range(20)],
        "s": [{"x": row, "y": f"{row}"} for row in range(20)],
    }
)


@pytest.fixture
def dataset(tmp_path: Path) -> pilum.LanceDataset:
    made = pilum.write_dataset(
        TABLE,
        tmp_path / "t",
        data_storage_version="0.1",
        max_rows_per_file=13,
        max_rows_per_group=5,
    )
    made.delete("k % 4 = 2")
    return made


def bounds_of(dataset: pilum.LanceDataset) -> list[list[list[int]]]:
    """Of each fragment and file, where the batches begin."""
    store = open_store(Path(dataset.uri) / "data")
    return [
        [
            LegacyFile.open(store.source(file.path)).metadata.batch_bounds.tolist()
            for file in fragment.data_files()
        ]
        for fragment in dataset.get_fragments()
    ]


def test_new_files_have_the_batches_of_those_that_are_there(dataset: pilum.LanceDataset) -> None:
    dataset.add_columns({"double": "k * 2"})
    keys = dataset.to_table(["k"])["k"].to_pylist()
    values = pa.table({"l": [[str(key)] * (key % 3 + 1) for key in keys]})
    dataset.add_columns(values.to_reader(max_chunksize=3))
    dataset.add_columns(
        lambda batch: pa.record_batch({"b": [v > 9 for v in batch["k"].to_pylist()]})
    )
    dataset.merge(pa.table({"key": [0, 7, 100], "word": ["a", "b", "c"]}), "k", "key")
    assert bounds_of(dataset) == [[[0, 5, 10, 13]] * 5, [[0, 5, 7]] * 5]
    found = dataset.to_table(["k", "double", "l", "b", "word"])
    words = {0: "a", 7: "b"}
    assert found.to_pylist() == [
        {
            "k": key,
            "double": key * 2,
            "l": [str(key)] * (key % 3 + 1),
            "b": key > 9,
            "word": words.get(key),
        }
        for key in keys
    ]
    assert dataset.to_table(["k"], filter="word = 'b' AND double > 3")["k"].to_pylist() == [7]
    assert dataset.take([14, 0, 3], ["double", "word"]).to_pylist() == [
        {"double": 38, "word": None},
        {"double": 0, "word": "a"},
        {"double": 8, "word": None},
    ]
    assert dataset.verify(deep=True).is_valid


def test_types_change_also_of_members(dataset: pilum.LanceDataset) -> None:
    dataset.alter_columns(
        {"path": "k", "data_type": pa.int16()}, {"path": "s.x", "data_type": pa.int32()}
    )
    dataset.add_columns(pa.table({"s": [{"z": row} for row in range(15)]}))
    dataset.drop_columns(["s.y"])
    assert dataset.schema.field("s").type == pa.struct([("x", pa.int32()), ("z", pa.int64())])
    assert dataset.to_table(["k", "s"]).slice(2, 2).to_pylist() == [
        {"k": 3, "s": {"x": 3, "z": 2}},
        {"k": 4, "s": {"x": 4, "z": 3}},
    ]
    assert dataset.verify(deep=True).is_valid


def test_columns_of_one_fragment_are_written_anew(dataset: pilum.LanceDataset) -> None:
    fragment, fields = dataset.get_fragments()[1].update_columns({"k": [15], "t": ["new"]}, "k")
    operation = pilum.LanceOperation.Update(
        [], [fragment], [], fields, update_mode="rewrite_columns"
    )
    made = pilum.LanceDataset.commit(dataset.uri, operation, read_version=dataset.version)
    assert made.to_table(["t"], filter="k IN (13, 15)")["t"].to_pylist() == ["text 13", "new"]
    assert bounds_of(made)[1] == [[0, 5, 7]] * 2


def test_rows_change_where_columns_came(dataset: pilum.LanceDataset) -> None:
    dataset.add_columns({"n": "k + 1"})
    dataset.update({"n": "n * 10"}, where="k = 3")
    rows = pa.table({"k": [4, 50], "t": ["a", "b"], "s": [{"x": 1, "y": "u"}] * 2, "n": [7, 8]})
    builder = dataset.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    builder.execute(rows)
    dataset.optimize.compact_files()
    assert len(dataset.get_fragments()) == 1
    found = dataset.to_table(["k", "n"], filter="k IN (3, 4, 5, 50)").sort_by("k").to_pylist()
    assert found == [{"k": 3, "n": 40}, {"k": 4, "n": 7}, {"k": 5, "n": 6}, {"k": 50, "n": 8}]
    dataset.add_columns({"m": "n"})
    assert dataset.to_table(["n", "m"], filter="n != m").num_rows == 0


@pytest.mark.parametrize(
    ("transforms", "error", "message"),
    [
        (pa.field("c", pa.int8()), UnsupportedVersionError, "without values"),
        (pa.field("s", pa.struct([("z", pa.int8())])), UnsupportedVersionError, "without values"),
        ({"c": "nullif(k, 1)"}, InvalidInputError, "null"),
        (
            pa.table({"d": pa.array(["a"] * 15).dictionary_encode()}),
            UnsupportedTypeError,
            "one dictionary",
        ),
    ],
)
def test_what_such_files_cannot_hold_is_refused_and_nothing_changes(
    dataset: pilum.LanceDataset, transforms: Any, error: type[Exception], message: str
) -> None:
    files = sorted(path.name for path in (Path(dataset.uri) / "data").iterdir())
    with pytest.raises(error, match=message):
        dataset.add_columns(transforms)
    assert sorted(path.name for path in (Path(dataset.uri) / "data").iterdir()) == files
    assert pilum.dataset(dataset.uri).version == dataset.version
    with pytest.raises(UnsupportedVersionError, match="without values"):
        dataset.insert(TABLE.append_column("more", pa.array(range(20))), schema_mode="merge")


@pytest.mark.parametrize("path", ["l.item", "s.l.item"])
def test_items_of_lists_change_with_their_list_only(tmp_path: Path, path: str) -> None:
    table = pa.table({"l": [[1], [2, 3]], "s": [{"l": [4]}, {"l": [5]}]})
    dataset = pilum.write_dataset(table, tmp_path / "t", data_storage_version="0.1")
    with pytest.raises(UnsupportedVersionError, match="change the whole list"):
        dataset.alter_columns({"path": path, "data_type": pa.int32()})
    assert len(list((tmp_path / "t" / "data").iterdir())) == 1
    dataset.alter_columns(
        {"path": path.removesuffix(".item"), "data_type": pa.list_(pa.int32())},
    )
    assert dataset.to_table().to_pylist() == table.to_pylist()
