"""The tokens of a text, as a full-text index has them, without an index."""

from __future__ import annotations

from dataclasses import dataclass
from types import EllipsisType
from typing import Any

from pilum.arguments import require_text
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.tokens import Analyzer

__all__ = ["FtsToken", "tokenize"]


@dataclass(frozen=True, slots=True)
class FtsToken:
    """A token of a query.

    Attributes:
        text: The token after all filters.
        position: Its distance to the first token that was kept, in tokens.
    """

    text: str
    position: int


def tokenize(
    query: str,
    *,
    analyzer: str | None = None,
    base_tokenizer: str | None = None,
    language: str | None = None,
    max_token_length: int | EllipsisType | None = ...,
    lower_case: bool | None = None,
    stem: bool | None = None,
    remove_stop_words: bool | None = None,
    custom_stop_words: list[str] | None = None,
    ascii_folding: bool | None = None,
    min_ngram_length: int | None = None,
    max_ngram_length: int | None = None,
    prefix_only: bool | None = None,
    split_identifiers: bool | None = None,
    split_on_numerics: bool | None = None,
    preserve_original: bool | None = None,
    index_operators: bool | None = None,
) -> list[FtsToken]:
    """Return the tokens that a search for a text looks up in an index.

    The keywords are those of `LanceDataset.create_scalar_index` for an index `INVERTED`; None means
    the default.

    Args:
        query: The text.
        analyzer: Preset of the other arguments: "text" or "code".
        base_tokenizer: How the text is cut.
        language: Language of stems and stop words.
        max_token_length: Tokens of this many bytes or more are dropped; None for no limit.
        lower_case: Whether tokens are converted to lower case.
        stem: Whether tokens are reduced to their stems.
        remove_stop_words: Whether stop words are dropped.
        custom_stop_words: Stop words instead of those of the language.
        ascii_folding: Whether characters are replaced by similar ones of ASCII.
        min_ngram_length: Fewest characters of an n-gram.
        max_ngram_length: Most characters of an n-gram.
        prefix_only: Whether n-grams begin only at the start of a text.
        split_identifiers: Whether `code` cuts identifiers into parts.
        split_on_numerics: Whether parts end where digits begin or end.
        preserve_original: Whether a cut identifier is a token, too.
        index_operators: Whether operators are tokens of `code`.

    Raises:
        InvalidInputError: If an argument is invalid.
        MissingDependencyError: If the base tokenizer needs a package that is not installed.
    """
    given: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if name not in {"query", "max_token_length"} and value is not None
    }
    if max_token_length is not ...:
        given["max_token_length"] = max_token_length
    words = Analyzer(InvertedParameters.from_keywords(given)).words(require_text("query", query))
    first = words[0][1] if words else 0
    return [FtsToken(text, position - first) for text, position in words]
