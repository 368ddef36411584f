"""What has reached the device when a commit becomes visible, and when it is acknowledged."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pilum
from pilum.errors import CommitError
from pilum.fragment import write_fragments
from pilum.storage import durable
from pilum.storage.local import pending_of


class Device:
    """The module `os` as the local store sees it; tells what would survive a loss of power."""

    def __init__(self) -> None:
        self.synced: set[str] = set()
        self.syncs: list[str] = []
        self.published: list[tuple[str, set[str]]] = []
        self.fails_at = ""
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if self.fails_at and self.fails_at in path:
            raise OSError(5, "the device is broken", path)
        os.fsync(descriptor)
        with self._lock:
            self.synced.add(path)
            self.syncs.append(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)
        with self._lock:
            if source in self.synced:
                self.synced.add(target)
            self._changed(target)

    def link(self, source: str, target: str) -> None:
        with self._lock:
            self.published.append((target, set(self.synced)))
            assert source in self.synced
            self._changed(target)
        os.link(source, target)

    def _changed(self, target: str) -> None:
        if not target.endswith(".json"):  # the hint may be lost
            self.synced.discard(os.path.dirname(target))


ROWS = pa.table({"id": pa.array(range(100), pa.int64())})

CHANGES: dict[str, Callable[[pilum.LanceDataset], Any]] = {
    "append": lambda dataset: dataset.insert(ROWS),
    "delete": lambda dataset: dataset.delete("id % 10 = 7"),
    "update": lambda dataset: dataset.update({"id": "id + 1000"}, where="id % 10 = 7"),
    "merge": lambda dataset: (
        dataset.merge_insert("id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute(pa.table({"id": pa.array(range(50, 150), pa.int64())}))
    ),
    "add a column": lambda dataset: dataset.add_columns({"twice": "id * 2"}),
}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    monkeypatch.setitem(vars(durable), "os", found)
    return found


def written(path: Path) -> set[str]:
    """Data files and deletion files, and their folders."""
    folders = [path / "data", path / "_deletions"]
    files = [file for folder in folders if folder.exists() for file in folder.iterdir()]
    return {str(one) for one in [*files, *(f for f in folders if f.exists())]}


@pytest.mark.parametrize("change", CHANGES)
def test_a_visible_manifest_names_only_what_is_on_the_device(
    device: Device, tmp_path: Path, change: str
) -> None:
    dataset = pilum.write_dataset(ROWS, tmp_path, max_rows_per_file=50)
    CHANGES[change](dataset)
    _, synced = device.published[-1]
    assert written(tmp_path) <= synced
    assert str(tmp_path / "_versions") in device.synced
    assert pending_of(dataset.snapshot.store) is None


def test_a_folder_is_synced_once_for_all_files_of_a_commit(device: Device, tmp_path: Path) -> None:
    pilum.write_dataset(ROWS, tmp_path, max_rows_per_file=5)
    data_files = [path for path in device.syncs if path.endswith(".lance")]
    assert len(data_files) == 20
    assert device.syncs.count(str(tmp_path / "data")) == 1


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        *(
            (change, part)
            for change in CHANGES
            if change != "delete"
            for part in (".lance", "/data")
        ),
        *((change, "_deletions") for change in ("delete", "update", "merge")),
    ],
)
def test_nothing_is_committed_if_the_device_fails(
    device: Device, tmp_path: Path, change: str, broken: str
) -> None:
    dataset = pilum.write_dataset(ROWS, tmp_path)
    before = written(tmp_path)
    device.fails_at = broken
    with pytest.raises((CommitError, OSError), match="the device is broken"):
        CHANGES[change](dataset)
    device.fails_at = ""
    assert {one for one in written(tmp_path) if not one.endswith("_deletions")} == before
    again = pilum.dataset(tmp_path)
    assert again.version == 1
    assert again.to_table() == ROWS


def test_what_a_generator_writes_on_the_way_is_durable_when_it_is_told(
    device: Device, tmp_path: Path
) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        (one,) = write_fragments(ROWS, tmp_path / "other", mode="create")
        (file,) = one.files
        assert str(tmp_path / "other" / "data" / file.path) in device.synced
        yield from ROWS.to_batches()

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    pilum.write_dataset(reader, tmp_path / "table")
