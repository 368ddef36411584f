"""How levels are stored: flat, packed, or since 2.2 in runs if chunks have room for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from container.files import read_table, write_table

from pilum.encodings.compressive.bitpacking import OutOfLineBitpacking
from pilum.encodings.compressive.flat import Flat
from pilum.encodings.compressive.rle import Rle
from pilum.encodings.structural.mini_block_writer import level_encodings
from pilum.format.version import FileVersion
from pilum.levels import ravel

OLD, NEW = FileVersion.V2_1, FileVersion.V2_2


def lists(lengths: np.ndarray) -> pa.Array:
    offsets = np.append(0, np.cumsum(lengths)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1]) % 50))


def encodings(array: pa.Array, version: FileVersion) -> list[object]:
    return [made.encoding for made in level_encodings(ravel(array)[0], version)]


def test_few_levels_are_flat_and_many_are_packed() -> None:
    assert encodings(lists(np.full(4, 2)), NEW) == [Flat(16), None]
    assert encodings(lists(np.full(10_000, 2)), NEW) == [OutOfLineBitpacking(16, 1), None]
    assert encodings(lists(np.full(512, 2)), NEW) == [OutOfLineBitpacking(16, 1), None]


def test_runs_are_for_newer_files() -> None:
    """S4.9: run-length encoding of levels."""
    array = pa.array([[1] * 300, None, [2] * 300])
    assert encodings(array, NEW) == [Rle(16), Rle(16)]
    assert Rle(16) not in encodings(array, OLD)


def test_more_runs_than_a_chunk_has_room_for_are_packed() -> None:
    """Run-lengths would be smaller, but not where lists alternate."""
    calm = np.full(60, 50_000)
    assert encodings(lists(calm), NEW)[0] == Rle(16)
    assert encodings(lists(np.append(calm, np.ones(60_000, int))), NEW)[0] == Rle(16)
    hectic = np.append(calm, np.tile([1, 2], 30_000))
    assert encodings(lists(hectic), NEW)[0] == OutOfLineBitpacking(16, 1)


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
@pytest.mark.parametrize("length", [100, 4096, 5000, 70_000])
def test_long_lists(length: int, version: FileVersion) -> None:
    array = lists(np.full(200_000 // length + 1, length))
    assert read_table(write_table(pa.table({"l": array}), version=version)[0])["l"].equals(
        pa.chunked_array([array])
    )


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
def test_lists_without_items(version: FileVersion) -> None:
    """S4.3: a page of levels alone."""
    array = pa.array([[]] * 70_000 + [None] * 70_000 + [[None]] * 9, pa.list_(pa.string()))
    data, _ = write_table(pa.table({"l": array}), version=version)
    assert read_table(data)["l"].equals(pa.chunked_array([array]))
    assert len(data) < (8_000 if version is NEW else 700_000)


@pytest.mark.parametrize("version", [OLD, NEW], ids=str)
def test_structs_that_are_null_over_valid_members_have_no_values(version: FileVersion) -> None:
    members = pa.array(np.random.default_rng(3).random(50_000))
    array = pa.StructArray.from_arrays([members], ["m"], mask=pa.array([True] * 50_000))
    data, _ = write_table(pa.table({"s": array}), version=version)
    assert read_table(data)["s"].null_count == 50_000
    assert len(data) < (2_000 if version is NEW else 102_000)
