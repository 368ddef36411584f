"""Legacy files of the reference implementation that must be read for ever (S2.5, S2.11).

A file that exists is never written again: a new case gets a new name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from container.files import MemorySource
from container.legacy.files import read_legacy

from pilum.container.legacy.file import LegacyFile
from pilum.container.legacy.statistics import read_zones
from pilum.format.rows import RowRanges

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One file.

    Attributes:
        shows: What it is there for.
        written: Its columns.
        read: What is left of them.
        group: Rows per batch.
    """

    shows: str
    written: Callable[[], pa.Table]
    read: Callable[[], pa.Table]
    group: int = 1024


def nested() -> pa.Table:
    return pa.table(
        {
            "bits": [n % 3 == 0 for n in range(11)],
            "vectors": pa.array([[n, -n] for n in range(11)], pa.list_(pa.int8(), 2)),
            "lists": [[f"{n}"] * (n % 3) for n in range(11)],
            "structs": [{"x": n / 2, "y": [{"z": n}]} for n in range(11)],
            "nulls": pa.nulls(11),
        }
    )


def lost() -> pa.Table:
    return pa.table({"i": [5, None, 7], "s": ["x", "", None], "l": [[1], None, []]})


def what_is_left() -> pa.Table:
    return pa.table({"i": [5, 0, 7], "s": ["x", None, None], "l": [[1], [], []]})


def strings() -> pa.Table:
    return pa.table({"s": ["hello", None, "world"]})


def long_strings() -> pa.Table:
    return pa.table({"s": ["a" * 63 + "é", "z", "b", None], "b": [b"\xff" * 65, b"", b"", None]})


def without_empty() -> pa.Table:
    return long_strings().set_column(1, "b", [[b"\xff" * 65, None, None, None]])


CASES = {
    "strings": Case("three strings, one of them null", strings, strings),
    "batches": Case("every kind of page in batches of four rows", nested, nested, 4),
    "lost_nulls": Case("nulls that are read as other values", lost, what_is_left),
    "cut_bounds": Case("statistics of long strings", long_strings, without_empty, 2),
}


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.lance"


def write(name: str, case: Case) -> None:
    """Writes a file with the reference implementation."""
    lance = pytest.importorskip("lance")
    with TemporaryDirectory() as folder:
        lance.write_dataset(
            case.written(), folder, data_storage_version="legacy", max_rows_per_group=case.group
        )
        [found] = (Path(folder) / "data").iterdir()
        path_of(name).write_bytes(found.read_bytes())


@pytest.mark.parametrize("name", CASES)
def test_is_read(name: str, update_golden: bool) -> None:
    case = CASES[name]
    if update_golden and not path_of(name).exists():
        write(name, case)
    data, expected = path_of(name).read_bytes(), case.read()
    assert read_legacy(data) == expected
    for row in range(expected.num_rows):
        found = read_legacy(data, RowRanges.of_rows(np.array([row])))
        assert found == expected.slice(row, 1)


def test_bounds_of_what_was_cut() -> None:
    file = LegacyFile.open(MemorySource(path_of("cut_bounds").read_bytes()))
    zones = {field.name: read_zones(file, field) for field in file.schema.fields}
    texts, bytes_ = zones["s"], zones["b"]
    assert texts
    assert bytes_
    assert texts.row_bounds.tolist() == [0, 2, 4]
    assert texts.least.to_pylist() == ["a" * 63, "b"]
    assert texts.most.to_pylist() == ["{", "b"]
    assert texts.may_be_null.tolist() == [False, True]
    assert bytes_.most.to_pylist() == [None, None]
    assert bytes_.may_be_null.tolist() == [True, True]


def test_every_file_is_explained() -> None:
    explained = (FOLDER / "README.md").read_text()
    assert {path.stem for path in FOLDER.glob("*.lance")} == set(CASES)
    for name, case in CASES.items():
        assert f"- `{name}.lance`: {case.shows}." in explained
