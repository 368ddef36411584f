"""An append to a table of many fragments builds none of those that it does not touch."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

import pilum
from pilum.table.model.fragment import Fragment


@pytest.mark.parametrize("stable", [False, True])
def test_an_append_does_not_build_the_fragments_of_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    uri = str(tmp_path / "t.lance")
    rows = pa.table({"id": range(120)})
    pilum.write_dataset(rows, uri, max_rows_per_file=1, enable_stable_row_ids=stable)
    pilum.dataset(uri).delete("id = 7 or id = 8")
    built: list[int] = []
    original = Fragment.from_proto.__func__  # type: ignore[attr-defined]

    def counted(kind: type[Fragment], message: object) -> Fragment:
        found: Fragment = original(kind, message)
        built.append(int(found.id))
        return found

    monkeypatch.setattr(Fragment, "from_proto", classmethod(counted))
    for number in (120, 121):
        pilum.write_dataset(pa.table({"id": [number]}), uri, mode="append")
    assert len(built) <= 4  # one of each layout, to be checked
    monkeypatch.undo()
    assert lance.dataset(uri).to_table()["id"].to_pylist() == [*range(7), *range(9, 122)]
    if stable:
        ids = pilum.dataset(uri).to_table(columns=["_rowid", "id"])
        assert ids["_rowid"].to_pylist() == ids["id"].to_pylist()
