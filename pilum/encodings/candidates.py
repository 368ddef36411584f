"""Candidates that a writer compares: encodings of the values of a page, with their sizes.

The code that examines the values makes a `Choice`. It lists the other candidates, so that
`pilum.explain` can report the reason.
"""

from __future__ import annotations

from typing import NamedTuple

from pilum.blocks import ValueBlock
from pilum.encodings.base import Compressive
from pilum.encodings.dictionary_block import PageDictionary
from pilum.encodings.page import Candidate

__all__ = ["Choice", "smallest"]


class Choice(NamedTuple):
    """The chosen encoding of the values of a page.

    Attributes:
        block: Values in stored form: strings already compressed, or indices.
        encoding: Their description.
        candidates: All candidates that were compared.
        size_bytes: The approximate size of the values.
        dictionary: The dictionary, if the values are indices.
    """

    block: ValueBlock
    encoding: Compressive
    candidates: tuple[Candidate, ...]
    size_bytes: int
    dictionary: PageDictionary | None = None


def smallest(block: ValueBlock, costs: list[tuple[Compressive, int]]) -> Choice:
    """Return the encoding that takes the fewest bytes; the first one of equal candidates."""
    encoding, size_bytes = min(costs, key=lambda cost: cost[1])
    candidates = tuple([Candidate(other, cost) for other, cost in costs])
    return Choice(block, encoding, candidates, size_bytes)
