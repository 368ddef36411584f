"""Filters of searches that contain a search of the other kind.

nearest={…}          filter=MatchQuery("puppy", "title")          rows with these words
full_text_query=…    filter=VectorSearchQuery("v", [0.1, 0.2])    rows near to this vector
either               filter={"expr_filter": "a > 1", "search_filter": …}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow.compute as pc

from pilum.errors import FilterError
from pilum.index.inverted.queries import FullTextQuery

__all__ = ["ScanFilter", "VectorSearchQuery", "split_filter"]

_EXPRESSION, _SEARCH = "expr_filter", "search_filter"


class VectorSearchQuery:
    """A search of the nearest vectors, as the filter of a full-text search.

    The rows that match are the `k` nearest ones. With `prefilter=True` they are found first, and
    searched for the text. Otherwise they are the nearest of the rows that the text found.

    Args:
        column: Name of the column of vectors, or dotted path of a member of a struct.
        q: The query.
        k: Maximum number of rows; 10 if None.
        metric: As the key of this name of the argument `nearest` of `LanceDataset.scanner`; the
            same holds for the next arguments.
        nprobes: See above.
        minimum_nprobes: See above.
        maximum_nprobes: See above.
        refine_factor: See above.
        use_index: See above.
        ef: See above.
        query_parallelism: See above.
        approx_mode: See above.
        search_effort: See above.
    """

    def __init__(
        self,
        column: str,
        q: Any,
        k: int | None = None,
        metric: str | None = None,
        nprobes: int | None = None,
        minimum_nprobes: int | None = None,
        maximum_nprobes: int | None = None,
        refine_factor: int | None = None,
        use_index: bool = True,
        ef: int | None = None,
        query_parallelism: int | None = None,
        approx_mode: str = "normal",
        search_effort: float | None = None,
    ) -> None:
        self._nearest = {
            "column": column,
            "q": q,
            "k": k,
            "metric": metric,
            "nprobes": nprobes,
            "minimum_nprobes": minimum_nprobes,
            "maximum_nprobes": maximum_nprobes,
            "refine_factor": refine_factor,
            "use_index": use_index,
            "ef": ef,
            "query_parallelism": query_parallelism,
            "approx_mode": approx_mode,
            "search_effort": search_effort,
        }

    def inner(self) -> dict[str, Any]:
        """Return the search as the argument `nearest` of scans takes it."""
        return dict(self._nearest)


ScanFilter: TypeAlias = (
    "str | pc.Expression | FullTextQuery | VectorSearchQuery | Mapping[str, Any]"
)
"""The filter of a scan; one that contains a search is for searches of the other kind."""


def split_filter(
    given: Any,
) -> tuple[str | pc.Expression | None, FullTextQuery | VectorSearchQuery | None]:
    """Return the expression and the search of a filter.

    Raises:
        FilterError: If it is neither of them, nor a dict of both.
    """
    if isinstance(given, FullTextQuery | VectorSearchQuery):
        return None, given
    if not isinstance(given, Mapping) or given.keys() - {_EXPRESSION, _SEARCH}:
        raise FilterError(
            f"a filter is SQL, a pyarrow expression, a search, or a dict with {_EXPRESSION!r} and "
            f"{_SEARCH!r}, not {given!r:.80}"
        )
    search = given.get(_SEARCH)
    if search is not None and not isinstance(search, FullTextQuery | VectorSearchQuery):
        raise FilterError(
            f"{_SEARCH}: expected a full-text query or a VectorSearchQuery, found {search!r:.80}"
        )
    return given.get(_EXPRESSION), search
