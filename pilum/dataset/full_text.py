"""Full-text searches: the query of a scan, and the columns that it adds.

"quick fox"                                        all columns with a full-text index
{"query": "quick fox", "columns": ["title"]}       these columns
MatchQuery("quick fox", "title")                   see `pilum.query`

The result has the column `_score` after the requested columns, unless it is among them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pilum.dataset.projection import Projection
from pilum.errors import InvalidInputError
from pilum.index.inverted.queries import FullTextQuery, MatchQuery, MultiMatchQuery, PhraseQuery
from pilum.table.indices.text_search import ELEMENT, SCORE, TextSearch

__all__ = ["scored_columns", "scored_scope", "text_search"]


def text_search(query: Any, *, is_prefilter: bool) -> TextSearch:
    """Return the search for the argument `full_text_query` of a scan.

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
        return TextSearch(query, is_prefilter)
    if not isinstance(query, str):
        raise InvalidInputError(f"full_text_query: expected text or a query, found {query!r:.80}")
    return TextSearch(_of_columns(query, columns) if columns else query, is_prefilter)


def _of_columns(text: str, columns: Any) -> FullTextQuery:
    if isinstance(columns, str) or not isinstance(columns, Sequence):
        raise InvalidInputError(f"full_text_query: expected a list of columns, found {columns!r}")
    names = tuple(columns)
    stripped = text.strip()
    if len(names) == 1 and len(stripped) > 1 and stripped[0] == stripped[-1] == '"':
        return PhraseQuery(stripped[1:-1], names[0])
    return MatchQuery(text, names[0]) if len(names) == 1 else MultiMatchQuery(text, names)


def scored_scope(schema: pa.Schema) -> pa.Schema:
    """Return the columns that a projection can name: those of the table, and those of a search."""
    fields = [pa.field(SCORE, pa.float32()), pa.field(ELEMENT, pa.list_(pa.uint32()))]
    return pa.schema([*schema, *fields], schema.metadata)


def scored_columns(
    names: tuple[str, ...] | None, projection: Projection | None, *, is_asked: bool
) -> tuple[tuple[str, ...] | None, Projection | None]:
    """Return what to read and to compute, with the score if it is missing.

    Args:
        names: Columns to read; None for all, with the score.
        projection: Columns to compute.
        is_asked: Whether the score is left out unless it was requested.
    """
    if names is None or (projection is None and SCORE in names) or is_asked:
        return names, projection
    warnings.warn(
        "the columns of this search do not include _score, which is added; a later release will "
        "leave it out; pass disable_scoring_autoprojection=True to leave it out now",
        FutureWarning,
        stacklevel=5,
    )
    if projection is not None:
        projection = replace(projection, kept=(SCORE, *projection.kept))
    return tuple(dict.fromkeys((*names, SCORE))), projection
