"""The way from ids to rows, against a dict; and tables in which two rows have one id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.storage.local import LocalStore
from pilum.table.model.fragments import Fragments
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_row_ids

pytestmark = pytest.mark.checklist("S2.12")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """Four fragments of 8 rows; rows 1, 2 and 9 are deleted."""
    path = tmp_path_factory.mktemp("index") / "t"
    data = pa.table({"a": range(32)})
    dataset = pilum.write_dataset(data, path, enable_stable_row_ids=True, max_rows_per_file=8)
    dataset.delete("a in (1, 2, 9)")
    return Snapshot.latest(LocalStore(str(path)))


def with_ids(snapshot: Snapshot, *ids: list[int]) -> Snapshot:
    """The same version with other ids in its first fragments."""
    new = [RowIdSequence.of(np.array(some, dtype=np.uint64)).to_bytes() for some in ids]
    fragments = snapshot.manifest.fragments
    changed = Fragments(
        replace(fragment, row_ids=new[at]) if at < len(new) else fragment
        for at, fragment in enumerate(fragments)
    )
    manifest = replace(snapshot.manifest, fragments=changed)
    return replace(snapshot, manifest=manifest, session=Session())


@given(st.permutations(range(32, 64)), st.integers(0, 3))
def test_every_id_leads_to_its_row(table: Snapshot, ids: list[int], plain: int) -> None:
    slices = [ids[at : at + 8] for at in range(0, 32, 8)]
    parts = [sorted(one) if number < plain else one for number, one in enumerate(slices)]
    changed = with_ids(table, *parts)
    deleted = {(0, 1), (0, 2), (1, 1)}
    places = {
        one: number << 32 | offset
        for number, part in enumerate(parts)
        for offset, one in enumerate(part)
        if (number, offset) not in deleted
    }
    wanted = np.array([*range(30, 66), 40, 2**64 - 1], dtype=np.uint64)
    found, is_there = row_id_index(changed).find(wanted)
    assert is_there.tolist() == [one in places for one in wanted.tolist()]
    assert found[is_there].tolist() == [places[one] for one in wanted.tolist() if one in places]


def test_a_fragment_as_it_was_written_is_one_run(table: Snapshot) -> None:
    index = row_id_index(table)
    assert index.starts.tolist() == [0, 3, 8, 10, 16, 24]
    assert index.lengths.tolist() == [1, 5, 1, 6, 8, 8]
    assert row_id_index(table) is index


def test_what_is_known_of_rows_counts_in_the_session(table: Snapshot) -> None:
    ids = [list(range(at, at + 16, 2)) for at in range(100, 164, 16)]
    changed = with_ids(table, *ids)
    fragment = changed.manifest.fragments[0]
    reader = changed.reader(fragment)
    before = changed.session.metadata.size_bytes
    assert len(reader.row_ids) == 8
    assert changed.session.metadata.size_bytes >= before + 64


def test_an_id_that_moved_is_deleted_where_it_was(table: Snapshot) -> None:
    index = row_id_index(with_ids(table, [*range(8)], [9, 1, 10, 2, 11, 12, 13, 14]))
    found, is_there = index.find(np.array([1, 2, 9], dtype=np.uint64))
    assert is_there.tolist() == [False, True, True]
    assert found[1:].tolist() == [1 << 32 | 3, 1 << 32]


@pytest.mark.parametrize("first", [[16, 98, 99], [5, 98, 99], [50, 99, 50]])
def test_two_rows_with_one_id_are_damage(table: Snapshot, first: list[int]) -> None:
    with pytest.raises(CorruptFileError, match=f"two rows have the id {first[0]}"):
        row_id_index(with_ids(table, [*range(8)], [*first, *range(40, 45)]))


def test_rows_by_id(table: Snapshot) -> None:
    ids = np.array([30, 4, 9, 1000, 4, 0], dtype=np.uint64)
    found = take_row_ids(table, ids, ["a", "_rowid"])
    assert found.to_pydict() == {"a": [30, 4, 4, 0], "_rowid": [30, 4, 4, 0]}


def test_datasets_take_rows_by_id(tmp_path: Path) -> None:
    path = tmp_path / "t"
    data = pa.table({"a": range(10)})
    dataset = pilum.write_dataset(data, path, enable_stable_row_ids=True, max_rows_per_file=4)
    for ids in ([7, 3], (7, 3), np.array([7, 3]), pa.array([7, 3]), pa.chunked_array([[7], [3]])):
        assert dataset.take_rows(ids).to_pydict() == {"a": [7, 3]}
    assert dataset._take_rows([8], {"b": "a * 2"}).to_pydict() == {"b": [16]}
    assert dataset.take_rows([]).num_rows == 0
    for wrong in ([-1], [1.5], ["x"], [None], [2**64]):
        with pytest.raises(InvalidInputError, match="row_ids: expected integers"):
            dataset.take_rows(wrong)


def test_without_stable_ids_they_are_addresses(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": range(6)}), tmp_path / "t", max_rows_per_file=3)
    dataset.delete("a = 1")
    assert dataset.take_rows([1 << 32 | 2, 1, 0]).to_pydict() == {"a": [5, 0]}
    with pytest.raises(InvalidInputError, match="no row 0 in fragment 9"):
        dataset.take_rows([9 << 32])
