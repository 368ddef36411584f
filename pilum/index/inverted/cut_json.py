"""JSON documents whose texts a dictionary cuts.

    {"a": "東京都", "b": 1}  ──▶  values      a,str, 東京都 | b,number, 1
                             ──▶  words       a,str, 東京   | a,str, 都   | b,number, 1
                             ──▶  tokens      words of texts after the filters, with prefixes

Positions count the tokens of a document.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pilum.blocks import StringBlock, block_of
from pilum.index.inverted.dictionaries import Segmenter, pieces
from pilum.kernels import TextAnalyzer

__all__ = ["JsonValues", "json_tokens", "with_prefixes"]

JsonValues: TypeAlias = tuple[
    pa.LargeStringArray, pa.LargeStringArray, NDArray[np.bool_], NDArray[np.int64]
]
"""The prefix `path,type,` of each value of documents, the values as text, which of them are not
texts, and the number of values at the end of each document."""


def json_tokens(
    values: JsonValues, segmenter: Segmenter, filters: TextAnalyzer
) -> tuple[pa.LargeStringArray, pa.LargeStringArray, NDArray[np.uint32], NDArray[np.int64]]:
    """Cut the texts of JSON documents.

    Args:
        values: The values of the documents.
        segmenter: Cuts a text.
        filters: The analysis of a word.

    Returns:
        The prefixes of the tokens, these without them, their positions, and the number of tokens
        at the end of each document.
    """
    prefixes, texts, is_verbatim, ends = values
    is_text = ~is_verbatim
    cut = pieces(segmenter, texts.filter(pa.array(is_text)))
    words, word_ends = _filtered(filters, cut.words)
    counts = np.ones(len(texts), np.int64)
    counts[is_text] = np.diff(_from_zero(word_ends)[cut.ends], prepend=0)
    value_of = np.repeat(np.arange(len(texts)), counts)
    comes_from_text = is_text[value_of]
    places = len(words) + value_of
    places[comes_from_text] = np.arange(len(words))
    tokens = pa.concat_arrays([words, texts]).take(pa.array(places))
    token_ends = _from_zero(np.cumsum(counts))[ends]
    lengths = np.diff(token_ends, prepend=0)
    positions = np.arange(len(tokens)) - np.repeat(token_ends - lengths, lengths)
    return prefixes.take(pa.array(value_of)), tokens, positions.astype(np.uint32), token_ends


def with_prefixes(
    prefixes: pa.LargeStringArray, tokens: pa.LargeStringArray
) -> pa.LargeStringArray:
    """Return each token after its prefix."""
    return pc.binary_join_element_wise(prefixes, tokens, pa.scalar("", pa.large_string()))


def _filtered(
    filters: TextAnalyzer, words: pa.LargeStringArray
) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """Return the words that filters keep, and how many there are after each."""
    block = block_of(words)
    assert isinstance(block, StringBlock)
    offsets, data, _, kept = filters.tokens((block.offsets, block.data, None), None)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers), kept


def _from_zero(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), ends])
