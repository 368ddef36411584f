"""Entries of a manifest that name a segment of something else, and rows that do not exist."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from table.indices.value_index import addresses

import pilum
from pilum.errors import CorruptFileError, UnsupportedTypeError
from pilum.format.pb import reuse_pb2, table_pb2
from pilum.format.rows import first_address
from pilum.index.answers import Answer, RowSet
from pilum.table.indices.open_segments import OpenSegment, open_segments

ROWS = 30


def made(path: Path, kind: str = "BTREE", **options: Any) -> pilum.LanceDataset:
    """Return a table with an index of "n"; the rows of the last fragment are not in the index."""
    numbers = pa.array([None if row % 11 == 0 else row * 7 % 13 for row in range(ROWS)], pa.int32())
    rows = pa.table({"i": range(ROWS), "n": numbers, "s": [f"text {row}" for row in range(ROWS)]})
    dataset = pilum.write_dataset(rows, path, **options)
    dataset.create_scalar_index("n", kind)
    dataset.insert(rows)
    return dataset


def change_entry(
    dataset: pilum.LanceDataset, change: Callable[[Any], None], name: str = "n_idx"
) -> None:
    """Change the entry of an index in the newest manifest."""
    path = min(Path(dataset.uri, "_versions").glob("*.manifest"))  # names count down
    data = path.read_bytes()
    (position,) = struct.unpack("<Q", data[-16:-8])
    size = struct.unpack_from("<I", data, position)[0]
    manifest = table_pb2.Manifest.FromString(data[position + 4 : position + 4 + size])
    start = manifest.index_section
    size = struct.unpack_from("<I", data, start)[0]
    section = table_pb2.IndexSection.FromString(data[start + 4 : start + 4 + size])
    change(next(one for one in section.indices if one.name == name))
    parts, manifest.index_section = [], 0
    manifest.ClearField("transaction_section")
    for message in (section, manifest):
        body = message.SerializeToString()
        parts.append(struct.pack("<I", len(body)) + body)
    path.write_bytes(b"".join(parts) + struct.pack("<Q", len(parts[0])) + data[-8:])


def to_field(number: int) -> Callable[[Any], None]:
    def change(entry: Any) -> None:
        entry.fields[:] = [number]

    return change


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"])
@pytest.mark.parametrize("field", [0, 2, 99])
def test_an_index_of_another_column_is_not_optimized(tmp_path: Path, kind: str, field: int) -> None:
    dataset = made(tmp_path / "t", kind)
    change_entry(dataset, to_field(field))
    damaged = pilum.dataset(dataset.uri, session=pilum.Session())
    expected = damaged.to_table()
    if kind != "BLOOMFILTER" or field == 99:  # its files do not tell the type of their values
        with pytest.raises(CorruptFileError, match=r"field 99|an index of int32 for column"):
            damaged.optimize.optimize_indices()
    assert pilum.dataset(dataset.uri).to_table().equals(expected)


def test_an_index_of_an_unknown_field_does_not_stop_a_compaction(tmp_path: Path) -> None:
    dataset = made(tmp_path / "t")
    dataset.delete("i < 20")
    change_entry(dataset, to_field(99))
    damaged = pilum.dataset(dataset.uri, session=pilum.Session())
    expected = damaged.to_table()
    with pytest.warns(RuntimeWarning, match="is not rewritten"):
        damaged.optimize.compact_files()
    assert pilum.dataset(dataset.uri).to_table().equals(expected)


def test_an_index_of_another_type_is_not_optimized(tmp_path: Path) -> None:
    def change(entry: Any) -> None:
        entry.index_details.type_url = "/lance.table.LabelListIndexDetails"

    dataset = made(tmp_path / "t", "BITMAP")
    change_entry(dataset, change)
    damaged = pilum.dataset(dataset.uri, session=pilum.Session())
    with pytest.raises(UnsupportedTypeError, match="must be a list"):
        damaged.optimize.optimize_indices()


def test_damaged_moves_name_their_record(tmp_path: Path) -> None:
    def change(entry: Any) -> None:
        details = reuse_pb2.FragmentReuseIndexDetails.FromString(entry.index_details.value)
        details.inline.versions[0].groups[0].changed_row_addrs = b"nonsense"
        entry.index_details.value = details.SerializeToString()

    dataset = made(tmp_path / "t", max_rows_per_file=15)
    dataset.optimize.compact_files(target_rows_per_fragment=30, defer_index_remap=True)
    change_entry(dataset, change, "__lance_frag_reuse")
    damaged = pilum.dataset(dataset.uri, session=pilum.Session())
    with pytest.raises(CorruptFileError, match="index __lance_frag_reuse"):
        damaged.count_rows("n = 7")


def opened(dataset: pilum.LanceDataset) -> OpenSegment:
    (segment,) = open_segments(dataset.snapshot, "n")
    return segment


def located(segment: OpenSegment, references: list[int]) -> list[int]:
    answer = segment.answer(Answer(RowSet.of(np.array(references, np.uint64))))
    found: list[int] = answer.rows.listed.tolist()
    return found


@pytest.mark.parametrize(
    ("rows_per_file", "known", "wrong"),
    [
        (30, [(0, 3), (0, 29)], (0, 30)),
        (30, [(0, row) for row in range(30)], (0, 2**32 - 1)),
        (1, [(row, 0) for row in range(20)], (21, 1)),
        (15, [(row // 15, row % 15) for row in range(30)], (0, 15)),
    ],
)
def test_rows_beyond_the_end_of_a_fragment_are_damage(
    tmp_path: Path, rows_per_file: int, known: list[tuple[int, int]], wrong: tuple[int, int]
) -> None:
    dataset = made(tmp_path / "t", max_rows_per_file=rows_per_file)
    segment, highest = opened(dataset), max(dataset.fragment_ids())
    right, not_covered = addresses(*known), first_address(highest)
    assert located(segment, [*right, not_covered]) == right
    for more in ([], [not_covered]):
        with pytest.raises(CorruptFileError, match="names rows that do not exist"):
            located(segment, [*right, first_address(wrong[0]) + wrong[1], *more])
    with pytest.raises(CorruptFileError, match="names rows that do not exist"):
        located(segment, [*right, first_address(highest + 1)])


def test_stable_ids_that_were_never_given_are_damage(tmp_path: Path) -> None:
    segment = opened(made(tmp_path / "t", enable_stable_row_ids=True))
    assert located(segment, [0, 29]) == addresses((0, 0), (0, 29))
    with pytest.raises(CorruptFileError, match="names rows that do not exist"):
        located(segment, [0, 2 * ROWS])
