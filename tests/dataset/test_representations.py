"""What objects of a table show of themselves."""

from __future__ import annotations

from pathlib import Path

import pilum


def test_tags_and_branches_show_their_versions(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    assert repr(dataset.tags) == "Tags()"
    assert repr(dataset.branches) == "Branches()"
    dataset.insert({"a": [2]})
    dataset.tags.create("old", 1)
    branch = dataset.create_branch("try")
    branch.insert({"a": [3]})
    branch.tags.create("new", ("try", None))
    assert repr(dataset.tags) == "Tags(new: version 3 of try, old: version 1)"
    assert repr(dataset.branches) == "Branches(try: from version 2 of main)"


def test_an_optimizer_shows_its_table(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1]}, tmp_path / "t")
    assert repr(dataset.optimize).startswith(f"DatasetOptimizer(LanceDataset('{tmp_path}/t', ver")


def test_a_scanner_shows_what_it_reads(tmp_path: Path) -> None:
    dataset = pilum.write_dataset({"a": [1], "b": ["x"]}, tmp_path / "t")
    where = f"LanceScanner({tmp_path}/t, version 1"
    assert repr(dataset.scanner()) == f"{where}: a, b)"
    scanner = dataset.scanner(["a"], "a > 0 and b = 'x'", limit=2, offset=1, order_by=["a"])
    assert repr(scanner) == f"{where}: a, filter on a, b, sorted by a, limit 2, offset 1)"
