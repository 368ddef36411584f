"""Chinese, cut by a package with a dictionary: the reference's tokens, recorded."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from index.inverted.test_tokens import per_document

import pilum
from pilum.errors import InvalidInputError, MissingDependencyError
from pilum.index.inverted.dictionaries import JIEBA, segmenter
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import Analyzer
from pilum.query import MatchQuery

RECORDED = json.loads(Path(__file__).with_name("recorded_chinese.json").read_text("utf-8"))
PARAMETERS = InvertedParameters.from_keywords({"base_tokenizer": JIEBA})


@pytest.fixture(autouse=True)
def other_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LANCE_LANGUAGE_MODEL_HOME", str(tmp_path))
    segmenter.cache_clear()
    return tmp_path / JIEBA


def test_tokens_and_positions_are_those_that_the_reference_recorded() -> None:
    pytest.importorskip("rjieba")
    analyzer = Analyzer(PARAMETERS)
    texts = pa.array([*RECORDED["documents"], None, ""])
    found = per_document(analyzer.tokens(texts))
    assert json.loads(json.dumps(found)) == [*RECORDED["tokens"], [], []]
    builder = analyzer.builder()
    numbered = builder.analyze(texts)
    tokens, ids = builder.finish().listed()
    names = dict(zip(ids.tolist(), tokens.to_pylist(), strict=True))
    expected = analyzer.tokens(texts)
    assert [names[one] for one in numbered.token_ids.tolist()] == expected.tokens.to_pylist()
    assert numbered.ends.tolist() == expected.ends.tolist()


def test_lists_and_queries() -> None:
    pytest.importorskip("rjieba")
    analyzer = Analyzer(PARAMETERS)
    lists = pa.array([["", "长江", None, "大桥"], None, []])
    assert per_document(analyzer.tokens(lists)) == [[(" ", 2), ("大桥", 3), ("长江", 0)], [], []]
    assert per_document(analyzer.query("the 长江")) == [[(" ", 3), ("长江", 4)]]
    assert analyzer.split("The 长江")[0].tokens.to_pylist() == ["The", " ", "长江"]


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(MissingDependencyError, match="chinese"):
        Analyzer(PARAMETERS)


def test_a_table_whose_index_needs_a_missing_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its rows are filtered and deleted without it; searches name it."""
    pytest.importorskip("rjieba")
    table = pilum.write_dataset({"s": ["长江", "大桥"]}, str(tmp_path / "t"))
    table.create_scalar_index("s", "INVERTED", base_tokenizer=JIEBA)
    monkeypatch.setitem(sys.modules, "rjieba", None)
    segmenter.cache_clear()
    other = pilum.dataset(str(tmp_path / "t"), session=pilum.Session())
    assert other.to_table(filter="s = '长江' AND contains_tokens(s, '长江')").num_rows == 1
    other.delete("s = '长江'")
    assert other.count_rows() == 1
    with pytest.raises(MissingDependencyError, match="chinese"):
        other.to_table(full_text_query=MatchQuery("大桥", "s"))


@pytest.mark.parametrize(
    ("name", "content"),
    [("dict.txt", "word 3 n\n"), ("config.json", '{"main": "own.txt"}'), ("config.json", "[")],
)
def test_a_dictionary_of_its_own_is_refused(other_home: Path, name: str, content: str) -> None:
    other_home.mkdir(parents=True)
    (other_home / name).write_text(content)
    with pytest.raises(InvalidInputError, match="dictionary"):
        Analyzer(PARAMETERS)


def test_json_documents() -> None:
    """Their texts are cut as others are; positions count the tokens."""
    pytest.importorskip("rjieba")
    analyzer = Analyzer(InvertedParameters.from_keywords({"base_tokenizer": JIEBA}, is_json=True))
    text = RECORDED["documents"][0]
    words = Analyzer(PARAMETERS).query(text).tokens.to_pylist()
    found = analyzer.tokens(pa.array([json.dumps({"a": [1, text]}), None], pa.json_()))
    assert found.tokens.to_pylist() == ["a,number,1", *(f"a,str,{word}" for word in words)]
    assert found.positions.tolist() == list(range(len(words) + 1))
    assert found.ends.tolist() == [len(words) + 1] * 2
