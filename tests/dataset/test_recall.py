"""Reports of the recall of vector indices."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.cli.main import main
from pilum.errors import IndexNotFoundError, InvalidInputError

NUM_ROWS, DIMENSION = 600, 8


@pytest.fixture(scope="module")
def vectors() -> Any:
    return np.random.default_rng(3).normal(size=(NUM_ROWS, DIMENSION)).astype(np.float32)


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory, vectors: Any) -> pilum.LanceDataset:
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIMENSION)
    table = pa.table({"id": range(NUM_ROWS), "v": column})
    found = pilum.write_dataset(table, str(tmp_path_factory.mktemp("recall") / "t.lance"))
    found.create_index("v", "IVF_FLAT", num_partitions=12)
    return found


def test_recall_is_the_share_of_the_nearest_rows_that_are_found(
    items: pilum.LanceDataset, vectors: Any
) -> None:
    queries = vectors[:20] + np.float32(0.1)
    report = items.index_recall("v", k=5, queries=queries, nprobes=[1, 3, 12])
    assert [point.settings["nprobes"] for point in report.points] == [1, 3, 12]
    distances = ((vectors[None] - queries[:, None]) ** 2).sum(axis=2)
    nearest = np.argsort(distances, axis=1)[:, :5]
    for point in report.points:
        shares = []
        for query, near in zip(queries, nearest, strict=True):
            wanted = {"column": "v", "q": query, "k": 5, **point.settings}
            found = items.to_table(columns=["id", "_distance"], nearest=wanted)["id"].to_numpy()
            shares.append(len(np.intersect1d(found, near)) / 5)
        assert point.recall == pytest.approx(np.mean(shares))
    assert report.points[0].recall < 1
    assert report.points[-1].recall == 1
    best = report.suggestion(recall=1.0)
    assert best is not None
    assert best.recall == 1
    assert report.to_arrow().column_names == ["nprobes", "recall", "milliseconds"]
    assert "nprobes 12: recall 1.000" in str(report)


def test_rows_at_the_same_distance_are_as_good(tmp_path: Path) -> None:
    same = np.tile(np.arange(DIMENSION, dtype=np.float32), (40, 1))
    column = pa.FixedSizeListArray.from_arrays(pa.array(same.ravel()), DIMENSION)
    found = pilum.write_dataset(pa.table({"v": column}), str(tmp_path / "t.lance"))
    found.create_index("v", "IVF_FLAT", num_partitions=1)
    report = found.index_recall("v", k=25, num_queries=3, nprobes=[1])
    assert report.points[0].recall == 1


def test_all_combinations_are_tried(items: pilum.LanceDataset) -> None:
    report = items.index_recall("v", num_queries=2, nprobes=[1, 2], refine_factor=[1, 3])
    tried = [(one.settings["nprobes"], one.settings["refine_factor"]) for one in report.points]
    assert sorted(tried) == sorted(itertools.product([1, 2], [1, 3]))
    assert len(report.chart().series) == 2


def test_bad_arguments(items: pilum.LanceDataset) -> None:
    with pytest.raises(IndexNotFoundError, match="'id' has no vector index"):
        items.index_recall("id")
    with pytest.raises(InvalidInputError, match="k"):
        items.index_recall("v", k=0)
    with pytest.raises(InvalidInputError, match="a query in each row"):
        items.index_recall("v", queries=np.zeros(DIMENSION, np.float32))


def test_the_command_prints_the_report_and_writes_the_chart(
    items: pilum.LanceDataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "recall.svg"
    given = ["index", "recall", items.uri, "v", "--queries", "3", "--nprobes", "1,12"]
    assert main([*given, "--svg", str(picture)]) == 0
    printed = capsys.readouterr().out
    assert "nprobes 12: recall 1.000" in printed
    assert "suggestion: nprobes" in printed
    assert picture.read_text().startswith("<svg")
