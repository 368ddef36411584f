"""Fragments and their open files: shared between versions only where they say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

import pilum
from pilum.table.read.fragment_files import FragmentReader


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
