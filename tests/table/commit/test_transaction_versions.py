"""Row ids and versions that a commit gives to new rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import pilum
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.storage.local import LocalStore
from pilum.table.commit.operations.append import Append
from pilum.table.commit.operations.rewrite import Rewrite
from pilum.table.commit.operations.update import Update, UpdateMode
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.reuse_index import Move
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import StoredSequence
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.lineage import (
    lineage_of_fragments,
    lineage_of_rows,
    with_changed_rows,
    with_lineage,
)
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.write import write_fragments

pytestmark = pytest.mark.checklist("S2.12")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A table with stable row ids: fragments of 5 and 5 rows in version 1, of 5 in version 2."""
    table = pa.table({"a": range(10)})
    pilum.write_dataset(table, tmp_path / "t", enable_stable_row_ids=True, max_rows_per_file=5)
    pilum.write_dataset(table.slice(0, 5), tmp_path / "t", mode="append")
    return LocalStore(str(tmp_path / "t"))


def new_fragment(store: LocalStore, num_rows: int = 5) -> Fragment:
    schema = Snapshot.latest(store).schema
    batch = pa.record_batch([pa.array(range(num_rows))], schema=schema.arrow)
    (fragment,) = write_fragments(store, schema, [batch])
    return fragment


def append(store: LocalStore, *fragments: Fragment, read_version: int = 2) -> Manifest:
    return commit(store, Transaction(read_version, Append(fragments)))


def ids_of(fragment: Fragment) -> list[int]:
    assert isinstance(fragment.row_ids, bytes)
    sequence = RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows)
    listed: list[int] = sequence.ids().tolist()
    return listed


def versions_of(stored: StoredSequence | None) -> list[int]:
    assert isinstance(stored, bytes)
    listed: list[int] = VersionSequence.from_bytes(stored, 100).values().tolist()
    return listed


def test_new_rows_get_new_ids_and_the_version_of_their_commit(store: LocalStore) -> None:
    manifest = append(store, new_fragment(store))
    assert [ids_of(one) for one in manifest.fragments[1:]] == [
        [5, 6, 7, 8, 9],
        [10, 11, 12, 13, 14],
        [15, 16, 17, 18, 19],
    ]
    assert manifest.next_row_id == 20
    assert versions_of(manifest.fragments[-1].created_at) == [3] * 5
    assert versions_of(manifest.fragments[-1].updated_at) == [3] * 5


def test_a_commit_that_comes_later_than_planned_counts_anew(store: LocalStore) -> None:
    first, second = new_fragment(store), new_fragment(store)
    append(store, first)
    manifest = append(store, second)
    assert ids_of(manifest.fragments[-1]) == [20, 21, 22, 23, 24]
    assert versions_of(manifest.fragments[-1].created_at) == [4] * 5


def test_moved_rows_come_first_and_keep_what_they_were(store: LocalStore) -> None:
    moved = RowIdSequence.of(np.array([9, 12], dtype=np.uint64)).to_bytes()
    manifest = append(store, replace(new_fragment(store, 4), row_ids=moved))
    assert ids_of(manifest.fragments[-1]) == [9, 12, 15, 16]
    assert manifest.next_row_id == 17
    assert versions_of(manifest.fragments[-1].created_at) == [1, 2, 3, 3]
    assert versions_of(manifest.fragments[-1].updated_at) == [3, 3, 3, 3]


@pytest.mark.parametrize(
    ("ids", "message"), [(range(6), "more than the 5"), (range(14, 16), "the next new one is 15")]
)
def test_ids_that_do_not_fit_are_refused(store: LocalStore, ids: range, message: str) -> None:
    wrong = replace(new_fragment(store), row_ids=RowIdSequence.of(ids).to_bytes())
    with pytest.raises(InvalidInputError, match=message):
        append(store, wrong)
    assert Snapshot.latest(store).manifest.version == 2


def test_ids_of_no_row_are_refused(store: LocalStore) -> None:
    pilum.dataset(store.root).delete("a >= 5")  # the whole fragment with the ids from 5 on
    wrong = replace(new_fragment(store), row_ids=RowIdSequence.of(range(7, 8)).to_bytes())
    with pytest.raises(InvalidInputError, match="id 7, which no fragment has"):
        append(store, wrong, read_version=3)


def test_lineage_goes_with_the_rows(store: LocalStore) -> None:
    pilum.dataset(store.root).delete("a = 1")
    snapshot = Snapshot.latest(store)
    addresses = np.array([2 << 32 | 3, 4, 1 << 32, 2], dtype=np.uint64)
    moved = lineage_of_rows(snapshot, addresses)
    assert moved is not None
    written = [new_fragment(store, 3), new_fragment(store, 2), new_fragment(store, 2)]
    new = with_lineage(written, moved.to_update())
    manifest = append(store, *new, read_version=3)
    assert [ids_of(one) for one in manifest.fragments[-3:]] == [[13, 4, 5], [2, 15], [16, 17]]
    created = [versions_of(one.created_at) for one in manifest.fragments[-3:]]
    assert created == [[2, 1, 1], [1, 4], [4, 4]]
    kept = lineage_of_fragments(snapshot, snapshot.manifest.fragments)
    assert kept is not None
    assert kept.row_ids.ids().tolist() == [0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14]
    assert kept.created_at.values().tolist() == [1] * 9 + [2] * 4
    with pytest.raises(InvalidInputError, match="ids of 13 rows for 2"):
        with_lineage(written[-1:], kept)


def test_new_values_in_place(store: LocalStore) -> None:
    fragment = Snapshot.latest(store).manifest.fragments[0]
    some = with_changed_rows(fragment, np.array([4, 1]), 9)
    assert versions_of(some.updated_at) == [1, 9, 1, 1, 9]
    assert versions_of(with_changed_rows(fragment, None, 9).updated_at) == [9] * 5
    assert some.created_at == fragment.created_at
    plain = replace(fragment, row_ids=None, updated_at=None)
    assert with_changed_rows(plain, None, 9) == plain


def test_an_update_of_columns_says_which_rows_it_changed(store: LocalStore) -> None:
    first, second, _ = Snapshot.latest(store).manifest.fragments
    images = tuple(replace(one, row_ids=None, updated_at=None) for one in (first, second))
    offsets = {0: BitMap([1, 4]).serialize()}
    update = Update(images, mode=UpdateMode.COLUMNS, offsets=offsets)
    manifest = commit(store, Transaction(2, update))
    assert [versions_of(one.updated_at) for one in manifest.fragments[:2]] == [
        [1, 3, 1, 1, 3],
        [1, 1, 1, 1, 1],
    ]
    assert [ids_of(one) for one in manifest.fragments[:2]] == [[*range(5)], [*range(5, 10)]]
    for wrong in (b"no bitmap", BitMap([5]).serialize()):
        update = Update(images, mode=UpdateMode.COLUMNS, offsets={0: wrong})
        with pytest.raises(InvalidInputError, match="fragment 0"):
            commit(store, Transaction(3, update))


def test_a_rewrite_brings_the_ids_of_all_rows(store: LocalStore) -> None:
    old = Snapshot.latest(store).manifest.fragments[0]
    whole = with_lineage([new_fragment(store)], lineage_of_fragments(Snapshot.latest(store), [old]))
    part = RowIdSequence.of(range(4)).to_bytes()
    for new in (new_fragment(store), replace(whole[0], row_ids=part)):
        with pytest.raises(InvalidInputError, match="ids"):
            commit(store, Transaction(2, Rewrite((Move((old,), (new,)),))))
    manifest = commit(store, Transaction(2, Rewrite((Move((old,), whole),))))
    assert [ids_of(one)[0] for one in manifest.fragments] == [5, 10, 0]
    assert manifest.next_row_id == 15
    assert versions_of(manifest.fragments[-1].updated_at) == [1] * 5


@pytest.mark.parametrize("ids", [range(4), range(6), None])
def test_a_table_with_wrong_ids_is_damaged(store: LocalStore, ids: range | None) -> None:
    snapshot = Snapshot.latest(store)
    first, *others = snapshot.manifest.fragments
    wrong = replace(first, row_ids=None if ids is None else RowIdSequence.of(ids).to_bytes())
    damaged = replace(
        snapshot, manifest=replace(snapshot.manifest, fragments=Fragments([wrong, *others]))
    )
    with pytest.raises(CorruptFileError, match="fragment 0"):
        _ = damaged.reader(wrong).row_ids
    if ids is None:
        with pytest.raises(CorruptFileError, match="not in the fragments 0"):
            damaged.manifest.require_continuable("t")


def test_tables_without_stable_ids_take_none_from_elsewhere(
    store: LocalStore, tmp_path: Path
) -> None:
    pilum.write_dataset(pa.table({"a": [1]}), tmp_path / "plain")
    plain = LocalStore(str(tmp_path / "plain"))
    stable = Snapshot.latest(store).manifest.fragments[0]
    foreign = replace(new_fragment(plain, 5), row_ids=stable.row_ids, created_at=stable.created_at)
    manifest = append(plain, foreign, read_version=1)
    assert manifest.fragments[-1].row_ids is None
    assert manifest.fragments[-1].created_at is None
