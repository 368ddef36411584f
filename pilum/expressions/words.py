"""`contains_tokens(s, 'quick fox')`: whether a text contains all words of another one.

    contains_tokens(s, 'fox')          The fox ran.   true       foxes   false
    contains_tokens(s, 'ran, fox')     The fox ran.   true       the order does not matter
    contains_tokens(s, '')             any text       true       null    null

Words are cut at everything but letters and digits, and are equal if their characters are.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.expressions import lists
from pilum.expressions.types import FALSE, scalar_of, texts_of
from pilum.kernels import TextAnalyzer

__all__ = ["contains", "words_of"]

Datum = Any
"""The input and output of Arrow kernels: pa.Array or pa.Scalar."""


def words_of(text: str) -> list[str]:
    """Return the distinct words of a text, in order."""
    return list(dict.fromkeys(word for word, _ in _analyzer().words(text)))


def contains(texts: Datum, words: list[str]) -> Datum:
    """Return whether each text contains all words; null where it is null."""
    if isinstance(texts, pa.Scalar):
        return contains(pa.repeat(texts, 1), words)[0]
    may_match = pc.fill_null(texts.is_valid(), FALSE)
    for word in words:
        may_match = pc.and_(may_match, pc.fill_null(pc.match_substring(texts, word), FALSE))
    if words:
        places = pc.indices_nonzero(may_match)
        found = _have_words(texts.take(places).cast(pa.large_string()), words)
        may_match = pc.replace_with_mask(may_match, may_match, found)
    return pc.if_else(texts.is_valid(), may_match, scalar_of(None, pa.bool_()))


def _have_words(texts: pa.Array, words: list[str]) -> pa.Array:
    """Cut texts that are not null; return whether each of them contains all words."""
    if not len(texts):
        return pa.nulls(0, pa.bool_())
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset :][: len(texts) + 1]
    content = np.frombuffer(b"" if data is None else data, np.uint8)
    ends, characters, positions, counts = _analyzer().tokens((bounds, content, None), None)
    buffers = (pa.py_buffer(ends), pa.py_buffer(characters))
    found = pa.LargeStringArray.from_buffers(len(positions), *buffers)
    starts = np.concatenate([np.zeros(1, np.int64), counts])
    of_texts = pa.LargeListArray.from_arrays(pa.array(starts), found)
    return lists.has_all(of_texts, lists.list_scalar(texts_of(words).cast(pa.large_string())))


@cache
def _analyzer() -> TextAnalyzer:
    return TextAnalyzer(
        "simple",
        "text",
        max_bytes=None,
        lower_case=False,
        stemmer_of=None,
        stop_words=[],
        ascii_folding=False,
        ngrams=(3, 3),
        prefix_only=False,
        operators=False,
        parts=None,
    )
