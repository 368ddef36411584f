"""Dictionary columns of version 0.1: one dictionary per field for the whole table (S2.5)."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.errors import InvalidInputError, UnsupportedTypeError
from pilum.fragment import write_fragments

RANDOM = np.random.default_rng(1)
TEXTS = pa.DictionaryArray.from_arrays(
    pa.array(RANDOM.integers(0, 3, 3000), pa.int16()), pa.array(["a", "bb", "ccc"])
)
NUMBERS = pa.DictionaryArray.from_arrays(
    pa.array(RANDOM.integers(0, 3, 3000), pa.int32()), pa.array([10, 20, 30])
)
TABLE = pa.table(
    {
        "plain": range(3000),
        "text": TEXTS,
        "number": NUMBERS,
        "struct": pa.StructArray.from_arrays([TEXTS, NUMBERS], ["x", "y"]),
        "list": pa.ListArray.from_arrays(pa.array(range(3001), pa.int32()), TEXTS),
    }
)


def texts(*values: str) -> pa.Table:
    return pa.table({"d": pa.array(values).dictionary_encode()})


def readers() -> list[ModuleType]:
    return [pilum, pytest.importorskip("lance", reason="the reference is not installed")]


def assert_holds(path: Path, values: list[str]) -> None:
    """The reference must read the same: it goes by the dictionary of the manifest."""
    for reader in readers():
        found = reader.dataset(str(path))
        assert found.to_table()["d"].to_pylist() == values, reader.__name__
        assert found.take([len(values) - 1, 0])["d"].to_pylist() == [values[-1], values[0]]


@pytest.mark.reference
@pytest.mark.parametrize("ways", [(0, 1), (1, 0), (0, 0)])
def test_are_written_and_read(tmp_path: Path, ways: tuple[int, int]) -> None:
    writer, reader = (readers()[way] for way in ways)
    path = str(tmp_path / "t")
    writer.write_dataset(TABLE, path, data_storage_version="legacy", max_rows_per_file=2000)
    found = reader.dataset(path).to_table()
    found.validate(full=True)
    assert found.schema == TABLE.schema
    assert found.to_pylist() == TABLE.to_pylist()
    rows = [5, 2500, 1]
    assert reader.dataset(path).take(rows).to_pylist() == TABLE.take(rows).to_pylist()


@pytest.mark.reference
def test_different_dictionaries_become_one(tmp_path: Path) -> None:
    """In one batch of the file, in several, and over several files."""
    table = pa.concat_tables([texts("a", "b", "a"), texts("c", "b", "c"), texts("d", "d", "a")])
    for group, rows in ((1024, 1024), (2, 1024), (3, 4)):
        path = tmp_path / f"{group}-{rows}"
        pilum.write_dataset(
            table,
            path,
            data_storage_version="0.1",
            max_rows_per_group=group,
            max_rows_per_file=rows,
        )
        assert_holds(path, ["a", "b", "a", "c", "b", "c", "d", "d", "a"])


@pytest.mark.reference
def test_an_append_may_bring_values_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "t"
    pilum.write_dataset(texts("a", "b"), path, data_storage_version="legacy")
    pilum.write_dataset(texts("x", "b"), path, mode="append")
    assert_holds(path, ["a", "b", "x", "b"])
    readers()[1].write_dataset(
        pa.table(
            {
                "d": pa.DictionaryArray.from_arrays([2, 0], ["a", "b", "x"]).cast(
                    pa.dictionary(pa.int32(), pa.string())
                )
            }
        ),
        str(path),
        mode="append",
    )
    assert_holds(path, ["a", "b", "x", "b", "x", "a"])


@pytest.mark.reference
def test_fragments_of_several_writers(tmp_path: Path) -> None:
    """Those that only repeat go together; of those with different new values the second cannot."""
    path = tmp_path / "t"
    pilum.write_dataset(texts("a"), path, data_storage_version="legacy")
    version = pilum.dataset(path).version
    written = [write_fragments(texts(value), path) for value in ("a", "b", "c")]
    for fragments in written[:2]:
        pilum.LanceDataset.commit(path, pilum.LanceOperation.Append(fragments), version)
    with pytest.raises(
        InvalidInputError, match=r"column 'd': the dictionary of .* write them toge"
    ):
        pilum.LanceDataset.commit(path, pilum.LanceOperation.Append(written[2]), version)
    assert_holds(path, ["a", "a", "b"])


def test_what_would_be_lost(tmp_path: Path) -> None:
    path = tmp_path / "t"
    for values, message in ((["a", None], "1 nulls"), (["a", ""], "null or empty")):
        table = pa.table({"d": pa.array(values).dictionary_encode()})
        with pytest.raises(InvalidInputError, match=message):
            pilum.write_dataset(table, path, data_storage_version="legacy")
    floats = pa.table({"d": pa.array([1.5]).dictionary_encode()})
    with pytest.raises(UnsupportedTypeError, match="legacy files cannot store dictionary"):
        pilum.write_dataset(floats, path, data_storage_version="legacy")


@pytest.mark.parametrize("group", [100, 1024])
def test_too_many_values_for_the_keys(tmp_path: Path, group: int) -> None:
    keys = pa.array(range(100), pa.int8())
    parts = [
        pa.DictionaryArray.from_arrays(keys, [f"{first + n}" for n in range(100)])
        for first in (0, 100)
    ]
    with pytest.raises(InvalidInputError, match="column 'd': "):
        pilum.write_dataset(
            pa.table({"d": pa.chunked_array(parts)}),
            tmp_path / "t",
            data_storage_version="legacy",
            max_rows_per_group=group,
        )
