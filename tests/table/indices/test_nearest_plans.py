"""Searches of nearest vectors with an index: which rows it answers, and which are compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from table.indices.value_index import FILE
from table.indices.vector_value_index import VECTOR_TYPES

import pilum
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.file import LanceFileReader, LanceFileWriter
from pilum.index import registry
from pilum.index.base import REFERENCE

VECTORS = np.random.default_rng(3).integers(-9, 10, (60, 3)).astype(np.float32)
QUERY = np.array([1, 2, 3], np.float32)


@pytest.fixture(autouse=True)
def vector_types(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the type."""
    monkeypatch.setattr(registry, "_TYPES", (*registry._TYPES, *VECTOR_TYPES))


def rows(first: int, stop: int) -> pa.Table:
    vectors = pa.array(list(VECTORS[first:stop]), pa.list_(pa.float32(), 3))
    return pa.table({"id": range(first, stop), "v": vectors})


@pytest.fixture(params=[False, True], ids=["addresses", "ids"])
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> pilum.LanceDataset:
    """Two fragments with an index."""
    made = pilum.write_dataset(
        rows(0, 40), tmp_path / "t", max_rows_per_file=20, enable_stable_row_ids=request.param
    )
    made.create_index("v", "ROWVECTORS")
    return made


def search(dataset: pilum.LanceDataset, k: int = 7, query: Any = QUERY, **more: Any) -> Any:
    nearest_keys = {"metric", "use_index", "refine_factor", "distance_range"}
    keys = {name: more.pop(name) for name in nearest_keys & more.keys()}
    nearest = {"column": "v", "q": query, "k": k, **keys}
    found = dataset.to_table(["id", "_distance"], nearest=nearest, **more)
    return found["id"].to_pylist(), found["_distance"].to_pylist()


def expected(
    numbers: Any, k: int = 7, factor: int = 2, query: NDArray[np.float32] = QUERY
) -> tuple[list[int], list[float]]:
    numbers = np.array(sorted(numbers))
    distances = ((VECTORS[numbers] - query) ** 2).sum(axis=1)
    order = np.lexsort((numbers, distances))[:k]
    return numbers[order].tolist(), (factor * distances[order]).tolist()


def test_an_index_answers(dataset: pilum.LanceDataset) -> None:
    assert search(dataset) == expected(range(40))
    assert search(dataset, metric="L2") == expected(range(40))
    assert search(dataset, k=100) == expected(range(40), 100)
    assert search(dataset, use_index=False) == expected(range(40), factor=1)
    plan = dataset.scanner(nearest={"column": "v", "q": QUERY}).explain_plan()
    assert "VectorIndexQuery: v_idx, 1 segments, 2 fragments" in plan
    assert "ExactSearch" not in plan


def test_another_metric_needs_no_index(dataset: pilum.LanceDataset) -> None:
    plan = dataset.scanner(nearest={"column": "v", "q": QUERY, "metric": "dot"}).explain_plan()
    assert "VectorIndexQuery" not in plan
    _, distances = search(dataset, k=1, metric="dot")
    assert distances == [1 - float((VECTORS[:40] @ QUERY).max())]
    assert search(dataset, metric="dot", fast_search=True) == ([], [])


def test_refinement_makes_distances_exact(dataset: pilum.LanceDataset) -> None:
    assert search(dataset, refine_factor=1) == expected(range(40), factor=1)
    assert search(dataset, refine_factor=9) == expected(range(40), factor=1)
    ids, distances = expected(range(40), factor=1)
    at = distances[3]
    kept = [(one, d) for one, d in zip(ids, distances, strict=True) if d < at]
    limited = search(dataset, refine_factor=3, distance_range=(None, at))
    assert list(zip(*limited, strict=True)) == kept


def test_batches_of_queries(dataset: pilum.LanceDataset) -> None:
    queries = np.array([QUERY, VECTORS[5], VECTORS[30]])
    for factor, scale in ((None, 2), (2, 1)):
        ids, distances = search(dataset, query=queries, refine_factor=factor)
        parts = [expected(range(40), factor=scale, query=one) for one in queries]
        assert ids == [one for part, _ in parts for one in part]
        assert distances == [one for _, part in parts for one in part]


def test_rows_without_an_index_are_compared(dataset: pilum.LanceDataset) -> None:
    made = pilum.write_dataset(rows(40, 60), dataset.uri, mode="append")
    assert search(made) == expected(range(60), factor=1)
    assert search(made, fast_search=True) == expected(range(40))
    assert search(made, filter="id > 30", prefilter=True) == expected(range(31, 60), factor=1)
    plan = made.scanner(nearest={"column": "v", "q": QUERY}).explain_plan()
    assert "ExactSearch: 1 fragments that the index does not cover" in plan


def test_prefilters_and_postfilters(dataset: pilum.LanceDataset) -> None:
    even = range(0, 40, 2)
    assert search(dataset, filter="id % 2 = 0", prefilter=True) == expected(even)
    ids, _ = expected(range(40))
    assert search(dataset, filter="id % 2 = 0")[0] == [one for one in ids if one % 2 == 0]
    assert search(dataset, k=50, filter="id < 5", prefilter=True) == expected(range(5), 50)
    assert search(dataset, filter="id < 0", prefilter=True) == ([], [])


def test_a_prepared_search_uses_the_index(dataset: pilum.LanceDataset) -> None:
    dataset.delete("id = 3")
    prepared = dataset.prepare_nearest(
        "v", k=7, columns=["id", "_distance"], filter="id % 2 = 1", prefilter=True
    )
    for query in (QUERY, VECTORS[5]):
        found = prepared.search(query)
        ids, distances = expected([n for n in range(1, 40, 2) if n != 3], query=query)
        assert found.to_pydict() == {"id": ids, "_distance": distances}


def test_fragments_restrict_the_search(dataset: pilum.LanceDataset) -> None:
    last = dataset.get_fragments()[1:]
    assert search(dataset, fragments=last) == expected(range(20, 40))


def test_deleted_and_updated_rows(dataset: pilum.LanceDataset) -> None:
    best, _ = expected(range(40))
    dataset.delete(f"id IN ({best[0]}, {best[2]})")
    left = set(range(40)) - {best[0], best[2]}
    assert search(dataset) == expected(left)
    dataset.update({"id": f"{best[1]}"}, f"id = {best[1]}")  # moves the row
    if dataset.has_stable_row_ids:  # the index finds it at its new place
        assert search(dataset) == search(dataset, fast_search=True) == expected(left)
    else:
        assert search(dataset) == expected(left, factor=1)
        assert search(dataset, fast_search=True) == expected(left - {best[1]})


@pytest.mark.parametrize("defers", [False, True])
def test_compacted_rows(dataset: pilum.LanceDataset, defers: bool) -> None:
    dataset.delete("id IN (0, 1, 25)")
    dataset.optimize.compact_files(defer_index_remap=defers and not dataset.has_stable_row_ids)
    left = set(range(40)) - {0, 1, 25}
    assert search(dataset) == expected(left)
    assert search(dataset, k=50) == expected(left, 50)
    odd = search(dataset, filter="id % 2 = 1", prefilter=True)
    assert odd == expected([one for one in left if one % 2])


def test_segments_can_be_named(dataset: pilum.LanceDataset) -> None:
    made = pilum.write_dataset(rows(40, 60), dataset.uri, mode="append")
    made.optimize.optimize_indices(num_indices_to_merge=0)
    uuids = [one.uuid for one in made.describe_indices()[0].segments]
    assert len(uuids) == 2
    assert search(made) == expected(range(60))
    parts = [search(made, k=60, index_segments=[one]) for one in uuids]
    assert sorted(parts) == sorted([expected(range(40), 60), expected(range(40, 60), 60)])
    for segments in ([], ["00000000-0000-0000-0000-000000000000"]):
        with pytest.raises(InvalidInputError, match="index_segments"):
            search(made, index_segments=segments)
    with pytest.raises(InvalidInputError, match="metric"):
        search(made, index_segments=uuids, metric="dot")


def test_an_index_of_rows_that_do_not_exist_is_damaged(tmp_path: Path) -> None:
    made = pilum.write_dataset(rows(0, 40), tmp_path / "t")
    made.create_index("v", "ROWVECTORS")
    [path] = (tmp_path / "t").glob(f"_indices/*/{FILE}")
    reader = LanceFileReader(str(path))
    table = reader.read_all().to_table()
    place = table.schema.get_field_index(REFERENCE)
    wrong = table.set_column(place, REFERENCE, pa.array(range(1000, 1040), pa.uint64()))
    with LanceFileWriter(str(path), wrong.schema) as file:
        file.write_batch(wrong)
    opened = pilum.dataset(made.uri, session=pilum.Session())
    with pytest.raises(CorruptFileError, match="rows that do not exist"):
        search(opened)
