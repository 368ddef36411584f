"""The tokens of a text without an index."""

from __future__ import annotations

from typing import Any

import pytest

import pilum
from pilum.errors import InvalidInputError

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")


@pytest.mark.reference
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stem": False, "remove_stop_words": False},
        {"base_tokenizer": "whitespace", "lower_case": False},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3},
        {"max_token_length": None},
        {"max_token_length": 5},
        {"language": "German", "ascii_folding": False},
        {"analyzer": "code"},
        {"custom_stop_words": ["cats"], "stem": False},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "text", ["the Cats and Dogs", "", "the", "readFile(häuser_2) is Straßen, " + "x" * 50]
)
def test_tokens_are_those_of_the_reference(text: str, options: dict[str, Any]) -> None:
    found = [(token.text, token.position) for token in pilum.tokenize(text, **options)]
    expected = [(token.text, token.position) for token in lance.tokenize(text, **options)]
    assert found == expected


def test_unknown_options_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="language"):
        pilum.tokenize("a", language="Klingon")
