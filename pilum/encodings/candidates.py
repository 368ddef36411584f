"""What a writer compares: ways to store the values of a page, with their sizes.

Whoever knows the values makes a `Choice`; it names what else was looked at, so that `pilum.explain`
can tell why.
"""

from __future__ import annotations

from typing import NamedTuple

from pilum.blocks import ValueBlock
from pilum.encodings.base import Compressive
from pilum.encodings.page import Candidate
from pilum.encodings.structural.mini_block import PageDictionary

__all__ = ["Choice", "smallest"]


class Choice(NamedTuple):
    """How the values of a page are to be stored.

    Attributes:
        block: Values as they are to be stored: strings already compressed, or indices.
        encoding: Their description.
        candidates: All that was compared.
        size_bytes: What the values take, about.
        dictionary: What the values are indices into.
    """

    block: ValueBlock
    encoding: Compressive
    candidates: tuple[Candidate, ...]
    size_bytes: int
    dictionary: PageDictionary | None = None


def smallest(block: ValueBlock, costs: list[tuple[Compressive, int]]) -> Choice:
    """The encoding that takes the fewest bytes; the first of equals."""
    encoding, size_bytes = min(costs, key=lambda cost: cost[1])
    candidates = tuple([Candidate(other, cost) for other, cost in costs])
    return Choice(block, encoding, candidates, size_bytes)
