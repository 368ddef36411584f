"""Fragments: open files are shared between versions that agree; sequences in another file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.errors import CorruptFileError, NotFoundError
from pilum.storage.local import LocalStore
from pilum.table.model.fragments import Fragments
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.model.stored_sequence import IN_HIDDEN_COLUMN, ExternalSequence, StoredSequence
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot


def test_versions_with_the_same_files_share_a_reader_only_if_they_agree(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(pa.table({"a": [1, 2], "b": [3, 4]}), tmp_path / "t")
    snapshot = dataset.snapshot
    (fragment,) = snapshot.manifest.fragments
    (file,) = fragment.files
    swapped = replace(fragment, files=(replace(file, fields=file.fields[::-1]),))
    # Of other names, as a file that has both by these names contradicts the other order.
    a, b = (replace(field, name=f"{field.name} renamed") for field in snapshot.schema.fields)

    def path_of(which: object) -> list[tuple[int, ...]]:
        reader = FragmentReader.of(snapshot.session, snapshot.store, which)  # type: ignore[arg-type]
        return [tuple(part.columns.values()) for field in (a, b) for part in reader._parts(field)]

    first = FragmentReader.of(snapshot.session, snapshot.store, fragment)
    assert FragmentReader.of(snapshot.session, snapshot.store, fragment) is first
    assert path_of(fragment) == [(0,), (1,)]
    assert path_of(swapped) == [(1,), (0,)]
    assert path_of(fragment) == [(0,), (1,)]


def test_a_file_that_is_not_legacy_has_no_batches_of_one(tmp_path: Path) -> None:
    snapshot = pilum.write_dataset(pa.table({"a": [1, 2]}), tmp_path / "t").snapshot
    (fragment,) = snapshot.manifest.fragments
    (file,) = fragment.files
    damaged = replace(fragment, files=(replace(file, major=0, minor=1),))
    reader = FragmentReader.of(snapshot.session, snapshot.store, damaged)
    with pytest.raises(CorruptFileError, match="which the manifest calls legacy"):
        assert reader.group_bounds


@pytest.fixture
def snapshot(tmp_path: Path) -> Snapshot:
    """Five rows; a file `ids` has the ids 7 to 11 behind three other bytes."""
    pilum.write_dataset(pa.table({"a": range(5)}), tmp_path / "t", enable_stable_row_ids=True)
    store = LocalStore(str(tmp_path / "t"))
    store.put("ids", b"abc" + RowIdSequence.of(range(7, 12)).to_bytes())
    return Snapshot.latest(store)


def with_ids(snapshot: Snapshot, stored: StoredSequence) -> Snapshot:
    (fragment,) = snapshot.manifest.fragments
    changed = Fragments([replace(fragment, row_ids=stored)])
    return replace(snapshot, manifest=replace(snapshot.manifest, fragments=changed))


@pytest.mark.checklist("S2.12")
def test_row_ids_in_another_file(snapshot: Snapshot) -> None:
    size = len(snapshot.store.read("ids"))
    moved = with_ids(snapshot, ExternalSequence("ids", 3, size - 3))
    (fragment,) = moved.manifest.fragments
    assert moved.reader(fragment).row_ids.pieces == (range(7, 12),)


@pytest.mark.checklist("S2.12")
@pytest.mark.parametrize(
    ("stored", "error", "message"),
    [
        (ExternalSequence("ids", 3, 99), CorruptFileError, "up to byte 102"),
        (ExternalSequence("ids", 0, 3), CorruptFileError, "fragment 0"),
        (ExternalSequence("../ids", 3, 1), CorruptFileError, "outside of the table"),
        (ExternalSequence("/ids", 3, 1), CorruptFileError, "outside of the table"),
        (ExternalSequence("none", 3, 1), NotFoundError, "none"),
        (IN_HIDDEN_COLUMN, CorruptFileError, "no data file has the hidden column _rowid"),
    ],
)
def test_what_is_not_there(
    snapshot: Snapshot, stored: StoredSequence, error: type[Exception], message: str
) -> None:
    broken = with_ids(snapshot, stored)
    (fragment,) = broken.manifest.fragments
    with pytest.raises(error, match=message):
        _ = broken.reader(fragment).row_ids
