"""Writes report their fragments to objects that users pass."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pilum
from pilum.errors import InvalidInputError
from pilum.progress import (
    FileSystemFragmentWriteProgress,
    FragmentWriteProgress,
    NoopFragmentWriteProgress,
)


class _Recorder(FragmentWriteProgress):
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def begin(self, fragment: Any, **kwargs: Any) -> None:
        self.seen.append(("begin", fragment.id, fragment.physical_rows))

    def complete(self, fragment: Any, **kwargs: Any) -> None:
        self.seen.append(("complete", fragment.id, fragment.physical_rows))


def test_a_write_reports_its_fragments(tmp_path: Path) -> None:
    rows = {"a": list(range(5))}
    for write in (pilum.write_dataset, pilum.fragment.write_fragments):
        recorder = _Recorder()
        write(rows, tmp_path / write.__name__, max_rows_per_file=3, progress=recorder)
        expected = [("begin", 0, 0), ("complete", 0, 3), ("begin", 1, 0), ("complete", 1, 2)]
        assert recorder.seen == expected
    recorder = _Recorder()
    pilum.LanceFragment.create(tmp_path / "one", rows, progress=recorder)
    assert recorder.seen == [("begin", 0, 0), ("complete", 0, 5)]
    with pytest.raises(InvalidInputError, match="progress"):
        pilum.write_dataset(rows, tmp_path / "t", progress=print)  # type: ignore[arg-type]


def test_fragments_in_progress_have_files(tmp_path: Path) -> None:
    folder = tmp_path / "progress"
    progress = FileSystemFragmentWriteProgress(str(folder), {"worker": "7"})
    begun: list[list[str]] = []

    class Watched(FileSystemFragmentWriteProgress):
        def complete(self, fragment: Any, **kwargs: Any) -> None:
            begun.append(sorted(file.name for file in folder.iterdir()))
            super().complete(fragment, **kwargs)

    watched = Watched(folder.as_uri(), {"worker": "7"})
    pilum.write_dataset({"a": [1, 2]}, tmp_path / "t", max_rows_per_file=1, progress=watched)
    assert begun == [
        ["fragment_0.in_progress", "fragment_0.json"],
        ["fragment_0.json", "fragment_1.in_progress", "fragment_1.json"],
    ]
    fragment = pilum.FragmentMetadata.from_json((folder / "fragment_1.json").read_text())
    progress.begin(fragment)
    facts = json.loads((folder / "fragment_1.in_progress").read_text())
    assert facts == {"fragment_id": 1, "metadata": {"worker": "7"}}
    NoopFragmentWriteProgress().complete(fragment)
