"""The argument `full_text_query` of a scan.

"quick fox"                                        all columns with a full-text index
{"query": "quick fox", "columns": ["title"]}       these columns
MatchQuery("quick fox", "title")                   see `pilum.query`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pilum.errors import InvalidInputError
from pilum.index.inverted.queries import FullTextQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from pilum.table.indices.index_use import ANY_INDEX, IndexUse
from pilum.table.indices.text_search import TextSearch, finds_elements
from pilum.table.read.snapshot import Snapshot

__all__ = ["text_search"]


def text_search(
    snapshot: Snapshot, query: Any, *, is_prefilter: bool, use: IndexUse = ANY_INDEX
) -> TextSearch:
    """Return the search for the argument `full_text_query` of a scan.

    Args:
        snapshot: The version.
        query: The argument.
        is_prefilter: Whether only rows that match the filter are searched.
        use: Which indices it may use.

    Raises:
        InvalidInputError: If it is neither text, nor a query, nor a dict of both names.
    """
    columns: Any = None
    if isinstance(query, tuple) and len(query) == 2:
        query, columns = query
    if isinstance(query, Mapping):
        unknown = set(query) - {"query", "columns"}
        if unknown or "query" not in query:
            raise InvalidInputError(
                f'full_text_query: expected {{"query": …, "columns": […]}}, found {query!r:.80}'
            )
        query, columns = query["query"], query.get("columns")
    if isinstance(query, FullTextQuery):
        if columns:
            raise InvalidInputError("full_text_query: this query names its columns itself")
        has_elements = finds_elements(snapshot, query, use)
        return TextSearch(query, is_prefilter, has_elements=has_elements)
    if not isinstance(query, str):
        raise InvalidInputError(f"full_text_query: expected text or a query, found {query!r:.80}")
    if not columns:
        return TextSearch(query, is_prefilter)
    made = _of_columns(query, columns)
    return text_search(snapshot, made, is_prefilter=is_prefilter, use=use)


def _of_columns(text: str, columns: Any) -> FullTextQuery:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidInputError(f"full_text_query: expected a list of columns, found {columns!r}")
    names = tuple(columns)
    stripped = text.strip()
    if len(names) == 1 and len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        return PhraseQuery(stripped[1:-1], names[0])
    return MatchQuery(text, names[0]) if len(names) == 1 else MultiMatchQuery(text, names)
