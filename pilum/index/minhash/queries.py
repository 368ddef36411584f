"""The query of a search of near duplicates."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MinHashQuery"]


@dataclass
class MinHashQuery:
    """A search of the rows whose texts are nearly the same as a text.

    It is the argument `nearest` of `LanceDataset.scanner` and `to_table`. The column must have an
    index of the type MINHASHLSH. The `limit` nearest rows are returned, 10 without a limit, with a
    column `_distance`: 1 minus the estimated share of the shingles of both texts that are in both
    of them. Rows at equal distances are in the order of their ids.

    Attributes:
        text: The text.
        column: Name of the column, or dotted path of a member of a struct.
    """

    text: str
    column: str
