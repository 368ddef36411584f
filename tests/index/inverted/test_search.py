"""Search finds the same documents with the same scores as the definition, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from index.inverted.naive import F, Naive, best, total
from lance.file import LanceFileReader
from lance.query import DocumentGranularity

from pilum.errors import InvalidInputError
from pilum.format.version import FileVersion
from pilum.index.answers import RowSet
from pilum.index.base import REFERENCE, VALUE, IndexRows, Part
from pilum.index.files import IndexFolderWriter
from pilum.index.inverted.building import documents_of
from pilum.index.inverted.columns import SearchPart, TextColumn
from pilum.index.inverted.flat import flat_partition, tokens_of
from pilum.index.inverted.hits import Hits
from pilum.index.inverted.index import InvertedIndex
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

WORDS = [f"w{number}" for number in range(8)]
PLAIN: dict[str, Any] = {"stem": False, "remove_stop_words": False}
FORMATS = [
    {"with_position": True},
    {"with_position": True, "format_version": 1},
    {"with_position": True, "block_size": 128, "format_version": 3},
    {},
]

documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=12), min_size=1, max_size=40)
words = st.lists(st.sampled_from([*WORDS, "absent"]), min_size=1, max_size=4)


def rows(texts: Sequence[str | None], first: int = 0) -> IndexRows:
    """Return rows to index, two batches."""
    references = np.arange(first, first + len(texts), dtype=np.uint64)
    half = len(texts) // 2
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(texts[part], pa.utf8()), pa.array(references[part])], [VALUE, REFERENCE]
        )
        for part in (slice(None, half), slice(half, None))
    ]
    return IndexRows(pa.utf8(), iter(batches), len(texts))


def built(folder: Path, texts: Sequence[str | None], first: int = 0, **given: Any) -> InvertedIndex:
    """Build an index and open it."""
    writer = IndexFolderWriter(LocalStore(str(folder)), "x", FileVersion.V2_1)
    parameters = INVERTED.parameters({**PLAIN, **given}, pa.utf8())
    details = INVERTED.train(rows(texts, first), parameters, writer)
    return INVERTED.open(writer.written(), details, 2)


def found(
    index: InvertedIndex, query: FullTextQuery, k: int | None = None
) -> list[tuple[int, float]]:
    """Search one column, `s`."""
    return pairs(search({"s": TextColumn(index.analyzer, index.parts())}, query, k))


def pairs(hits: Hits) -> list[tuple[int, float]]:
    """Return rows with scores."""
    return list(zip(hits.references.tolist(), hits.scores.tolist(), strict=True))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for the files of all examples."""
    return tmp_path_factory.mktemp("indices")


@settings(max_examples=50)
@given(documents, words, st.booleans(), st.sampled_from(FORMATS), st.sampled_from([1, 3, None]))
def test_matches(
    folders: Path,
    documents: list[list[str]],
    words: list[str],
    needs_all: bool,
    format: dict[str, Any],
    k: int | None,
) -> None:
    """Any word or all words, of texts with and without words."""
    index = built(folders, [" ".join(one) for one in documents], **format)
    operator = FullTextOperator.AND if needs_all else FullTextOperator.OR
    query = MatchQuery(" ".join(words), "s", operator=operator)
    scores = Naive(documents).match(words, needs_all=needs_all)
    assert found(index, query, k) == best(scores, k)


@settings(max_examples=50)
@given(documents, words, st.integers(0, 3), st.sampled_from(FORMATS[:3]))
def test_phrases(
    folders: Path,
    documents: list[list[str]],
    words: list[str],
    slop: int,
    format: dict[str, Any],
) -> None:
    """Words one after another, with others between them."""
    index = built(folders, [" ".join(one) for one in documents], **format)
    query = PhraseQuery(" ".join(words), "s", slop=slop)
    assert found(index, query, 5) == best(Naive(documents).phrase(words, slop), 5)


@settings(max_examples=50)
@given(documents, st.lists(st.tuples(st.sampled_from(Occur), words), min_size=1, max_size=4))
def test_boolean_queries(
    folders: Path, documents: list[list[str]], clauses: list[tuple[Occur, list[str]]]
) -> None:
    """Clauses that must, should or must not match."""
    if all(occur is Occur.MUST_NOT for occur, _ in clauses):
        clauses.append((Occur.SHOULD, ["w0"]))
    index = built(folders, [" ".join(one) for one in documents])
    queries = [(occur, MatchQuery(" ".join(words), "s")) for occur, words in clauses]
    naive = Naive(documents)
    scores = {occur: [naive.match(w) for o, w in clauses if o is occur] for occur in Occur}
    expected = {}
    for number in range(len(documents)):
        must = [one[number] for one in scores[Occur.MUST] if number in one]
        should = [one[number] for one in scores[Occur.SHOULD] if number in one]
        is_required = len(must) == len(scores[Occur.MUST]) and bool(must or should)
        if is_required and not any(number in one for one in scores[Occur.MUST_NOT]):
            expected[number] = total([total(must), total(should)]) if must else total(should)
    assert found(index, BooleanQuery(queries), 4) == best(expected, 4)
    if not scores[Occur.MUST_NOT] and len(queries) == 2:
        made = queries[0][1] & queries[1][1]
        assert made == BooleanQuery([(Occur.MUST, query) for _, query in queries])


@settings(max_examples=50)
@given(documents, words, words, st.sampled_from([0.5, 2.0, -1.0]))
def test_boosts(
    folders: Path, documents: list[list[str]], one: list[str], two: list[str], factor: float
) -> None:
    """Scores are scaled, or lowered for documents that match another query."""
    index = built(folders, [" ".join(words) for words in documents])
    naive = Naive(documents)
    query = BoostQuery(
        MatchQuery(" ".join(one), "s", boost=1.7),
        MatchQuery(" ".join(two), "s"),
        negative_boost=factor,
    )
    lowered = naive.match(two)
    expected = {}
    for number, score in naive.match(one).items():
        scaled = F(score * F(1.7))
        expected[number] = F(scaled - F(factor) * lowered[number]) if number in lowered else scaled
    assert found(index, query, 4) == best(expected, 4)


@settings(max_examples=50)
@given(documents, words, st.data())
def test_partitions_segments_and_rows_without_index(
    folders: Path, documents: list[list[str]], words: list[str], data: st.DataObject
) -> None:
    """Segments share their totals; rows that no segment covers have those of both.

    Rows that may not be found count in segments; outside of them, they are not even looked at.
    """
    texts = [" ".join(one) for one in documents]
    one, two = sorted(data.draw(st.tuples(*[st.integers(0, len(texts))] * 2)))
    allowed = np.array(sorted(data.draw(st.sets(st.integers(0, len(texts) - 1)))), np.uint64)
    first, second = built(folders, texts[:one]), built(folders, texts[one:two], one)
    query = MatchQuery(" ".join(words), "s")
    tokens = tokens_of(query, "s", first.analyzer)
    left = rows([text for i, text in enumerate(texts[two:], two) if i in allowed], 0)
    batches = [batch for part in left.batches for batch in documents_of(part, list_elements=False)]
    flat = flat_partition(iter(batches), first.analyzer, tokens)
    own = allowed[allowed >= two]
    column = TextColumn(
        first.analyzer,
        [*first.parts(RowSet(allowed)), *second.parts(RowSet(allowed))],
        SearchPart(flat, None, lambda references: own[references.astype(np.int64)]),
    )
    indexed = Naive(documents[:two]).match(words)
    rest = [document if i < two or i in allowed else [] for i, document in enumerate(documents)]
    scores = Naive(rest).match(words)
    expected = {i: indexed[i] if i < two else score for i, score in scores.items() if i in allowed}
    assert pairs(search({"s": column}, query, 3)) == best(expected, 3)


@settings(max_examples=50)
@given(documents, st.data(), st.sampled_from(FORMATS[:3]))
def test_merging_drops_and_moves_rows(
    folders: Path, documents: list[list[str]], data: st.DataObject, format: dict[str, Any]
) -> None:
    """A merged index is the index of the rows that are left."""
    texts = [" ".join(one) for one in documents]
    cut = data.draw(st.integers(0, len(texts)))
    gone = data.draw(st.sets(st.integers(0, max(0, cut - 1))))
    old = built(folders, texts[:cut], **format)
    writer = IndexFolderWriter(LocalStore(str(folders)), "y", FileVersion.V2_1)
    moves = lambda at: (at + np.uint64(100), ~np.isin(at, np.array(sorted(gone), np.uint64)))  # noqa: E731
    details = INVERTED.merge([Part(old, moves)], rows(texts[cut:], cut), writer)
    merged = INVERTED.open(writer.written(), details, 2)
    left = [[] if i in gone and i < cut else document for i, document in enumerate(documents)]
    assert merged.statistics()["num_docs"] == sum(map(bool, left))
    assert merged.statistics()["num_tokens"] == len({word for one in left for word in one})
    for query, scores in [
        (MatchQuery("w0 w1", "s"), Naive(left).match(["w0", "w1"])),
        (PhraseQuery("w0 w1", "s"), Naive(left).phrase(["w0", "w1"], 0)),
    ]:
        expected = {i + 100 if i < cut else i: score for i, score in scores.items()}
        assert found(merged, query) == best(expected, None)


def test_many_documents(tmp_path: Path) -> None:
    """Lists of many blocks; the best documents are those of a search for all."""
    random = np.random.default_rng(5)
    weights = 1 / np.arange(1, 41)
    lengths = random.integers(1, 30, 6000)
    documents = [
        [f"w{n}" for n in random.choice(40, length, p=weights / weights.sum())]
        for length in lengths
    ]
    texts = [" ".join(one) for one in documents]
    index = built(tmp_path, texts, memory_limit=1, with_position=True)
    wide = built(tmp_path / "wide", texts, block_size=256, with_position=True)
    naive = Naive(documents)
    some = random.choice(6000, 30).tolist()
    for text in ("w0", "w39", "w0 w39 w7", "w1 w2 w3 w4 w5", "w38 w39"):
        words = text.split()
        for query in (
            MatchQuery(text, "s"),
            MatchQuery(text, "s", operator=FullTextOperator.AND),
            PhraseQuery(text, "s", slop=4),
            BooleanQuery(
                [(Occur.MUST, MatchQuery(text, "s")), (Occur.SHOULD, MatchQuery("w6", "s"))]
            ),
        ):
            for one in (index, wide):
                everything = found(one, query)
                for k in (1, 10, 500):
                    assert found(one, query, k) == everything[:k]
        scores = dict(found(index, MatchQuery(text, "s")))
        for number in some:
            present = [word for word in words if word in documents[number]]
            expected = total([naive.score(word, number) for word in present])
            assert scores.get(number, 0) == expected


def test_rounded_lengths(tmp_path: Path) -> None:
    """Blocks of 256 use lengths that are rounded down to four bits."""
    texts = [f"a {'b ' * length}" for length in range(0, 200, 3)]
    exact, rounded = (
        dict(found(built(tmp_path / str(size), texts, block_size=size), MatchQuery("a", "s")))
        for size in (128, 256)
    )
    assert exact[2] == rounded[2]  # 7 tokens
    assert exact[60] < rounded[60]  # 181 tokens count as 176


def test_several_columns(tmp_path: Path) -> None:
    """The greatest score of a column counts; clauses on columns are combined by row."""
    first = [["red", "fox"], ["dog"], [], ["fox", "fox"], ["cat"]]
    second = [["fox"], ["fox", "cat"], ["fox"], ["dog"], []]
    columns = {}
    for name, texts in (("a", first), ("b", second)):
        index = built(tmp_path / name, [" ".join(one) for one in texts], with_position=True)
        columns[name] = TextColumn(index.analyzer, index.parts())
    a, b = Naive(first), Naive(second)

    multi = MultiMatchQuery("fox", ["a", "b"], boosts=[1.0, 3.0])
    one, two = a.match(["fox"]), {n: F(s * F(3)) for n, s in b.match(["fox"]).items()}
    greatest = {n: max(one.get(n, F(0)), two.get(n, F(0))) for n in {*one, *two}}
    assert pairs(search(columns, multi, 3)) == best(greatest, 3)

    query = BooleanQuery(
        [
            (Occur.MUST, MatchQuery("fox cat", "b")),
            (Occur.SHOULD, PhraseQuery("red fox", "a")),
            (Occur.MUST_NOT, MatchQuery("dog", "a")),
        ]
    )
    expected = b.match(["fox", "cat"])
    del expected[1]
    expected[0] = F(expected[0] + a.phrase(["red", "fox"], 0)[0])
    assert pairs(search(columns, query)) == best(expected, None)

    either = MatchQuery("fox", "a") | MatchQuery("fox", "b")
    sums = {n: total([s[n] for s in (one, b.match(["fox"])) if n in s]) for n in {*one, *two}}
    assert pairs(search(columns, either)) == best(sums, None)

    lowered = BoostQuery(MatchQuery("fox", "a"), MatchQuery("fox", "b"), negative_boost=0.25)
    expected = dict(one)
    expected[0] = F(one[0] - F(0.25) * b.match(["fox"])[0])
    assert pairs(search(columns, lowered)) == best(expected, None)

    both = CombinedFieldsQuery("fox cat", ["a", "b"], operator=FullTextOperator.AND)
    assert [row for row, _ in pairs(search(columns, both))] == [1]


def test_fuzzy_words(tmp_path: Path) -> None:
    """Fuzzy words stand for similar ones; each has the weight of its own."""
    documents = [["apple"], ["ample"], ["maple"], ["aple", "pear"], ["grape"]]
    index = built(tmp_path, [" ".join(one) for one in documents])
    naive = Naive(documents)
    near = {n: naive.match([word])[n] for n, word in ((0, "apple"), (1, "ample"), (3, "aple"))}
    assert found(index, MatchQuery("apple", "s", fuzziness=1)) == best(near, None)
    assert [n for n, _ in found(index, MatchQuery("apple", "s", fuzziness=2))] == [0, 1, 2, 3]
    few = found(index, MatchQuery("apple", "s", fuzziness=1, max_expansions=2))
    assert sorted(n for n, _ in few) == [1, 3]
    assert found(index, MatchQuery("apple", "s", fuzziness=1, prefix_length=3)) == best(
        {0: near[0]}, None
    )
    every = MatchQuery("apple pears", "s", fuzziness=1, operator=FullTextOperator.AND)
    assert [n for n, _ in found(index, every)] == [3]


def test_elements_of_lists(tmp_path: Path) -> None:
    """Each element of a list may be a document of its own."""
    values = pa.array([["a b", "b"], None, ["c", "b a a"]])
    parameters = INVERTED.parameters(PLAIN, values.type)
    writer = IndexFolderWriter(LocalStore(str(tmp_path)), "x", FileVersion.V2_1)
    batch = pa.RecordBatch.from_arrays(
        [values, pa.array([5, 6, 7], pa.uint64())], [VALUE, REFERENCE]
    )
    elements = replace(parameters, list_elements=True)
    details = INVERTED.train(IndexRows(values.type, iter([batch]), 3), elements, writer)
    index = INVERTED.open(writer.written(), details, 3)
    hits = search({"s": TextColumn(index.analyzer, index.parts())}, MatchQuery("a", "s"))
    assert hits.references.tolist() == [7, 5]
    places = hits.element_lists()
    assert places is not None
    assert places.to_pylist() == [[1], [0]]


@pytest.mark.parametrize("given", [PLAIN, {"base_tokenizer": "raw"}, {}], ids=["a", "b", "c"])
def test_elements_count_without_tokens(tmp_path: Path, given: dict[str, Any]) -> None:
    """The documents are those that the reference stores: all elements, a null like an empty one."""
    values = pa.array([["a b", "b", None, "", "the"], None, ["c", "b a a"], [], [None]])
    dataset = lance.write_dataset(pa.table({"s": values}), tmp_path / "theirs")
    dataset.create_scalar_index(
        "s", "INVERTED", document_granularity=DocumentGranularity.LIST_ELEMENT, **given
    )
    [path] = (tmp_path / "theirs").glob("_indices/*/part_0_docs.lance")
    expected = LanceFileReader(str(path)).read_all().to_table()
    parameters = replace(INVERTED.parameters(given, values.type), list_elements=True)
    writer = IndexFolderWriter(LocalStore(str(tmp_path)), "x", FileVersion.V2_1)
    numbers = pa.array(np.arange(5, dtype=np.uint64))
    batch = pa.RecordBatch.from_arrays([values, numbers], [VALUE, REFERENCE])
    details = INVERTED.train(IndexRows(values.type, iter([batch]), 5), parameters, writer)
    assert writer.written().open("part_0_docs.lance").read() == expected
    index = INVERTED.open(writer.written(), details, 3)
    merged = IndexFolderWriter(LocalStore(str(tmp_path)), "y", FileVersion.V2_1)
    INVERTED.merge([Part(index)], None, merged)
    assert merged.written().open("part_0_docs.lance").read() == expected


def test_elements_without_any_token(tmp_path: Path) -> None:
    """A partition may have documents and no tokens."""
    values = pa.array([["", "the"], [None]])
    parameters = replace(INVERTED.parameters({}, values.type), list_elements=True)
    writer = IndexFolderWriter(LocalStore(str(tmp_path)), "x", FileVersion.V2_1)
    numbers = pa.array(np.arange(2, dtype=np.uint64))
    batch = pa.RecordBatch.from_arrays([values, numbers], [VALUE, REFERENCE])
    details = INVERTED.train(IndexRows(values.type, iter([batch]), 2), parameters, writer)
    index = INVERTED.open(writer.written(), details, 3)
    [partition] = index.partitions
    assert len(partition.documents) == 3
    hits = search({"s": TextColumn(index.analyzer, index.parts())}, MatchQuery("a", "s"))
    assert len(hits.references) == 0


def test_phrases_need_positions(tmp_path: Path) -> None:
    """A phrase in an index without positions is refused."""
    index = built(tmp_path, ["a b"])
    with pytest.raises(InvalidInputError, match="positions"):
        found(index, PhraseQuery("a b", "s"))


def test_empty_indices(tmp_path: Path) -> None:
    """An index without documents finds nothing, and can be merged."""
    index = built(tmp_path, [None, "", "  "])
    assert index.partitions == ()
    assert found(index, MatchQuery("a", "s")) == []
    writer = IndexFolderWriter(LocalStore(str(tmp_path)), "y", FileVersion.V2_1)
    details = INVERTED.merge([Part(index)], rows(["a"]), writer)
    assert len(found(INVERTED.open(writer.written(), details, 2), MatchQuery("a", "s"))) == 1


def test_queries_in_queries_have_a_most_depth() -> None:
    word = MatchQuery("a", "s")
    combinations: list[Any] = [
        lambda query: BooleanQuery([(Occur.MUST, query)]),
        lambda query: BoostQuery(query, word),
        lambda query: BoostQuery(word, query),
        lambda query: BoostQuery(query, query),
    ]
    for combined in combinations:
        query = word
        for _ in range(100):
            query = combined(query)
        with pytest.raises(InvalidInputError, match="more than 100 nested queries"):
            combined(query)
