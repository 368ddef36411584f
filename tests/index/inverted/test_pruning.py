"""Searches for the best documents find those of a search for all, and decode few blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilum.format.version import FileVersion
from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE, IndexRows
from pilum.index.files import IndexFolderWriter
from pilum.index.inverted.columns import TextColumn
from pilum.index.inverted.index import InvertedIndex
from pilum.index.inverted.inverted import INVERTED
from pilum.index.inverted.search import _Clauses, search
from pilum.query import (
    BooleanQuery,
    BoostQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)
from pilum.storage.local import LocalStore

NUM_DOCUMENTS = 12_000
NUM_WORDS = 60
WORDS = [f"w{number}" for number in range(NUM_WORDS)]


def built(folder: Path, longest: int, block_size: int) -> InvertedIndex:
    """Return an index of documents whose words are as frequent as those of a language."""
    random = np.random.default_rng(longest)
    weights = 1 / np.arange(1, NUM_WORDS + 1)
    lengths = random.integers(1, 25, NUM_DOCUMENTS)
    lengths[77] = longest
    words = random.choice(NUM_WORDS, int(lengths.sum()), p=weights / weights.sum())
    cuts = np.cumsum(lengths)[:-1]
    texts = [" ".join(WORDS[word] for word in one) for one in np.split(words, cuts)]
    return indexed(folder, texts, block_size)


def indexed(folder: Path, texts: list[str], block_size: int = 128) -> InvertedIndex:
    """Return an index of documents, whose row references are their numbers."""
    columns = [pa.array(texts), pa.array(np.arange(len(texts), dtype=np.uint64))]
    batch = pa.RecordBatch.from_arrays(columns, [VALUE, REFERENCE])
    given: dict[str, Any] = {"stem": False, "remove_stop_words": False, "with_position": True}
    writer = IndexFolderWriter(LocalStore(str(folder)), str(len(texts)), FileVersion.V2_1)
    parameters = INVERTED.parameters({**given, "block_size": block_size}, pa.utf8())
    details = INVERTED.train(IndexRows(pa.utf8(), iter([batch]), len(texts)), parameters, writer)
    return INVERTED.open(writer.written(), details, 2)


@pytest.fixture(scope="module")
def indices(tmp_path_factory: pytest.TempPathFactory) -> list[InvertedIndex]:
    """Return indices whose documents have lengths of one byte, two or more, or rounded."""
    folder = tmp_path_factory.mktemp("pruned")
    cases = ((30, 128), (300, 128), (70_000, 128), (31, 256))
    return [built(folder / str(longest), longest, size) for longest, size in cases]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
boosts = st.sampled_from([1.0, 0.3, 2.5, -1.0])
words: st.SearchStrategy[FullTextQuery] = st.one_of(
    st.builds(
        lambda text, operator, boost: MatchQuery(text, "s", operator=operator, boost=boost),
        texts,
        st.sampled_from(FullTextOperator),
        boosts,
    ),
    st.builds(lambda text, slop: PhraseQuery(text, "s", slop=slop), texts, st.integers(0, 3)),
)


def combined(parts: st.SearchStrategy[FullTextQuery]) -> st.SearchStrategy[FullTextQuery]:
    """Return queries of queries."""
    clauses = st.lists(st.tuples(st.sampled_from(Occur), parts), min_size=1, max_size=4)
    has_some = clauses.filter(lambda all: any(kind is not Occur.MUST_NOT for kind, _ in all))
    boosted = st.builds(
        lambda one, two, factor: BoostQuery(one, two, negative_boost=factor), parts, parts, boosts
    )
    return st.one_of(has_some.map(BooleanQuery), boosted)


queries = st.recursive(words, combined, max_leaves=6)
sets = st.one_of(
    st.none(),
    st.tuples(st.integers(1, 3000), st.booleans()).map(
        lambda one: RowSet(np.arange(0, NUM_DOCUMENTS, one[0], dtype=np.uint64), one[1])
    ),
)


@settings(max_examples=150)
@given(queries, st.sampled_from([1, 3, 10, 40]), sets, st.integers(0, 3))
def test_the_best_are_the_first_of_all(
    indices: list[InvertedIndex], query: FullTextQuery, k: int, rows: RowSet | None, which: int
) -> None:
    """Whatever is left out, the scores and their order are those of a search for all."""
    index = indices[which]
    column = TextColumn(index.analyzer, index.parts(rows))
    everything = search({"s": column}, query)
    found = search({"s": column}, query, k)
    assert np.array_equal(found.references, everything.references[:k])
    assert found.scores.tobytes() == everything.scores[:k].tobytes()


@pytest.mark.parametrize("operator", FullTextOperator)
def test_a_block_of_two_windows(tmp_path: Path, operator: FullTextOperator) -> None:
    """What is of no use beside the other words of a window may be of use in the next one.

    The second window ends at document 4095, the fourth block of `rare` at 5110.
    """
    texts = []
    for number in range(6000):
        rare, common = int(number % 10 == 0), int(number % 10 == 0 or number % 15 == 5)
        rare, common = {0: (3, 1), 2600: (4, 0), 5000: (1, 8)}.get(number, (rare, common))
        texts.append(" ".join(["rare"] * rare + ["common"] * common + ["z"] * (12 - rare - common)))
    index = indexed(tmp_path, texts)
    column = {"s": TextColumn(index.analyzer, index.parts())}
    query = MatchQuery("rare common", "s", operator=operator)
    everything, found = search(column, query), search(column, query, 1)
    assert found.references.tolist() == everything.references[:1].tolist() == [5000]


def test_columns_are_searched_for_the_best_of_each(indices: list[InvertedIndex]) -> None:
    columns = {
        name: TextColumn(index.analyzer, index.parts())
        for name, index in zip("ab", indices, strict=False)
    }
    query = MultiMatchQuery("w3 w40", ["a", "b"], boosts=[1.0, 1.5])
    everything = search(columns, query)
    found = search(columns, query, 20)
    assert np.array_equal(found.references, everything.references[:20])
    assert found.scores.tobytes() == everything.scores[:20].tobytes()


def decoded(index: InvertedIndex, query: FullTextQuery, k: int | None) -> tuple[int, int]:
    """Return how many blocks of documents and of positions a search decodes."""
    column = TextColumn(index.analyzer, index.parts())
    [(scope, [part])] = column.scopes
    clause = _Clauses(column, "s", scope).of(query, part.partition)
    assert clause is not None
    return clause.decoded(part.partition.norms(scope.statistics), k)


@pytest.mark.parametrize(
    ("most", "query"),
    [
        (0.15, MatchQuery("w0", "s")),
        (0.82, MatchQuery("w0 w1 w2 w3 w59", "s")),
        (0.7, MatchQuery("w0 w50", "s", operator=FullTextOperator.AND)),
        (
            0.3,
            BooleanQuery(
                [(Occur.MUST, MatchQuery("w50", "s")), (Occur.SHOULD, MatchQuery("w0", "s"))]
            ),
        ),
        (0.55, MatchQuery("w0", "s") | MatchQuery("w1", "s") | MatchQuery("w59", "s")),
        (
            0.5,
            BooleanQuery(
                [(Occur.SHOULD, MatchQuery("w0 w59", "s")), (Occur.MUST_NOT, MatchQuery("w1", "s"))]
            ),
        ),
        (0.5, BoostQuery(MatchQuery("w0 w59", "s"), MatchQuery("w1", "s"))),
    ],
)
def test_blocks_are_skipped(
    indices: list[InvertedIndex], most: float, query: FullTextQuery
) -> None:
    """Blocks without documents that may be of use are not decoded."""
    every, _ = decoded(indices[0], query, None)
    some, _ = decoded(indices[0], query, 10)
    assert 0 < some <= most * every


def test_positions_are_read_of_few_documents(indices: list[InvertedIndex]) -> None:
    """Only phrases in documents with a score that is high enough are looked for."""
    query = PhraseQuery("w0 w1", "s")
    _, every = decoded(indices[0], query, None)
    _, some = decoded(indices[0], query, 10)
    assert 0 < some <= 0.5 * every
