"""The search of a scan, and the columns that it adds.

    full_text_query ──▶ `_score`           nearest ──▶ `_distance`, and `query_index` of a batch

`nearest` is a dict for vectors, and a `MinHashQuery` for near duplicates of a text.

The column by which rows are ordered comes after the requested columns, unless it is among them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pilum.dataset.projection import Columns, Projection, project
from pilum.dataset.search_filters import VectorSearchQuery
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.index.inverted.queries import FullTextQuery
from pilum.index.minhash.queries import MinHashQuery
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.searches import Search
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.table.indices.near_duplicates import NearDuplicateSearch
    from pilum.table.indices.nearest import VectorSearch
    from pilum.table.indices.text_search import TextSearch

__all__ = ["projected", "same_search", "search_of"]


def search_of(snapshot: Snapshot, given: Mapping[str, Any], use: IndexUse) -> Search:
    """Return the search that the keywords of a scan describe.

    Args:
        snapshot: The version.
        given: Keywords that are not None; `nearest` or `full_text_query` is among them, and
            "search_filter" if the filter contains a search.
        use: Which indices it may use.

    Raises:
        InvalidInputError: If the search is invalid.
    """
    name = "nearest" if "nearest" in given else "full_text_query"
    if "nearest" in given and "full_text_query" in given:
        raise InvalidInputError(
            "Cannot have both nearest and full text search: run both, and combine them with "
            "pilum.query.reciprocal_rank_fusion"
        )
    if given.get("include_deleted_rows"):
        raise InvalidInputError(f"Cannot include deleted rows in a search ({name})")
    if given.get("blob_handling") == "all_binary":
        raise UnsupportedFeatureError(
            f"{name} with blob_handling='all_binary': search first, then take the rows by _rowid"
        )
    is_prefilter = bool(given.get("prefilter", False))
    among = _among(snapshot, given["search_filter"], name) if "search_filter" in given else None
    query = given[name]
    found: TextSearch | NearDuplicateSearch | VectorSearch
    if name == "full_text_query" or isinstance(query, MinHashQuery):
        found = _text_search(snapshot, query, is_prefilter=is_prefilter, use=use)
    else:
        from pilum.dataset.nearest import vector_search  # a process may search texts only

        found = vector_search(snapshot, query, is_prefilter=is_prefilter)
    return found if among is None else replace(found, among=among)


def same_search(
    snapshot: Snapshot, given: Mapping[str, Any], search: Search, use: IndexUse
) -> Search:
    """Return a search for a text, where all other keywords are those of a known search.

    Args:
        snapshot: The version.
        given: Keywords; `full_text_query` or a `MinHashQuery` as `nearest` is among them.
        search: The search with another text.
        use: Which indices it may use.

    Raises:
        InvalidInputError: If the search is invalid.
    """
    query = given["full_text_query" if given.get("nearest") is None else "nearest"]
    return _text_search(snapshot, query, is_prefilter=search.is_prefilter, use=use)


def _text_search(
    snapshot: Snapshot, query: Any, *, is_prefilter: bool, use: IndexUse
) -> TextSearch | NearDuplicateSearch:
    if isinstance(query, MinHashQuery):
        from pilum.dataset.near_duplicates import near_duplicate_search  # few processes search

        return near_duplicate_search(snapshot, query, is_prefilter=is_prefilter)
    from pilum.dataset.full_text import text_search  # or vectors only

    return text_search(snapshot, query, is_prefilter=is_prefilter, use=use)


def _among(snapshot: Snapshot, filter: FullTextQuery | VectorSearchQuery, name: str) -> Search:
    """Return the search of a filter."""
    is_text = isinstance(filter, FullTextQuery)
    if is_text is (name == "full_text_query"):
        raise InvalidInputError(
            f"filter: a {type(filter).__name__} cannot filter a search by {name}; it filters the "
            "other kind of search"
        )
    if isinstance(filter, FullTextQuery):
        from pilum.dataset.full_text import text_search

        return text_search(snapshot, filter, is_prefilter=True)
    from pilum.dataset.nearest import vector_search

    found = vector_search(snapshot, filter.inner(), is_prefilter=True)
    if found.is_batch:
        raise InvalidInputError("filter: a VectorSearchQuery has one query, not a batch")
    return found


def projected(
    columns: Columns | None, schema: pa.Schema, search: Search, given: Mapping[str, Any]
) -> tuple[tuple[str, ...], Projection | None]:
    """Return what to read and to compute, with the columns that the search adds.

    Args:
        columns: The requested columns; None for all.
        schema: The schema of the table.
        search: The search.
        given: Keywords of the scan that are not None.
    """
    names, projection = project(columns, search.scope(schema))
    if names is None:
        return (*search.first, *search.names(schema.names)), None
    added = (*search.first, *(name for name in search.last if name not in names))
    is_asked = bool(given.get("disable_scoring_autoprojection", False))
    if not is_asked and not (projection is None and search.score in names):
        _warn(search.score)
        added = (*added, search.score)
    if projection is not None:
        first = search.first
        kept = tuple(name for name in added if name not in first)
        projection = replace(projection, first=first, kept=kept)
    first = search.first
    others = (name for name in (*names, *added) if name not in first)
    return tuple(dict.fromkeys((*first, *others))), projection


def _warn(score: str) -> None:
    warnings.warn(
        f"the columns of this search do not include {score}, which is added; a later release will "
        "leave it out; pass disable_scoring_autoprojection=True to leave it out now",
        FutureWarning,
        stacklevel=8,
    )
