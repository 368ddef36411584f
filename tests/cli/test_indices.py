"""`pilum index`: indices are created, listed, shown, optimized and dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import pilum
from pilum.cli.main import main


def test_an_index_from_its_creation_to_its_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    uri = str(tmp_path / "table")
    dataset = pilum.write_dataset(pa.table({"a": range(10), "b": range(10)}), uri)
    create = ["index", "create", uri, "a", "btree"]
    assert main([*create, "--name", "by a", "--set", "zone_size=4"]) == 0
    assert main([*create, "--name", "by a"]) == 1
    assert "IndexAlreadyExistsError" in capsys.readouterr().err
    assert main([*create, "--name", "by a", "--replace", "--set", "zone_size=5"]) == 0
    assert main([*create, "--set", "zone_size"]) == 1
    assert "expected NAME=VALUE" in capsys.readouterr().err
    dataset.insert(pa.table({"a": [10], "b": [10]}))
    assert main(["index", "list", uri]) == 0
    size = pilum.dataset(uri).describe_indices()[0].total_size_bytes
    words = capsys.readouterr().out.splitlines()[1].split()
    assert words == ["by", "a", "BTree", "a", "1", "10", "of", "11", f"{size:,}"]
    assert main(["index", "optimize", uri, "--dry-run"]) == 0
    assert capsys.readouterr().out == "by a: would index 1 rows\n"
    assert main(["index", "drop", uri, "by a", "--dry-run"]) == 0
    assert len(pilum.dataset(uri).list_indices()) == 1
    assert main(["index", "optimize", uri, "by a", "--merge", "0"]) == 0
    capsys.readouterr()
    assert main(["index", "show", uri, "by a"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["name"], shown["type"], shown["columns"]) == ("by a", "BTree", ["a"])
    assert [one["fragment_ids"] for one in shown["segments"]] == [[0], [1]]
    assert [one["num_pages"] for one in shown["statistics"]["segments"]] == [2, 1]
    assert main(["index", "optimize", uri, "--retrain"]) == 0
    assert len(pilum.dataset(uri).list_indices()) == 1
    assert main(["index", "drop", uri, "by a"]) == 0
    assert not pilum.dataset(uri).list_indices()
    for action in ("show", "drop"):
        assert main(["index", action, uri, "by a"]) == 1
        assert "no index 'by a'" in capsys.readouterr().err
