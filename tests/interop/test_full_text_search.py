"""Full-text searches of tables: the rows and scores of pylance, whoever made the index."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import lance
import lance.query as peer
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pilum
import pilum.query as own
from pilum.dataset.scanner_builder import ScannerBuilder
from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedTypeError

WORDS = ["quick", "brown", "fox", "lazy", "dog", "the", "running", "Ünïcode", "fox's", "a1"]
Answer = dict[int, bytes]
"""The score of each row, as the bytes of a float."""


def table(num_rows: int, first: int = 0, seed: int = 0) -> pa.Table:
    """Rows with texts of up to six words, some of which are null or empty."""
    random = np.random.default_rng(seed)

    def text() -> str | None:
        count = int(random.integers(0, 7))
        return None if random.random() < 0.1 else " ".join(random.choice(WORDS, count))

    return pa.table(
        {
            "i": pa.array(range(first, first + num_rows)),
            "s": pa.array([text() for _ in range(num_rows)]),
            "t": pa.array([text() for _ in range(num_rows)]),
        }
    )


def answers(dataset: Any, **scan: Any) -> Answer:
    rows = dataset.scanner(columns=["i", "_score"], **scan).to_table()
    scores = rows["_score"].to_numpy().tobytes()
    keys = rows["i"].to_pylist()
    assert len(set(keys)) == len(keys)
    return {key: scores[4 * place : 4 * place + 4] for place, key in enumerate(keys)}


def queries(column: str) -> list[tuple[Any, Any]]:
    """Pairs of a query here and there."""
    found = []
    for library in (own, peer):
        match = library.MatchQuery
        both = library.FullTextOperator.AND
        found.append(
            [
                match("quick", column),
                match("the quick FOX", column),
                match("lazy dog dog", column),
                match("runs foxes", column, boost=2.5),
                match("brown fox", column, operator=both),
                match("quicks", column, fuzziness=2),
                library.PhraseQuery("quick fox", column),
                library.PhraseQuery("quick fox", column, slop=2),
                library.BoostQuery(match("fox", column), match("dog", column)),
                library.MultiMatchQuery("fox dog", ["s", "t"]),
                match("fox", column) & match("dog", column),
                match("fox", column) | match("quick", column),
                library.BooleanQuery(
                    [
                        (library.Occur.MUST, match("fox", column)),
                        (library.Occur.SHOULD, match("lazy", "t")),
                        (library.Occur.MUST_NOT, match("dog", column)),
                    ]
                ),
            ]
        )
    return list(zip(*found, strict=True))


@pytest.fixture(params=["pilum", "pylance"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of three fragments whose indices one of the libraries made."""
    uri = str(tmp_path / "table")
    library: Any = {"pilum": pilum, "pylance": lance}[request.param]
    dataset = library.write_dataset(table(90), uri, max_rows_per_file=30)
    for column in ("s", "t"):
        dataset.create_scalar_index(column, "INVERTED", with_position=True)
    return uri


def require_equal(uri: str, **scan: Any) -> None:
    for mine, theirs in queries("s"):
        expected = answers(lance.dataset(uri), full_text_query=theirs, **scan)
        assert answers(pilum.dataset(uri), full_text_query=mine, **scan) == expected, mine


def test_every_query(uri: str) -> None:
    """All queries have the same rows with the same scores, to the last bit."""
    require_equal(uri)
    require_equal(uri, filter="i % 3 = 0", prefilter=True)
    require_equal(uri, filter="i % 3 = 0")


def nested(library: Any, *clauses: tuple[str, Any]) -> Any:
    """Returns a boolean query of clauses: words, a column; or a query."""
    made = []
    for occur, clause in clauses:
        query = library.MatchQuery(*clause) if isinstance(clause, tuple) else clause
        made.append((library.Occur[occur], query))
    return library.BooleanQuery(made)


def booleans(library: Any) -> list[Any]:
    """Boolean queries of several clauses and columns, whose sums depend on their order."""
    must, should, must_not = "MUST", "SHOULD", "MUST_NOT"
    both = library.MultiMatchQuery("lazy quick", ["s", "t"], boosts=[1.5, 1.0])
    inner = nested(library, (must, ("dog", "t")), (should, ("fox", "s")), (should, ("lazy", "s")))
    boosted = library.BoostQuery(library.MatchQuery("brown fox", "s"), inner, negative_boost=0.3)
    return [
        nested(
            library, (must, ("fox", "s")), (should, ("quick", "s")), (should, ("dog lazy", "s"))
        ),
        nested(
            library, (must, ("fox", "s")), (should, ("quick", "t")), (should, ("dog lazy", "t"))
        ),
        nested(library, (must, ("fox", "t")), (must, ("dog", "s")), (must, both), (should, inner)),
        nested(library, (should, both), (should, ("dog", "s")), (should, ("brown", "t"))),
        nested(library, (should, boosted), (should, inner), (must_not, ("lazy", "t"))),
        library.BoostQuery(inner, both, negative_boost=0.7),
    ]


def test_booleans_of_several_columns(uri: str) -> None:
    """All queries have the same rows with the same scores, to the last bit.

    With a limit; without it, the order in which the reference adds scores depends on its threads.
    """
    for limit in (5, 90):
        for mine, theirs in zip(booleans(own), booleans(peer), strict=True):
            scan: dict[str, Any] = {"columns": ["i", "_score"], "limit": limit}
            expected = lance.dataset(uri).to_table(full_text_query=theirs, **scan)
            found = pilum.dataset(uri).to_table(full_text_query=mine, **scan)
            assert found["_score"].equals(expected["_score"]), mine
            if limit == 90:
                assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
            whole = pilum.dataset(uri).to_table(full_text_query=mine, columns=["_score"])
            assert whole["_score"][:limit].equals(found["_score"])


def test_after_changes(uri: str) -> None:
    """Deleted rows are left out; rows that no index covers are searched too, until they are."""
    dataset = pilum.dataset(uri)
    dataset.delete("i % 7 = 3")
    require_equal(uri)
    pilum.write_dataset(table(20, 90, seed=1), uri, mode="append")
    for mine, theirs in queries("s"):
        if getattr(mine, "fuzziness", 0):  # the reference then finds only exact words
            continue
        expected = answers(lance.dataset(uri), full_text_query=theirs)
        assert answers(pilum.dataset(uri), full_text_query=mine) == expected, mine
    require_equal(uri, fast_search=True)
    pilum.dataset(uri).optimize.optimize_indices()
    require_equal(uri)
    pilum.dataset(uri).optimize.compact_files()
    require_equal(uri)


SPLIT: dict[str, Any] = {
    "base_tokenizer": "code",
    "split_identifiers": True,
    "with_position": True,
}


def indexed(writer: Any, path: Path, texts: Sequence[str], **keywords: Any) -> str:
    """A table whose texts are indexed."""
    uri = str(path / writer.__name__)
    dataset = writer.write_dataset(pa.table({"i": range(len(texts)), "s": texts}), uri)
    dataset.create_scalar_index("s", "INVERTED", **keywords)
    return uri


@pytest.mark.parametrize("writer", [pilum, lance])
def test_phrases_with_alternatives(writer: Any, tmp_path: Path) -> None:
    """An identifier and its first part are at one position of a phrase: either of them matches."""
    words = ["user_name", "userName", "user", "name", "foo", "fooBar", "x"]
    random = np.random.default_rng(3)
    texts = [" ".join(random.choice(words, random.integers(1, 6))) for _ in range(150)]
    uri = indexed(writer, tmp_path, texts, **SPLIT)
    for text in ("user_name", "foo user_name", "userName foo", "fooBar x", "user_name unknown"):
        for limit in (None, 10):
            mine, theirs = (
                library.dataset(uri).to_table(
                    ["i", "_score"], full_text_query=query.PhraseQuery(text, "s"), limit=limit
                )
                for library, query in ((pilum, own), (lance, peer))
            )
            assert mine["_score"].to_pylist() == theirs["_score"].to_pylist()
            if limit is None:
                assert sorted(mine["i"].to_pylist()) == sorted(theirs["i"].to_pylist())
                assert bool(mine.num_rows) is ("unknown" not in text)
    name, phrase = own.MatchQuery("name", "s"), own.PhraseQuery("user_name", "s")
    without = own.BooleanQuery([(own.Occur.MUST, name), (own.Occur.MUST_NOT, phrase)])
    left, names, phrases = (
        answers(pilum.dataset(uri), full_text_query=query) for query in (without, name, phrase)
    )
    assert left.keys() == names.keys() - phrases.keys() != set()


NGRAMS: dict[str, Any] = {"base_tokenizer": "ngram", "min_ngram_length": 2, "with_position": True}


@pytest.mark.parametrize(
    ("keywords", "kind", "words", "options"),
    [
        ({"stem": False}, "MatchQuery", "quik lazi", {"fuzziness": 1}),
        ({"stem": False}, "MatchQuery", "fxo", {"fuzziness": 2}),
        (NGRAMS, "MatchQuery", "row row", {}),
        (NGRAMS, "PhraseQuery", "lazy dog", {}),
        (SPLIT, "PhraseQuery", "user_name", {}),
    ],
)
def test_rows_match_whether_an_index_covers_them_or_not(
    tmp_path: Path, keywords: dict[str, Any], kind: str, words: str, options: dict[str, Any]
) -> None:
    """The rows of an answer are those of pylance when an index covers all of them.

    As long as it does not, pylance leaves out some of them.
    """
    random = np.random.default_rng(4)
    some = [*WORDS, "user_name", "userName", "name"]
    texts = [" ".join(random.choice(some, random.integers(0, 7))) for _ in range(60)]
    uri = indexed(pilum, tmp_path, texts[:40], **keywords)
    pilum.write_dataset(pa.table({"i": range(40, 60), "s": texts[40:]}), uri, mode="append")
    query = getattr(own, kind)(words, "s", **options)
    partly = answers(pilum.dataset(uri), full_text_query=query)
    pilum.dataset(uri).optimize.optimize_indices()
    theirs = getattr(peer, kind)(words, "s", **options)
    expected = answers(lance.dataset(uri), full_text_query=theirs)
    assert partly.keys() == expected.keys()
    assert answers(pilum.dataset(uri), full_text_query=query) == expected
    assert any(row >= 40 for row in expected)


@pytest.mark.parametrize("writer", [pilum, lance])
def test_json(writer: Any, tmp_path: Path) -> None:
    """Values of JSON columns are found by their paths, whoever made the index."""
    documents = ['{"a":"The quick fox","b":[1,2.5,null]}', '{"a":"fox dog","c":{"d":true}}', None]
    documents += ['"fox"', '{"a":["fox quick","x"],"b":1}']
    table = pa.table({"i": range(len(documents)), "j": pa.array(documents, pa.json_())})
    uri = str(tmp_path / "table")
    writer.write_dataset(table, uri).create_scalar_index("j", "INVERTED", with_position=True)
    texts = [
        "a,str,fox",
        "a,str,the quick fox",
        "b,number,1;c.d,bool,true",
        ",str,fox",
        "b,null,null",
    ]
    for step in ("indexed", "partly", "optimized"):
        if step == "partly":
            more = table.set_column(0, "i", pa.array(range(5, 10)))
            writer.write_dataset(more, uri, mode="append")
        elif step == "optimized":
            pilum.dataset(uri).optimize.optimize_indices()
        for text in texts:
            for name in ("MatchQuery", "PhraseQuery"):
                mine, theirs = (
                    answers(library.dataset(uri), full_text_query=getattr(query, name)(text, "j"))
                    for library, query in ((pilum, own), (lance, peer))
                )
                assert mine == theirs
                assert mine or (name == "PhraseQuery" and ";" in text)
        if step != "partly":  # the reference then finds only exact words
            for text in ("a,str,foy", "b,str,fox", "b,number,2"):
                mine, theirs = (
                    answers(
                        library.dataset(uri),
                        full_text_query=query.MatchQuery(text, "j", fuzziness=1),
                    )
                    for library, query in ((pilum, own), (lance, peer))
                )
                assert mine == theirs
                assert bool(mine) is (text != "b,str,fox")
    with pytest.raises(InvalidInputError, match="Invalid triple format"):
        pilum.dataset(uri).to_table(full_text_query=own.MatchQuery("fox", "j"))


def test_stable_row_ids(tmp_path: Path) -> None:
    """An updated row keeps its id, and is found by its new text only."""
    uri = str(tmp_path / "table")
    dataset = pilum.write_dataset(table(40), uri, max_rows_per_file=20, enable_stable_row_ids=True)
    dataset.create_scalar_index("s", "INVERTED")
    pilum.dataset(uri).update({"s": "'zebra'"}, "i = 5")
    found = pilum.dataset(uri).to_table(full_text_query="zebra", columns=["i", "_score"])
    assert found["i"].to_pylist() == [5]
    old = table(40)["s"][5].as_py() or "quick"
    rows = pilum.dataset(uri).to_table(full_text_query=old, columns=["i", "_score"])
    assert 5 not in rows["i"].to_pylist()
    pilum.dataset(uri).optimize.optimize_indices()
    rows = pilum.dataset(uri).to_table(full_text_query=old, columns=["i", "_score"])
    assert 5 not in rows["i"].to_pylist()
    rows = pilum.dataset(uri).to_table(full_text_query="zebra", columns=["i", "_score"])
    assert rows["i"].to_pylist() == [5]


def test_columns_and_order(uri: str) -> None:
    """The score follows the columns, unless it is among them; the best rows come first."""
    dataset = pilum.dataset(uri)
    whole = dataset.to_table(full_text_query=own.MatchQuery("fox", "s"))
    assert whole.column_names == ["i", "s", "t", "_score"]
    scores = whole["_score"].to_numpy()
    assert (scores[:-1] >= scores[1:]).all()
    expected = lance.dataset(uri).to_table(full_text_query=peer.MatchQuery("fox", "s"))
    assert whole.schema.equals(expected.schema)
    with pytest.warns(FutureWarning, match="_score"):
        some = dataset.to_table(
            full_text_query=own.MatchQuery("fox", "s"), columns=["i"], with_row_id=True, limit=2
        )
    assert some.column_names == ["i", "_score", "_rowid"]
    assert some["_score"].to_pylist() == whole["_score"].to_pylist()[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bare = dataset.to_table(
            full_text_query=own.MatchQuery("fox", "s"),
            columns={"twice": "i * 2", "score": "_score"},
            disable_scoring_autoprojection=True,
            order_by="i",
            offset=1,
        )
    assert bare.column_names == ["twice", "score"]
    assert bare["twice"].to_pylist() == sorted(bare["twice"].to_pylist())
    assert bare.num_rows == whole.num_rows - 1
    counted = dataset.scanner(full_text_query=own.MatchQuery("fox", "s")).count_rows()
    assert counted == whole.num_rows


def test_forms_of_queries(uri: str) -> None:
    """Text searches all indexed columns; quotes make a phrase; dicts and tuples name columns."""
    dataset = pilum.dataset(uri)
    multi = answers(dataset, full_text_query=own.MultiMatchQuery("quick fox", ["s", "t"]))
    assert answers(dataset, full_text_query="quick fox") == multi
    one = answers(dataset, full_text_query=own.MatchQuery("quick fox", "t"))
    assert answers(dataset, full_text_query={"query": "quick fox", "columns": ["t"]}) == one
    phrase = answers(dataset, full_text_query=own.PhraseQuery("quick fox", "t"))
    assert answers(dataset, full_text_query={"query": '"quick fox"', "columns": ["t"]}) == phrase
    builder = ScannerBuilder(dataset).full_text_search("quick fox", ["t"])
    assert builder.columns(["i", "_score"]).to_scanner().count_rows() == len(one)


def test_without_an_index(tmp_path: Path) -> None:
    """Queries that name a column work on tables without an index, in other words: by a scan."""
    uri = str(tmp_path / "table")
    dataset = pilum.write_dataset(table(50), uri)
    expected = answers(
        lance.dataset(uri), full_text_query=peer.MatchQuery("quick fox", "s"), limit=50
    )
    assert answers(dataset, full_text_query=own.MatchQuery("quick fox", "s")) == expected
    with pytest.raises(InvalidInputError, match=r"no column of .* has a full-text index"):
        dataset.to_table(full_text_query="fox")


def test_bad_input(uri: str) -> None:
    """Wrong columns, types and forms are named."""
    dataset = pilum.dataset(uri)
    with pytest.raises(ColumnNotFoundError, match="zz"):
        dataset.to_table(full_text_query=own.MatchQuery("fox", "zz"))
    with pytest.raises(UnsupportedTypeError, match="column i"):
        dataset.to_table(full_text_query=own.MatchQuery("fox", "i"))
    for wrong in (5, {"text": "fox"}, {"query": "fox", "columns": "s"}):
        with pytest.raises(InvalidInputError, match="full_text_query"):
            dataset.to_table(full_text_query=wrong)


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.integers(1, 8))
def test_the_best_rows_are_those_of_all(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], limit: int
) -> None:
    """With a limit, the scores are the greatest of all scores."""
    root = tmp_path_factory.getbasetemp() / "best"
    if not root.exists():
        made = pilum.write_dataset(table(300, seed=5), str(root), max_rows_per_file=120)
        made.create_scalar_index("s", "INVERTED")
        pilum.write_dataset(table(40, 300, seed=6), str(root), mode="append")
    dataset = pilum.dataset(str(root))
    query = own.MatchQuery(" ".join(words), "s")
    whole = dataset.to_table(full_text_query=query, columns=["i", "_score"])
    best = dataset.to_table(full_text_query=query, columns=["i", "_score"], limit=limit)
    assert best["_score"].to_pylist() == whole["_score"].to_pylist()[:limit]
