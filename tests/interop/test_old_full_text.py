"""Full-text indices of old releases: answered, optimised and, if damaged, left out.

`tests/fixtures` has the tables. Releases before 0.30 had another layout.
"""

from __future__ import annotations

import random
import tarfile
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import lance
import lance.query as peer
import pytest
from fuzz.mutate import mutate

import pilum
import pilum.query as own
from pilum.errors import CorruptFileError

FIXTURES = Path(__file__).parents[1] / "fixtures"
RELEASES = ["0.27.2", "0.33.0", "0.38.3"]


@pytest.fixture
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A table that a release wrote."""
    with tarfile.open(FIXTURES / f"text-indices-{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "texts" / "words.lance"


def queries(library: Any) -> list[Any]:
    match, both = library.MatchQuery, library.FullTextOperator.AND
    found = [match("foxes", "english"), match("the running", "english")]
    for column in ("plain", "english"):
        found.append(match("quick FOX the", column))
        found.append(match("brown lazy", column, operator=both))
        found.append(match("broom", column, fuzziness=2))
    return found


def answers(dataset: Any, query: Any) -> dict[int, float]:
    rows = dataset.to_table(columns=["i", "_score"], full_text_query=query, fast_search=True)
    return dict(zip(rows["i"].to_pylist(), rows["_score"].to_pylist(), strict=True))


def phrase(texts: list[str | None], words: str) -> list[int]:
    """Returns the rows with words one after another."""
    return [row for row, text in enumerate(texts) if f" {words} " in f" {text} "]


@pytest.mark.parametrize("uri", RELEASES, indirect=True)
def test_old_layouts(uri: Path) -> None:
    """Rows and scores are those of the present reference; phrases, those that it refuses, too."""
    for mine, theirs in zip(queries(own), queries(peer), strict=True):
        found = answers(pilum.dataset(uri), mine)
        assert found == answers(lance.dataset(uri), theirs), mine
    dataset = pilum.dataset(uri)
    texts = dataset.to_table()["plain"].to_pylist()
    words = own.PhraseQuery("brown fox", "plain")
    rows = dataset.to_table(["i", "_score"], full_text_query=words)["i"].to_pylist()
    assert sorted(rows) == phrase(texts, "brown fox")
    assert any(row < 35 for row in rows)
    dataset.optimize.optimize_indices()
    for mine, theirs in zip(queries(own), queries(peer), strict=True):
        assert answers(pilum.dataset(uri), mine) == answers(lance.dataset(uri), theirs), mine
    rows = pilum.dataset(uri).to_table(["i", "_score"], full_text_query=words)["i"].to_pylist()
    assert sorted(rows) == phrase(texts, "brown fox")


@pytest.mark.seeds(15)
@pytest.mark.parametrize("uri", RELEASES[:1], indirect=True)
def test_damage(uri: Path, seed: int) -> None:
    """Any bytes of the first layout: rows of the table, each once, or an error."""
    source = random.Random(seed)
    file = source.choice(sorted(uri.glob("_indices/*/*.lance")))
    file.write_bytes(mutate(file.read_bytes(), source))
    dataset = pilum.dataset(uri)
    for query in (*queries(own), own.PhraseQuery("brown fox", "plain")):
        with suppress(CorruptFileError), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            rows = dataset.to_table(["i", "_score"], full_text_query=query)["i"].to_pylist()
            assert len(set(rows)) == len(rows)
