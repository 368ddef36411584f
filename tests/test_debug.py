"""The parts of a table as text."""

from __future__ import annotations

from pathlib import Path

import pilum
from pilum import debug


def test_texts_name_what_a_table_has(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1, 2], "s": [{"x": 1}, {"x": 2}]}, tmp_path / "t")
    dataset.delete("a = 1")
    (fragment,) = dataset.get_fragments()
    name = fragment.metadata.files[0].path
    assert debug.format_schema(dataset).splitlines()[0] == "a: int64 (field 0)"
    manifest = debug.format_manifest(dataset)
    for part in ("version: 2", "reader_flags", name, "  x: int64 (field 2)", "num_deleted_rows"):
        assert part in manifest
    text = debug.format_fragment(fragment.metadata, dataset)
    assert name in text
    assert "['a', 's.x']" in text
    newest, oldest = debug.list_transactions(dataset)
    assert "Delete" in newest
    assert "Overwrite" in oldest
    assert len(debug.list_transactions(dataset, max_transactions=1)) == 1
