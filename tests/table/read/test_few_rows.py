"""Few rows that indices found are taken at once: the rows of a scan, and nothing else is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import pilum
import pilum.expressions.parse
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.use import with_selection
from pilum.table.model.fragments import Fragments
from pilum.table.read import scan as scans
from pilum.table.read.scan import ScanOptions, scan_table

SIZE = 20_000


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Four fragments with deleted rows, and indices on all columns."""
    random = np.random.default_rng(5)
    rows = pa.table(
        {
            "key": random.permutation(SIZE),
            "text": [f"text {number % 1000:04}" for number in range(SIZE)],
            "pair": pa.array([{"x": number, "y": str(number)} for number in range(SIZE)]),
        }
    )
    path = tmp_path_factory.mktemp("few") / "t"
    made = pilum.write_dataset(rows, path, max_rows_per_file=SIZE // 4)
    made.delete("key % 10 = 3")
    made.create_scalar_index("key", "BTREE")
    made.create_scalar_index("text", "NGRAM")
    return pilum.dataset(path, session=pilum.Session())


@pytest.mark.parametrize(
    "filter",
    [
        "key = 5",
        "key = 3",
        "key in (1, 2, 3, 4, 5, 19999, 700000)",
        "key > 100 and key < 200",
        "key = 5 or key = 11111",
        "contains(text, '0017')",
        "contains(text, '0017') and key > 9000",
        "key < 100 and pair.x > 3000",
    ],
)
@pytest.mark.parametrize(
    "columns",
    [None, ["key"], ["text", "key"], ["pair.y", "_rowid"], ["_rowaddr", "_rowoffset"], []],
    ids=str,
)
def test_rows_are_those_of_a_scan(
    dataset: pilum.LanceDataset, filter: str, columns: list[str] | None
) -> None:
    for limit, offset in ((None, 0), (3, 0), (2, 2), (None, 1), (0, 0)):
        found = dataset.to_table(columns, filter, limit, offset)
        scanned = dataset.to_table(columns, filter, limit, offset, use_scalar_index=False)
        assert found.equals(scanned)
        assert found.num_rows == scanned.num_rows
    last = dataset.fragment_ids() - {0, 1}
    some = [one for one in dataset.get_fragments() if one.fragment_id in last]
    found = dataset.to_table(columns, filter, fragments=some)
    assert found.equals(dataset.to_table(columns, filter, fragments=some, use_scalar_index=False))


def test_fragments_of_any_order(tmp_path: Path) -> None:
    """Rows come in the order of the fragments in the manifest, whatever their ids are."""
    rows = pa.table({"a": range(400)})
    dataset = pilum.write_dataset(rows, tmp_path / "t", max_rows_per_file=100)
    dataset.create_scalar_index("a", "BTREE")
    manifest = dataset.snapshot.manifest
    turned = Fragments(reversed(manifest.fragments))
    snapshot = replace(dataset.snapshot, manifest=replace(manifest, fragments=turned))
    options = ScanOptions(filter=snapshot.scope.bind("a in (350, 5, 120, 60, 399)"))
    selected = with_selection(snapshot, options, IndexUse(only_covered=True))
    assert selected.selection is not None
    assert scan_table(snapshot, selected)["a"].to_pylist() == [350, 399, 120, 5, 60]
    assert scan_table(snapshot, selected).equals(scan_table(snapshot, options))


def test_a_lookup_reads_only_its_rows(
    dataset: pilum.LanceDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request for each column with a match, no windows, and nothing is parsed again."""
    columns, wanted = ["key", "text"], "key = 5"
    expected = dataset.to_table(columns, wanted)

    def unused(*_: object) -> None:
        raise AssertionError("a window, or a parser")

    monkeypatch.setattr(scans, "_windows", unused)
    monkeypatch.setattr(pilum.expressions.parse, "parse", unused)
    dataset.io_stats_incremental()
    assert dataset.to_table(columns, wanted).equals(expected)
    assert dataset.io_stats_incremental().read_iops <= 2
    assert dataset.count_rows(wanted) == 1
    assert dataset.io_stats_incremental().read_iops == 0


def test_filters_are_bound_once(dataset: pilum.LanceDataset) -> None:
    scope = dataset.snapshot.scope
    first = scope.bind("key = 5 and upper(text) = 'X'")
    assert scope.bind("key = 5 and upper(text) = 'X'") is first
    assert scope.bind("key = 6 and upper(text) = 'X'") != first
