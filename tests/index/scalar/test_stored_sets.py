"""Columns of sets: single ones are read, then all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from index.scalar.folders import Folders

from pilum.errors import CorruptFileError
from pilum.index.scalar import read_costs
from pilum.index.scalar.stored_sets import StoredSets

VALUES = [bytes([number]) * (number % 7) for number in range(200)]


def stored(path: Path, values: pa.Array) -> StoredSets:
    """Returns the column of a new file."""
    writer = Folders(str(path)).new()
    writer.write("sets.lance", pa.table({"sets": values}))
    return StoredSets(writer.written().open("sets.lance"), "sets")


@pytest.mark.parametrize("read_bytes", [0, 300, 1 << 20])
def test_sets_are_the_same_before_and_after_all_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(read_costs, "_READ_BYTES", read_bytes)
    sets = stored(tmp_path, pa.array(VALUES, pa.binary()))
    random = np.random.default_rng(4)
    was_whole = []
    for count in (1, 3, 1, 40, 1, 200, 0):
        places = np.sort(random.choice(len(VALUES), count, replace=False))
        assert sets.at(places).to_pylist() == [VALUES[place] for place in places]
        was_whole.append(sets.nbytes > 0)
    assert was_whole == sorted(was_whole)
    assert was_whole[-1] == (read_bytes > 0)
    assert was_whole[0] == (read_bytes > 300)


def test_a_large_file_is_not_read_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_costs, "_MOST_BYTES", 100)
    sets = stored(tmp_path, pa.array(VALUES, pa.binary()))
    assert sets.at(np.array([6])).to_pylist() == [VALUES[6]]
    assert sets.nbytes == 0
    sets.load()
    assert sets.nbytes > 0


@pytest.mark.parametrize("values", [[b"a", None], ["a", "b"]])
def test_a_column_of_other_values_is_damage(tmp_path: Path, values: list[object]) -> None:
    sets = stored(tmp_path, pa.array(values))
    with pytest.raises(CorruptFileError, match="sets of rows"):
        sets.load()
