"""Filters of searches that contain a search of the other kind, against brute force and pylance."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lance as pylance
import lance.query
import numpy as np
import pyarrow as pa
import pytest
from lance.dataset import VectorSearchQuery as PeerVectorSearchQuery

import pilum
from pilum.errors import FilterError, InvalidInputError
from pilum.query import MatchQuery, PhraseQuery, VectorSearchQuery

COUNT, DIMENSION = 400, 8
VECTORS = np.random.default_rng(5).normal(size=(COUNT, DIMENSION)).astype(np.float32)
HAS_WORD = np.arange(COUNT) % 5 == 1
QUERY = VECTORS[3]
WORD = MatchQuery("cat", "text")
DISTANCES = ((VECTORS.astype(np.float64) - QUERY) ** 2).sum(axis=1)


def table() -> pa.Table:
    """Returns rows, of which every fifth has the word."""
    texts = [f"{'cat' if one else 'dog'} {'fur ' * (row % 7)}" for row, one in enumerate(HAS_WORD)]
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(VECTORS.ravel()), DIMENSION)
    return pa.table({"id": range(COUNT), "text": texts, "v": vectors})


@pytest.fixture(scope="module", params=["no index", "texts", "both", "both, and more rows"])
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> pilum.LanceDataset:
    """Returns the rows, with indices of some columns and fragments."""
    rows, place = table(), str(tmp_path_factory.mktemp("filters") / "t")
    first = rows.slice(0, 300) if "more" in request.param else rows
    found = pilum.write_dataset(first, place, max_rows_per_file=170)
    if request.param != "no index":
        found.create_scalar_index("text", "INVERTED", with_position=True)
    if "both" in request.param:
        found.create_index("v", "IVF_FLAT", metric="l2", num_partitions=4)
    return found if first is rows else pilum.write_dataset(rows.slice(300), place, mode="append")


def nearest(**more: Any) -> dict[str, Any]:
    """Returns the argument `nearest` that searches all partitions."""
    return {"column": "v", "q": QUERY, "k": 10, "nprobes": 4, **more}


def ids(dataset: Any, **keywords: Any) -> list[int]:
    """Returns the ids that a search finds, in order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        found: list[int] = dataset.to_table(columns=["id"], **keywords)["id"].to_pylist()
    return found


def near(among: Any, k: int = 10) -> list[int]:
    """Returns the nearest of the rows of a mask, by the definition of the distance."""
    rows = np.flatnonzero(among)
    return [int(row) for row in rows[np.argsort(DISTANCES[rows])][:k]]


def test_a_text_restricts_the_rows_before_a_search(dataset: pilum.LanceDataset) -> None:
    found = ids(dataset, nearest=nearest(), filter=WORD, prefilter=True)
    assert found == near(HAS_WORD)
    assert len(found) == 10


def test_a_text_is_tested_after_a_search(dataset: pilum.LanceDataset) -> None:
    found = ids(dataset, nearest=nearest(k=30), filter=WORD)
    assert found == [row for row in near(np.ones(COUNT), 30) if HAS_WORD[row]]
    assert 0 < len(found) < 30


@pytest.mark.parametrize("is_prefilter", [True, False])
def test_an_expression_and_a_text_both_apply(
    dataset: pilum.LanceDataset, is_prefilter: bool
) -> None:
    filter = {"expr_filter": "id < 200", "search_filter": WORD}
    found = ids(dataset, nearest=nearest(k=40), filter=filter, prefilter=is_prefilter)
    kept = HAS_WORD & (np.arange(COUNT) < 200)
    expected = near(kept, 40) if is_prefilter else [r for r in near(np.ones(COUNT), 40) if kept[r]]
    assert found == expected
    assert found


def test_a_dict_may_have_only_an_expression(dataset: pilum.LanceDataset) -> None:
    assert ids(dataset, filter={"expr_filter": "id < 3"}) == [0, 1, 2]
    found = ids(dataset, nearest=nearest(), filter={"expr_filter": "id < 90"}, prefilter=True)
    assert found == near(np.arange(COUNT) < 90)


def test_a_batch_is_restricted_too(dataset: pilum.LanceDataset) -> None:
    found = dataset.to_table(
        columns=["id", "_distance"],
        nearest=nearest(q=VECTORS[:2]),
        filter=PhraseQuery("cat fur", "text") if dataset.list_indices() else WORD,
        prefilter=True,
    )
    assert found.num_rows == 20
    assert all(HAS_WORD[found["id"].to_numpy()])


def test_limit_and_offset_apply_to_the_nearest(dataset: pilum.LanceDataset) -> None:
    found = ids(dataset, nearest=nearest(), filter=WORD, prefilter=True, limit=3, offset=2)
    assert found == near(HAS_WORD)[2:5]


def test_prepared_searches_keep_the_rows_of_a_text(dataset: pilum.LanceDataset) -> None:
    search = dataset.prepare_nearest(
        "v", k=10, nprobes=4, columns=["id", "_distance"], filter=WORD, prefilter=True
    )
    assert search.search(QUERY)["id"].to_pylist() == near(HAS_WORD)
    plan = dataset.scanner(nearest=nearest(), filter=WORD, prefilter=True).explain_plan()
    assert "prefilter by a full-text query" in plan


def test_the_nearest_rows_are_searched_for_a_text(dataset: pilum.LanceDataset) -> None:
    vector = VectorSearchQuery("v", QUERY, k=50, nprobes=4)
    found = ids(dataset, full_text_query=WORD, filter=vector, prefilter=True)
    assert sorted(found) == sorted(row for row in near(np.ones(COUNT), 50) if HAS_WORD[row])
    both = {"expr_filter": "id < 200", "search_filter": vector}
    found = ids(dataset, full_text_query=WORD, filter=both, prefilter=True)
    first = near(np.arange(COUNT) < 200, 50)
    assert sorted(found) == sorted(row for row in first if HAS_WORD[row])


def test_the_nearest_of_the_rows_that_a_text_found(dataset: pilum.LanceDataset) -> None:
    vector = VectorSearchQuery("v", QUERY, k=20, nprobes=4)
    found = ids(dataset, full_text_query=WORD, filter=vector)
    assert sorted(found) == sorted(near(HAS_WORD, 20))
    assert len(found) == 20
    scores = dataset.to_table(["_score"], full_text_query=WORD, filter=vector)["_score"].to_numpy()
    assert (np.diff(scores) <= 0).all()


@pytest.mark.parametrize("is_prefilter", [True, False])
def test_pylance_finds_the_same_rows(dataset: pilum.LanceDataset, is_prefilter: bool) -> None:
    peer = pylance.dataset(dataset.uri)
    word = lance.query.MatchQuery("cat", "text")
    own = ids(dataset, nearest=nearest(), filter=WORD, prefilter=is_prefilter)
    assert own == ids(peer, nearest=nearest(), filter=word, prefilter=is_prefilter)
    both = {"expr_filter": "id < 200", "search_filter": WORD}
    theirs = {"expr_filter": "id < 200", "search_filter": word}
    own = ids(dataset, nearest=nearest(), filter=both, prefilter=is_prefilter)
    assert own == ids(peer, nearest=nearest(), filter=theirs, prefilter=is_prefilter)
    vector = VectorSearchQuery("v", QUERY, k=50, nprobes=4)
    peers_vector = PeerVectorSearchQuery("v", QUERY, k=50, nprobes=4)
    own = ids(dataset, full_text_query=WORD, filter=vector, prefilter=is_prefilter)
    found = ids(peer, full_text_query=word, filter=peers_vector, prefilter=is_prefilter)
    assert sorted(own) == sorted(found)
    assert own


def test_deleted_rows_are_not_found(tmp_path: Path) -> None:
    dataset = pilum.write_dataset(table(), str(tmp_path / "t"), enable_stable_row_ids=True)
    dataset.create_scalar_index("text", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", metric="l2", num_partitions=4)
    gone = near(HAS_WORD)[:4]
    dataset.delete(f"id IN ({', '.join(map(str, gone))})")
    dataset.update({"text": "'dog'"}, where=f"id = {near(HAS_WORD)[4]}")
    expected = near(HAS_WORD, 15)[5:]
    assert ids(dataset, nearest=nearest(), filter=WORD, prefilter=True) == expected


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"filter": WORD}, "filters a search"),
        ({"filter": VectorSearchQuery("v", QUERY)}, "filters a search"),
        ({"filter": WORD, "full_text_query": WORD}, "cannot filter a search"),
        ({"filter": VectorSearchQuery("v", QUERY), "nearest": nearest()}, "cannot filter a search"),
        ({"filter": {"where": "id < 3"}}, "expr_filter"),
        ({"filter": {"search_filter": "cat"}, "nearest": nearest()}, "search_filter: expected"),
        ({"filter": 7}, "a filter is SQL"),
        (
            {"filter": VectorSearchQuery("v", VECTORS[:2]), "full_text_query": WORD},
            "one query, not a batch",
        ),
    ],
)
def test_other_filters_are_refused(
    dataset: pilum.LanceDataset, keywords: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidInputError, FilterError), match=message):
        dataset.to_table(**keywords)
