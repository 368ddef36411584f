"""Restrictions on the use of indices by a scan or a search, from the keywords of a scan."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANY_INDEX", "ANY_INDEX_TO_COUNT", "IndexUse"]


@dataclass(frozen=True)
class IndexUse:
    """Restrictions on the use of indices by a scan.

    Attributes:
        is_allowed: Whether it may use any.
        only_covered: Whether rows of fragments that the used indices do not cover are left out.
        segments: Uuids of the segments that may be used; None for all.
        only_counts: Whether the rows are counted and not read.
    """

    is_allowed: bool = True
    only_covered: bool = False
    segments: frozenset[str] | None = None
    only_counts: bool = False


ANY_INDEX, ANY_INDEX_TO_COUNT = IndexUse(), IndexUse(only_counts=True)
