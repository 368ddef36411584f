"""Full-text search by definition, over lists of tokens: slow and plain.

Everything is computed document by document, from the formulas of docs/format/indices.md, in 32-bit
floats. Logarithms are those of the C library, so that scores can be compared bit by bit.
"""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

F = np.float32

_LIBM = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_LIBM.logf.restype = ctypes.c_float
_LIBM.logf.argtypes = [ctypes.c_float]


def total(scores: Sequence[np.float32]) -> np.float32:
    """Add scores from left to right."""
    found = F(0)
    for score in scores:
        found = F(found + score)
    return found


@dataclass
class Naive:
    """Documents as lists of words; positions are the places in the lists."""

    documents: Sequence[Sequence[str]]

    def __post_init__(self) -> None:
        lengths = [len(one) for one in self.documents if one]
        self.average = F(sum(lengths)) / F(max(1, len(lengths)))
        self.idf = cache(self._idf)

    def _idf(self, word: str) -> np.float32:
        """Return the weight of a word."""
        documents = [one for one in self.documents if one]
        n, df = F(len(documents)), F(sum(word in one for one in documents))
        return F(_LIBM.logf(F((n - df + F(0.5)) / (df + F(0.5)) + F(1))))

    def score(self, word: str, document: int) -> np.float32:
        """Return the score of a word in a document that contains it."""
        words = self.documents[document]
        k1, b, f = F(1.2), F(0.75), F(words.count(word))
        norm = k1 * (F(1) - b + b * F(len(words)) / self.average)
        return F(self.idf(word) * ((k1 + F(1)) * f / (f + norm)))

    def match(self, words: Sequence[str], *, needs_all: bool = False) -> dict[int, np.float32]:
        """Return the scores of documents with any of the words, or with all."""
        found = {}
        for number, document in enumerate(self.documents):
            present = [word for word in words if word in document]
            if present and (len(present) == len(words) or not needs_all):
                found[number] = total([self.score(word, number) for word in present])
        return found

    def phrase(self, words: Sequence[str], slop: int) -> dict[int, np.float32]:
        """Return the scores of documents with words one after another."""
        return {
            number: total([self.score(word, number) for word in words])
            for number, document in enumerate(self.documents)
            if _contains(document, words, slop)
        }


def best(scores: dict[int, np.float32], k: int | None) -> list[tuple[int, float]]:
    """Return the best documents, and of equal ones the first."""
    return sorted(((n, float(s)) for n, s in scores.items()), key=lambda one: (-one[1], one[0]))[:k]


def _contains(document: Sequence[str], words: Sequence[str], slop: int) -> bool:
    ends = [place for place, word in enumerate(document) if words and word == words[0]]
    for word in words[1:]:
        places = [place for place, one in enumerate(document) if one == word]
        ends = [place for place in places if any(0 < place - end <= slop + 1 for end in ends)]
    return bool(ends)
