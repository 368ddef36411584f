"""Full-text queries of a table, compared with the reference."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import lance
import lance.query
import pyarrow as pa
import pytest
from python_calls import num_calls

import pilum
from pilum.errors import InvalidInputError
from pilum.expressions.filter import SqlFilter
from pilum.query import DocumentGranularity, MatchQuery, PhraseQuery


@pytest.mark.parametrize("made", [None, "row", "list_element"])
def test_queries_that_say_what_a_document_is(tmp_path: Path, made: str | None) -> None:
    """Rows, scores and refusals are those of the reference."""
    lists = pa.table({"l": [["a b", "a"], ["b"], ["c a"]], "s": ["a", "b", "c"]})
    reference = lance.write_dataset(lists, tmp_path / "t")
    if made is not None:
        granularity = lance.query.DocumentGranularity(made)
        given: dict[str, Any] = {"stem": False, "remove_stop_words": False}
        reference.create_scalar_index("l", "INVERTED", document_granularity=granularity, **given)
    reference, dataset = lance.dataset(tmp_path / "t"), pilum.dataset(tmp_path / "t")
    for asked in ("row", "list_element"):
        own = MatchQuery("b", "l", document_granularity=DocumentGranularity(asked))
        theirs = lance.query.DocumentGranularity(asked)
        other = lance.query.MatchQuery("b", "l", document_granularity=theirs)
        columns = ["s", "_score", *(["_doc_index"] if asked == "list_element" else [])]
        if made not in {None, asked}:
            with pytest.raises(InvalidInputError, match=f"'{asked}', but those of the index 'l_"):
                dataset.to_table(full_text_query=own, columns=columns)
            with pytest.raises(ValueError, match="different granularity"):
                reference.to_table(full_text_query=other, columns=columns)
            continue
        found = dataset.to_table(full_text_query=own, columns=columns).to_pylist()
        expected = reference.to_table(full_text_query=other).select(columns)
        assert found == sorted(expected.to_pylist(), key=lambda row: -row["_score"])
    element = MatchQuery("b", "s", document_granularity=DocumentGranularity.LIST_ELEMENT)
    with pytest.raises(InvalidInputError, match="has no lists"):
        dataset.to_table(full_text_query=element)


@pytest.mark.parametrize("own", [True, False], ids=["made here", "made by the reference"])
def test_indices_of_list_elements(tmp_path: Path, own: bool) -> None:
    """Both libraries create them under one name, use them, and return the place of an element."""
    lists = pa.table({"l": [["a b", "b c"], ["c"], None, ["b"]], "i": [1, 2, 3, 4]})
    library = pilum if own else lance
    made = library.write_dataset(lists, tmp_path / "t")
    granularity = library.query.DocumentGranularity
    given: dict[str, Any] = {"stem": False, "remove_stop_words": False}
    made.create_scalar_index(
        "l", "INVERTED", document_granularity=granularity.LIST_ELEMENT, **given
    )
    made.create_scalar_index("i", "BTREE", document_granularity=granularity.ROW)
    reference, dataset = lance.dataset(tmp_path / "t"), pilum.dataset(tmp_path / "t")
    names = [one["name"] for one in dataset.list_indices()]
    assert sorted(names) == ["i_idx", "l_list_element_idx"]
    queries = MatchQuery("b", "l"), lance.query.MatchQuery("b", "l")
    scans: list[dict[str, Any]] = [
        {},
        {"columns": ["i", "_score"]},
        {"columns": ["_doc_index", "i"], "disable_scoring_autoprojection": True},
        {"with_row_id": True},
    ]
    for scan in scans * 2:
        found = dataset.to_table(full_text_query=queries[0], **scan)
        expected = reference.to_table(full_text_query=queries[1], **scan)
        assert found.schema.names == expected.schema.names
        assert found.to_pylist() == expected.to_pylist()


def test_refused_granularities(tmp_path: Path) -> None:
    """Only lists have elements, and only full-text indices have documents."""
    dataset = pilum.write_dataset(pa.table({"s": ["a"], "i": [1]}), tmp_path / "t")
    with pytest.raises(InvalidInputError, match="needs a column of lists"):
        dataset.create_scalar_index("s", "INVERTED", document_granularity="list_element")
    with pytest.raises(InvalidInputError, match="expected one of"):
        dataset.create_scalar_index("s", "INVERTED", document_granularity="column")
    with pytest.raises(TypeError, match="document_granularity"):
        dataset.create_scalar_index(
            "i", "BTREE", document_granularity=DocumentGranularity.LIST_ELEMENT
        )


@pytest.mark.parametrize("first", ["row", "list_element"])
def test_a_phrase_has_the_documents_of_the_index_with_positions(tmp_path: Path, first: str) -> None:
    lists = pa.table({"l": [["a b", "b c"], ["c"], None, ["b", "x a b"]], "i": [1, 2, 3, 4]})
    dataset = pilum.write_dataset(lists, tmp_path / "t")
    for granularity in (first, "row" if first == "list_element" else "list_element"):
        dataset.create_scalar_index(
            "l",
            "INVERTED",
            name=granularity,
            document_granularity=granularity,
            with_position=granularity != first,
            stem=False,
            remove_stop_words=False,
        )
    for query, has_elements in (
        (MatchQuery("b", "l"), first == "list_element"),
        (PhraseQuery("a b", "l"), first == "row"),
        (MatchQuery("b", "l"), first == "list_element"),
    ):
        found = dataset.to_table(full_text_query=query)
        assert ("_doc_index" in found.column_names) is has_elements
        assert sorted(set(found["i"].to_pylist())) == [1, 4]
        if has_elements and isinstance(query, PhraseQuery):
            places = zip(found["i"].to_pylist(), found["_doc_index"].to_pylist(), strict=True)
            assert sorted(places) == [(1, [0]), (4, [1])]


@pytest.mark.parametrize("first", ["row", "list_element"])
def test_places_of_elements_are_those_of_the_index_that_is_used(tmp_path: Path, first: str) -> None:
    """It may be named, and a damaged one is not used."""
    lists = pa.table({"l": [["a b", "b c"], ["c"], None, ["b"]], "i": [1, 2, 3, 4]})
    dataset = pilum.write_dataset(lists, tmp_path / "t")
    names = [first, "row" if first == "list_element" else "list_element"]
    for name in names:
        dataset.create_scalar_index("l", "INVERTED", name=name, document_granularity=name)
    scan: dict[str, Any] = {"full_text_query": MatchQuery("b", "l")}

    def found(**more: Any) -> str:
        rows = pilum.dataset(tmp_path / "t", session=pilum.Session()).to_table(**scan, **more)
        assert sorted(set(rows["i"].to_pylist())) == [1, 4]
        return "list_element" if "_doc_index" in rows.column_names else "row"

    uuids = {one.name: one.segments[0].uuid for one in dataset.describe_indices()}
    for name in names:
        assert found(index_segments=[uuids[name]]) == name
    assert found() == first
    (tmp_path / "t/_indices" / uuids[first] / "part_0_docs.lance").write_bytes(b"")
    with pytest.warns(RuntimeWarning, match=f"index '{first}'.*is not used"):
        assert found() == names[1]


def test_texts_take_few_calls(tmp_path: Path) -> None:
    """A text that was searched before, one of other words, and a phrase."""
    texts = [f"ash {'elm ' * (row % 3)}number{row}" for row in range(400)]
    dataset = pilum.write_dataset({"s": texts}, tmp_path / "t", max_rows_per_file=200)
    dataset.create_scalar_index("s", "INVERTED", with_position=True)

    def search(query: MatchQuery | PhraseQuery) -> int:
        ask: dict[str, Any] = {"columns": ["s", "_score"], "full_text_query": query, "limit": 5}
        return num_calls(lambda: dataset.to_table(**ask))

    for row in (1, 2):
        search(MatchQuery(f"ash number{row}", "s"))
    assert 0 < search(MatchQuery("ash number2", "s")) <= 240
    assert 0 < search(MatchQuery("ash number3", "s")) <= 420
    assert 0 < search(PhraseQuery("ash number4", "s")) <= 680


def test_a_filter_that_is_asked_repeatedly(tmp_path: Path) -> None:
    """Its rows are kept for one version and one way to search; each answer is the reference's."""
    rows = pa.table({"s": ["a b", "b", "a", "a a", "b a", "c"] * 3, "i": range(18)})
    dataset = pilum.write_dataset(rows, tmp_path / "t", enable_stable_row_ids=True)
    dataset.create_scalar_index("s", "INVERTED", stem=False, remove_stop_words=False)
    changes = (
        lambda: None,
        lambda: dataset.delete("i = 3 OR i = 8"),
        lambda: dataset.update({"i": "i + 5"}, "i < 5"),
        lambda: dataset.insert(rows.slice(0, 4)),
    )
    for change in changes:
        change()
        for text in ("a", "b", "a", "c", "a"):
            for filter in ("i % 2 = 0", "i % 3 = 0"):
                asked: dict[str, Any] = {"filter": filter, "prefilter": True, "limit": 20}
                asked["columns"] = ["i", "_score"]
                for asked["fast_search"] in (False, True):
                    theirs, own = lance.query.MatchQuery(text, "s"), MatchQuery(text, "s")
                    reference = lance.dataset(tmp_path / "t")
                    expected = reference.to_table(full_text_query=theirs, **asked)
                    found = dataset.to_table(full_text_query=own, **asked)
                    order = [("i", "ascending"), ("_score", "ascending")]
                    assert found.sort_by(order).equals(expected.sort_by(order))


def test_equal_scores_at_the_limit(tmp_path: Path) -> None:
    """The first rows are found, whichever segment they are in."""
    rows = pa.table({"s": ["a"] * 6, "i": range(6)})
    dataset = pilum.write_dataset(rows, tmp_path / "t", max_rows_per_file=2)
    dataset.create_scalar_index("s", "INVERTED", stem=False, remove_stop_words=False)
    dataset.update({"s": "s"}, "i = 0 OR i = 3")
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset.optimize.compact_files()
    dataset = pilum.dataset(tmp_path / "t")
    query = MatchQuery("a", "s")
    assert len(dataset.describe_indices()[0].segments) == 2
    in_order = dataset.to_table(["i"])["i"].to_pylist()
    for limit in range(1, 7):
        found = dataset.to_table(["i", "_score"], full_text_query=query, limit=limit)
        assert found["i"].to_pylist() == in_order[:limit]


def test_phrases_of_ngrams(tmp_path: Path) -> None:
    """N-grams have no order: any of them is enough, as in the reference, with its scores."""
    texts = ["fox one two", "fox one", "abc fox", "one fox", "zzz", "abcd", None]
    dataset = pilum.write_dataset({"s": texts, "i": list(range(7))}, tmp_path / "t")
    dataset.create_scalar_index("s", "INVERTED", base_tokenizer="ngram", with_position=True)
    reference = lance.dataset(tmp_path / "t")
    for text in ("fox", "fox one", "abcd", "xyz"):
        query = lance.query.PhraseQuery(text, "s")
        expected = reference.to_table(["i", "_score"], full_text_query=query)
        found = dataset.to_table(["i", "_score"], full_text_query=PhraseQuery(text, "s"))
        assert found.sort_by("i").equals(expected.sort_by("i"))


def test_an_index_of_which_all_rows_changed_still_says_how_texts_are_cut(tmp_path: Path) -> None:
    texts = pa.table({"s": ["Red apples", "a pear"]})
    table = pilum.write_dataset(texts, tmp_path / "t")
    table.create_scalar_index("s", "INVERTED", stem=True, remove_stop_words=True)
    table.update({"s": "concat(s, ' Today')"})
    reference = lance.dataset(tmp_path / "t")
    for text in ["apple", "TODAY", "a pears", "red pear"]:
        found = table.to_table(columns=["s", "_score"], full_text_query=MatchQuery(text, "s"))
        query = lance.query.MatchQuery(text, "s")
        expected = reference.to_table(columns=["s", "_score"], full_text_query=query)
        assert sorted(found.to_pylist(), key=str) == sorted(expected.to_pylist(), key=str)
        assert found.num_rows


def test_long_filters_are_not_kept(tmp_path: Path) -> None:
    """A session that keeps rows of a filter does not keep its values, which may be many."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(600), pa.float32()), 2)
    rows = pa.table({"s": ["oak"] * 300, "i": range(300), "v": vectors})
    session = pilum.Session()
    dataset = pilum.write_dataset(rows, tmp_path / "t")
    dataset.create_scalar_index("s", "INVERTED")
    dataset.create_index("v", "IVF_FLAT", num_partitions=1)

    def filters() -> set[int]:
        gc.collect()
        return {id(one) for one in gc.get_objects() if isinstance(one, SqlFilter)}

    before = filters()
    opened = pilum.dataset(tmp_path / "t", session=session)
    for first in range(3):
        asked: dict[str, Any] = {"filter": f"i IN ({', '.join(map(str, range(first, 5000)))})"}
        asked["prefilter"] = True
        texts = opened.to_table(full_text_query=MatchQuery("oak", "s"), limit=1, **asked)
        nearest = {"column": "v", "q": [0.0, 0.0], "k": 1}
        assert texts.num_rows == opened.to_table(nearest=nearest, **asked).num_rows == 1
    del opened
    assert filters() <= before


def test_consecutive_numbers(tmp_path: Path) -> None:
    """They take few bytes as tokens, which was taken for damage; optimising lists them, too."""
    texts = [" ".join(map(str, range(first, first + 200_000))) for first in (0, 200_000)]
    dataset = pilum.write_dataset({"s": texts[:1]}, tmp_path / "t")
    dataset.create_scalar_index("s", "INVERTED", with_position=False, memory_limit=1)
    dataset.insert(pa.table({"s": texts[1:]}))
    dataset.optimize.optimize_indices()
    reference = lance.dataset(tmp_path / "t")
    for text in ("7", "199999 200000", "400000"):
        expected = reference.to_table(["_rowid", "_score"], full_text_query=text)
        assert dataset.to_table(["_rowid", "_score"], full_text_query=text).equals(expected)
