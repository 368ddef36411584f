"""The argument `nearest` of a scan: a `MinHashQuery`, for rows with nearly the same text.

MinHashQuery("some text", "title")      see `pilum.query`
"""

from __future__ import annotations

from pilum.errors import InvalidInputError
from pilum.index.minhash.queries import MinHashQuery
from pilum.table.indices.near_duplicates import NearDuplicateSearch
from pilum.table.read.snapshot import Snapshot

__all__ = ["near_duplicate_search"]


def near_duplicate_search(
    snapshot: Snapshot, query: MinHashQuery, *, is_prefilter: bool
) -> NearDuplicateSearch:
    """Return the search for the argument `nearest` of a scan.

    Raises:
        InvalidInputError: If the text or the name of the column is no text.
    """
    for name, value in (("text", query.text), ("column", query.column)):
        if not isinstance(value, str):
            raise InvalidInputError(f"MinHashQuery: {name}: expected text, found {value!r:.80}")
    return NearDuplicateSearch(query, is_prefilter)
