"""Files of version 2.3, which is not final: those of the reference are read or refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from interop.comparison import assert_same
from matrix.axes import KINDS, NULLS
from matrix.columns import column_of, field_of

import pilum
import pilum.file
from pilum.errors import UnsupportedFormatError, UnsupportedVersionError

lance = pytest.importorskip("lance", reason="the reference implementation is not installed")

pytestmark = pytest.mark.reference

_ROWS = 1500
_REFUSED = (
    "strings with offsets as|compressed runs are|a dictionary of wide values is|"
    "counts in a dictionary is"
)
_KINDS = [
    "int8",
    "uint64",
    "bool",
    "string",
    "fixed_size_list<float>[3]",
    "struct<int32, string>",
    "struct<list<int32>>",
    "struct<>",
    "list<int32>",
    "list<list<int16>>",
    "list<struct<int32, string>>",
    "map<string, int32>",
    "dictionary<int8, string>",
    "large_list<int64>",
]
"""Kinds whose pages cover each layout of structures and values."""


def written(path: Path, table: pa.Table) -> str:
    with lance.file.LanceFileWriter(str(path), table.schema, version="2.3") as writer:
        writer.write_batch(table)
    return str(path)


def read_or_refused(reader: pilum.file.LanceFileReader) -> pa.Table | None:
    try:
        return reader.read_all().to_table()
    except UnsupportedFormatError as error:
        if re.search(_REFUSED, str(error)):
            return None
        raise


def pick(table: pa.Table) -> list[int]:
    return sorted({0, 1, 7, table.num_rows // 2, table.num_rows - 1})


@pytest.mark.parametrize("shape", ["random", "random long", "few", "runs", "constant"])
@pytest.mark.parametrize("nulls", NULLS)
def test_what_the_reference_writes(nulls: str, shape: str, tmp_path: Path) -> None:
    count = 0
    for name in _KINDS:
        kind = KINDS[name]
        size = 90 if shape == "random long" else _ROWS
        column = column_of(kind, nulls, shape, size, "defaults", 5)
        table = pa.table([column], schema=pa.schema([field_of(kind, "defaults")]))
        path = written(tmp_path / f"{count}.lance", table)
        expected = lance.file.LanceFileReader(path).read_all().to_table()
        reader = pilum.file.LanceFileReader(path)
        assert (reader.metadata().major_version, reader.metadata().minor_version) == (2, 3)
        if (found := read_or_refused(reader)) is None:
            continue
        assert_same(found, expected)
        rows = pick(table)
        assert_same(reader.take_rows(rows).to_table(), expected.take(rows))
        count += 1
    assert count >= len(_KINDS) // 2


def rows(start: int) -> pa.Table:
    numbers = range(start, start + _ROWS)
    return pa.table(
        {
            "number": pa.array([None if n % 7 == 3 else n for n in numbers], pa.int64()),
            "same": pa.array([None if n % 5 == 2 else 4.5 for n in numbers]),
            "lists": pa.array([None if n * n % 11 == 4 else [n] * (n * n % 5) for n in numbers]),
            "vector": pa.FixedSizeListArray.from_arrays(
                np.arange(4 * start, 4 * (start + _ROWS), dtype="f4"), 4
            ),
        }
    )


def test_tables_are_read_and_lose_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(rows(0), path, data_storage_version="2.3", max_rows_per_file=600)
    dataset, other = pilum.dataset(path), lance.dataset(path)
    assert dataset.data_storage_version == "2.3"
    assert dataset.to_table().equals(other.to_table())
    for where in ("number > 700", "same IS NULL", "same = 4.5", "lists IS NULL", "number IN (9)"):
        assert dataset.to_table(filter=where).equals(other.to_table(filter=where)), where
        assert dataset.count_rows(where) == other.count_rows(where), where
    assert dataset.take([1499, 3, 601]).equals(other.take([1499, 3, 601]))
    dataset.delete("number < 100")
    assert dataset.to_table().equals(lance.dataset(path).to_table())
    assert not (found := dataset.verify(deep=True)).damaged + found.missing + found.misread


CHANGES: dict[str, Callable[[pilum.LanceDataset], Any]] = {
    "append": lambda one: one.insert(rows(0)),
    "update": lambda one: one.update({"number": "1"}, where="number = 5"),
    "compact": lambda one: one.optimize.compact_files(),
    "column": lambda one: one.add_columns({"more": "number + 1"}),
    "index": lambda one: one.create_scalar_index("number", "BTREE"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_written_in_it(change: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    lance.write_dataset(rows(0), path, data_storage_version="2.3", max_rows_per_file=600)
    dataset = pilum.dataset(path)
    with pytest.raises(UnsupportedVersionError, match=r"files of version 2\.3 are read only"):
        CHANGES[change](dataset)
    assert pilum.dataset(path).version == 1
