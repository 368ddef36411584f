"""Full-text indices of both libraries: the same rows with the same scores, bit by bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pilum
from pilum.index.files import IndexFolder
from pilum.index.inverted.columns import SearchPart, TextColumn
from pilum.index.inverted.inverted import INVERTED
from pilum.index.inverted.search import search
from pilum.query import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    FullTextOperator,
    FullTextQuery,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)
from pilum.storage.local import LocalStore

lance = pytest.importorskip("lance")
peer = pytest.importorskip("lance.query")

PLAIN: dict[str, Any] = {"stem": False, "remove_stop_words": False}
TEXTS = ("w2", "w29", "w3 w17", "w29 w0", "w3 w17 w5 w9 w1", "w3 w1 w3", "absent", "absent w3")


def texts(count: int, seed: int) -> pa.Array:
    """Return texts of words, some much more frequent than others; and some nulls."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 31)
    lengths = random.integers(0, 40, count)
    return pa.array(
        [
            " ".join(f"w{n}" for n in random.choice(30, length, p=weights / weights.sum()))
            if length != 7
            else None
            for length in lengths
        ]
    )


def match_queries(column: str) -> list[FullTextQuery]:
    """Return queries of words that all indices can answer."""
    found: list[FullTextQuery] = [
        MatchQuery(text, column, operator=operator, boost=boost)
        for text in TEXTS
        for operator in FullTextOperator
        for boost in (1.0, 1.7)
    ]
    one, two, three = (MatchQuery(text, column) for text in ("w3 w5", "w1 w7", "w2"))
    found += [
        one & three,
        one | two,
        BooleanQuery([(Occur.MUST, one), (Occur.SHOULD, two), (Occur.MUST, three)]),
        BooleanQuery([(Occur.SHOULD, three), (Occur.MUST_NOT, two)]),
        BoostQuery(one, two, negative_boost=0.3),
    ]
    return found


def fuzzy_queries(column: str) -> list[FullTextQuery]:
    """Return queries of words that stand for similar ones."""
    return [
        MatchQuery(
            text, column, fuzziness=1, max_expansions=most, prefix_length=same, operator=operator
        )
        for text in ("w3", "w3 w17", "w1 zz")
        for most in (50, 5)
        for same in (0, 2)
        for operator in FullTextOperator
    ]


def phrases(column: str) -> list[FullTextQuery]:
    """Return phrases; of more than two words only without slop, where the reference is right."""
    found: list[FullTextQuery] = [
        PhraseQuery(text, column, slop=slop)
        for text in ("w0 w0", "w1 w0", "w5 w29")
        for slop in (0, 1, 3)
    ]
    return [*found, PhraseQuery("w3 w1 w2", column)]


def for_peer(query: FullTextQuery) -> Any:
    """Return a query as the reference takes it."""
    if isinstance(query, BooleanQuery):
        clauses = [(peer.Occur[occur.value], for_peer(one)) for occur, one in query.queries]
        return peer.BooleanQuery(clauses)
    if isinstance(query, BoostQuery):
        parts = for_peer(query.positive), for_peer(query.negative)
        return peer.BoostQuery(*parts, negative_boost=query.negative_boost)
    if isinstance(query, PhraseQuery):
        return peer.PhraseQuery(query.query, query.column, slop=query.slop)
    if isinstance(query, MatchQuery):
        return peer.MatchQuery(
            query.query,
            query.column,
            boost=query.boost,
            fuzziness=query.fuzziness,
            max_expansions=query.max_expansions,
            operator=peer.FullTextOperator[query.operator.value],
            prefix_length=query.prefix_length,
        )
    assert isinstance(query, (MultiMatchQuery, CombinedFieldsQuery))
    return getattr(peer, type(query).__name__)(
        query.query,
        list(query.columns),
        boosts=query.boosts,
        operator=peer.FullTextOperator[query.operator.value],
    )


def entries_of(path: Path) -> list[dict[str, Any]]:
    """Return the segments of full-text indices."""
    listed = lance.dataset(str(path)).list_indices()
    return [entry for entry in listed if entry["type"] == "Inverted"]


def columns_of(path: Path) -> dict[str, TextColumn]:
    """Open all segments of all indices of a table."""
    found: dict[str, TextColumn] = {}
    for entry in entries_of(path):
        folder = IndexFolder(LocalStore(str(path)), f"_indices/{entry['uuid']}")
        index, [name] = INVERTED.open(folder, b"", 2), entry["fields"]
        parts: list[SearchPart] = [*(found[name].parts if name in found else ()), *index.parts()]
        found[name] = TextColumn(index.analyzer, parts)
    return found


def assert_same(path: Path, queries: list[FullTextQuery], *, tolerance: float = 0) -> None:
    """Compare all rows, and the scores of the best."""
    dataset, columns = lance.dataset(str(path)), columns_of(path)
    for query in queries:
        everything: dict[int, float] = {}
        for k in (None, 3, 60):
            hits = search(columns, query, k)
            table = dataset.to_table(
                columns=["_rowid", "_score"], full_text_query=for_peer(query), limit=k
            )
            scores = np.sort(table["_score"].to_numpy())[::-1]
            assert np.allclose(hits.scores, scores, rtol=tolerance, atol=0), query
            own = dict(zip(hits.references.tolist(), hits.scores.tolist(), strict=True))
            if k is None:
                everything = own
                assert set(own) == set(table["_rowid"].to_pylist()), query
            else:
                # Which of the rows with the k-th score are found is not defined.
                assert own.items() <= everything.items()


@pytest.mark.parametrize("maker", ["pilum", "lance"])
@pytest.mark.parametrize(
    "given",
    [
        {"with_position": True},
        {"with_position": True, "format_version": 1},
        {"with_position": True, "block_size": 256},
        {},
    ],
)
def test_formats(tmp_path: Path, maker: str, given: dict[str, Any]) -> None:
    """All formats, made by either library."""
    lance.write_dataset(pa.table({"s": texts(1500, 1)}), str(tmp_path))
    made: Any = {"pilum": pilum, "lance": lance}[maker].dataset(str(tmp_path))
    made.create_scalar_index("s", "INVERTED", **PLAIN, **given)
    queries = match_queries("s") + fuzzy_queries("s")
    assert_same(tmp_path, queries + (phrases("s") if given else []))


@pytest.mark.parametrize("maker", ["pilum", "lance"])
def test_segments_and_merges(tmp_path: Path, maker: str) -> None:
    """Several segments share their totals; merged ones leave out rows that are gone."""
    lance.write_dataset(pa.table({"s": texts(600, 2)}), str(tmp_path), max_rows_per_file=300)
    makers: Any = {"pilum": pilum, "lance": lance}
    made = makers[maker].dataset(str(tmp_path))
    made.create_scalar_index("s", "INVERTED", with_position=True, **PLAIN)
    queries = match_queries("s") + phrases("s")
    lance.write_dataset(pa.table({"s": texts(400, 3)}), str(tmp_path), mode="append")
    makers[maker].dataset(str(tmp_path)).optimize.optimize_indices(num_indices_to_merge=0)
    assert len(entries_of(tmp_path)) == 2
    assert_same(tmp_path, queries)
    lance.dataset(str(tmp_path)).delete("s like 'w1%'")
    makers[maker].dataset(str(tmp_path)).optimize.compact_files()
    makers[maker].dataset(str(tmp_path)).optimize.optimize_indices(num_indices_to_merge=2)
    assert len(entries_of(tmp_path)) == 1
    assert_same(tmp_path, queries)


def test_several_columns(tmp_path: Path) -> None:
    """Columns with indices of their own, searched together."""
    table = pa.table({"a": texts(800, 4), "b": texts(800, 5)})
    lance.write_dataset(table, str(tmp_path))
    dataset = pilum.dataset(str(tmp_path))
    dataset.create_scalar_index("a", "INVERTED", with_position=True, **PLAIN)
    dataset.create_scalar_index("b", "INVERTED", **PLAIN)
    queries: list[FullTextQuery] = [
        MultiMatchQuery("w3 w17", ["a", "b"], boosts=[1.0, 2.5]),
        MultiMatchQuery("w3 w17", ["a", "b"], operator=FullTextOperator.AND),
        BooleanQuery(
            [
                (Occur.MUST, MatchQuery("w3 w5", "a")),
                (Occur.SHOULD, MatchQuery("w7", "b")),
                (Occur.MUST_NOT, PhraseQuery("w0 w1", "a")),
            ]
        ),
        MatchQuery("w3", "a") | MatchQuery("w9", "b"),
    ]
    assert_same(tmp_path, queries)
    combined: list[FullTextQuery] = [
        CombinedFieldsQuery(text, ["a", "b"], boosts=boosts, operator=operator)
        for text in ("w3", "w3 w17 w3", "absent w2")
        for boosts in (None, [1.0, 2.5])
        for operator in FullTextOperator
    ]
    assert_same(tmp_path, combined, tolerance=1e-6)
