"""Searches of nearest vectors whose keywords were checked before."""

from __future__ import annotations

import datetime as dt
import gc
from pathlib import Path
from typing import Any
from weakref import ref

import numpy as np
import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum
from pilum.dataset.prepared import CheckedNearest
from pilum.dataset.scan import Scan
from pilum.errors import ColumnNotFoundError, InvalidInputError

VECTORS = np.random.default_rng(3).normal(size=(300, 4)).astype(np.float32)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> pilum.LanceDataset:
    """Returns a table with an index of its vectors."""
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 4)
    table = pa.table({"id": range(len(VECTORS)), "v": column})
    found = pilum.write_dataset(table, str(tmp_path_factory.mktemp("prepared") / "t"))
    found.create_index("v", "IVF_FLAT", metric="l2", num_partitions=4)
    return found


def nearest(query: Any, **more: Any) -> dict[str, Any]:
    """Returns the argument `nearest` that searches all partitions."""
    return {"column": "v", "q": query, "k": 5, "nprobes": 4, **more}


def rows_near(query: Any, k: int = 5) -> list[int]:
    """Returns the nearest rows by the definition of the distance."""
    distances = ((VECTORS.astype(np.float64) - query) ** 2).sum(axis=1)
    return [int(row) for row in np.argsort(distances)[:k]]


def test_a_query_takes_few_calls(dataset: pilum.LanceDataset) -> None:
    columns = ["_rowid", "_distance"]
    prepared = dataset.prepare_nearest("v", 5, nprobes=4, columns=columns)
    prepared.search(VECTORS[0])
    for query in VECTORS[:2]:  # the second one keeps the plan
        dataset.to_table(columns, nearest=nearest(query))
    assert 0 < num_calls(lambda: prepared.search(VECTORS[1])) <= 70
    assert 0 < num_calls(lambda: dataset.to_table(columns, nearest=nearest(VECTORS[1]))) <= 75


def test_the_first_query_of_a_new_session_takes_few_calls(dataset: pilum.LanceDataset) -> None:
    def ask() -> pa.Table:
        opened = pilum.dataset(dataset.uri, session=pilum.Session())
        return opened.to_table(["_rowid", "_distance"], nearest=nearest(VECTORS[0]))

    assert ask()["_rowid"].to_pylist() == rows_near(VECTORS[0])
    assert 0 < num_calls(ask) <= 785


def test_a_version_that_is_no_longer_used_is_freed_at_once(dataset: pilum.LanceDataset) -> None:
    columns = ["_rowid", "_distance"]
    gc.collect()
    gc.disable()
    try:
        opened = pilum.dataset(dataset.uri, session=pilum.Session())
        prepared = opened.prepare_nearest("v", 5, nprobes=4, columns=columns)
        version = ref(opened.snapshot)
        for query in VECTORS[:3]:
            found = opened.to_table(columns, nearest=nearest(query))
            assert found == prepared.search(query)
        del found
        del opened
        assert prepared.search(VECTORS[0]).num_rows == 5
        assert version() is not None
        del prepared
        assert version() is None
    finally:
        gc.enable()


def test_a_refined_query_takes_few_calls(tmp_path: Path) -> None:
    vectors = np.random.default_rng(4).normal(size=(2000, 128)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 128)
    dataset = pilum.write_dataset(pa.table({"v": column}), str(tmp_path / "t"))
    dataset.create_index("v", "IVF_FLAT", metric="l2", num_partitions=4)
    columns = ["_rowid", "_distance"]
    prepared = dataset.prepare_nearest("v", 5, nprobes=4, refine_factor=8, columns=columns)
    prepared.search(vectors[0])
    assert 0 < num_calls(lambda: prepared.search(vectors[1])) <= 115
    found = prepared.search(vectors[1])
    distances = ((vectors.astype(np.float64) - vectors[1]) ** 2).sum(axis=1)
    assert found["_rowid"].to_pylist() == np.argsort(distances)[:5].tolist()
    assert np.allclose(found["_distance"], np.sort(distances)[:5], rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(
    "columns", [None, ["id", "_distance"], ["_distance"], ["_rowid", "_distance"]]
)
def test_further_queries_find_their_own_rows(
    dataset: pilum.LanceDataset, columns: list[str] | None
) -> None:
    for query in VECTORS[:4]:
        for k in (5, 3):
            found = dataset.to_table(columns, nearest=nearest(query, k=k))
            for name in {"id", "_rowid"} & set(found.column_names):
                assert found[name].to_pylist() == rows_near(query, k)
            assert found.num_rows == k
            assert found.column_names == (columns or ["id", "v", "_distance"])


def test_a_batch_follows_one_query(dataset: pilum.LanceDataset) -> None:
    columns = ["id", "_distance"]
    assert dataset.to_table(columns, nearest=nearest(VECTORS[0])).num_rows == 5
    found = dataset.to_table(columns, nearest=nearest(VECTORS[:2]))
    assert found.column_names == ["query_index", "id", "_distance"]
    assert found["id"].to_pylist() == rows_near(VECTORS[0]) + rows_near(VECTORS[1])
    assert dataset.to_table(columns, nearest=nearest(VECTORS[0])).column_names == columns


def test_every_query_is_checked(dataset: pilum.LanceDataset) -> None:
    columns = ["id", "_distance"]
    dataset.to_table(columns, nearest=nearest(VECTORS[0], k=1))
    for bad in ({"k": True}, {"k": 1.0}, {"q": [1.0]}, {"q": None}, {"metric": "cosine", "k": 0}):
        with pytest.raises(InvalidInputError):
            dataset.to_table(columns, nearest={**nearest(VECTORS[0], k=1), **bad})


def test_every_query_warns_of_a_missing_distance(dataset: pilum.LanceDataset) -> None:
    for query in VECTORS[:2]:
        with pytest.warns(FutureWarning, match="_distance") as caught:
            assert dataset.to_table(["id"], nearest=nearest(query))["id"][0].as_py() is not None
        assert caught[0].filename == __file__


def test_a_filter_applies_to_its_own_queries(dataset: pilum.LanceDataset) -> None:
    columns = ["id", "_distance"]
    for filter in (None, "id < 9", "id >= 9", None):
        found = dataset.to_table(
            columns, filter=filter, prefilter=True, nearest=nearest(VECTORS[0], use_index=False)
        )
        expected = [row for row in rows_near(VECTORS[0], 300) if kept(filter, row)]
        assert found["id"].to_pylist() == expected[:5]


def kept(filter: str | None, row: int) -> bool:
    """Returns whether a row matches a filter."""
    return filter is None or (row < 9) == (filter == "id < 9")


FILTER: dict[str, Any] = {"filter": "id % 3 = 1", "prefilter": True}


def test_further_queries_with_a_filter_take_few_calls(dataset: pilum.LanceDataset) -> None:
    columns = ["_rowid", "_distance"]
    dataset.to_table(columns, nearest=nearest(VECTORS[0]), **FILTER)
    assert (
        0
        < num_calls(lambda: dataset.to_table(columns, nearest=nearest(VECTORS[1]), **FILTER))
        <= 118
    )
    found = dataset.to_table(columns, nearest=nearest(VECTORS[1]), **FILTER)
    expected = [row for row in rows_near(VECTORS[1], 300) if row % 3 == 1]
    assert found["_rowid"].to_pylist() == expected[:5]


def test_a_query_with_a_new_filter_takes_few_calls(dataset: pilum.LanceDataset) -> None:
    def ask(least: int) -> pa.Table:
        filter = f"id >= {least} AND id < 200"
        columns = ["_rowid", "_distance"]
        return dataset.to_table(columns, filter, nearest=nearest(VECTORS[1]), prefilter=True)

    for least in range(4):
        expected = [row for row in rows_near(VECTORS[1], 300) if least <= row < 200]
        assert ask(least)["_rowid"].to_pylist() == expected[:5]
    assert 0 < num_calls(lambda: ask(4)) <= 375


def test_rows_of_a_filter_are_those_of_the_version(tmp_path: Path) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 4)
    dataset = pilum.write_dataset(pa.table({"id": range(300), "v": column}), str(tmp_path / "t"))
    dataset.create_index("v", "IVF_FLAT", metric="l2", num_partitions=4)
    columns = ["id", "_distance"]
    expected = [row for row in rows_near(VECTORS[1], 300) if row % 3 == 1]
    found = dataset.to_table(columns, nearest=nearest(VECTORS[1]), **FILTER)
    assert found["id"].to_pylist() == expected[:5]
    dataset.delete(f"id = {expected[0]}")
    dataset.update({"id": "1000"}, where=f"id = {expected[1]}")
    found = dataset.to_table(columns, nearest=nearest(VECTORS[1]), **FILTER)
    assert found["id"].to_pylist() == [1000, *expected[2:6]]


@pytest.mark.parametrize(
    "text", ["moment < now()", "id >= 0 AND NOT day > current_date", "moment <= current_timestamp"]
)
def test_a_filter_that_uses_the_clock_is_bound_for_each_query(tmp_path: Path, text: str) -> None:
    column = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.reshape(-1)), 4)
    moment = pa.scalar(dt.datetime(2020, 1, 1), pa.timestamp("us"))
    columns = {"moment": pa.repeat(moment, 300), "day": pa.repeat(moment.cast("date32"), 300)}
    table = pa.table({"id": range(300), "v": column, **columns})
    dataset = pilum.write_dataset(table, str(tmp_path / "t"))
    for query in VECTORS[:2]:
        found = dataset.to_table(["id", "_distance"], filter=text, nearest=nearest(query))
        assert found["id"].to_pylist() == rows_near(query)
    first, second = (dataset._snapshot.scope.bind(text) for _ in range(2))
    assert first is not second
    lasting = dataset._snapshot.scope.bind("id < 3")
    assert lasting is dataset._snapshot.scope.bind("id < 3")


def test_a_new_filter_takes_fewer_calls_than_a_new_search(dataset: pilum.LanceDataset) -> None:
    columns = ["_rowid", "_distance"]

    def found(residue: int, k: int) -> list[int]:
        table = dataset.to_table(
            columns, f"id % 5 = {residue}", prefilter=True, nearest=nearest(VECTORS[1], k=k)
        )
        rows: list[int] = table["_rowid"].to_pylist()
        return rows

    for residue in (4, 0, 4, 2):
        expected = [row for row in rows_near(VECTORS[1], 300) if row % 5 == residue]
        assert found(residue, 5) == expected[:5]
    found(0, 7)  # imports what a new search needs
    assert 0 < num_calls(lambda: found(3, 5)) < num_calls(lambda: found(1, 6)) - 40
    with pytest.raises(ColumnNotFoundError, match="none"):
        dataset.to_table(columns, "none = 1", prefilter=True, nearest=nearest(VECTORS[1]))


def test_a_plan_for_a_filter_keeps_nothing_of_searches_without_one(tmp_path: Path) -> None:
    values = np.random.default_rng(5).standard_normal((2000, 8)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 8)
    table = pa.table({"id": np.arange(2000), "vector": vectors})
    dataset = pilum.write_dataset(table, tmp_path / "t")
    dataset.create_index("vector", "IVF_FLAT", num_partitions=2)
    nearest = {"column": "vector", "q": values[0], "k": 5, "nprobes": 2}
    asked: Any = {"columns": ["id", "_distance"], "nearest": nearest, "prefilter": True}
    wanted = Scan.of(dataset.snapshot, asked)
    checked = CheckedNearest.of(dataset.snapshot, wanted, wanted.schema(dataset.snapshot))
    assert checked is not None
    for text, least in ((None, 0), ("id >= 1500", 1500)):
        own = checked if text is None else checked.with_filter(text)
        assert own is not None
        found = own.table(own.plan(), *own.queries(values[0]))["id"].to_numpy()
        expected = least + ((values[least:] - values[0]) ** 2).sum(axis=1).argsort()[:5]
        assert found.tolist() == expected.tolist()
