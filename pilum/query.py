"""Queries of full text, searches of vectors as filters of them, and the fusion of results."""

from pilum.dataset.search_filters import VectorSearchQuery
from pilum.index.fusion import reciprocal_rank_fusion
from pilum.index.inverted.queries import (
    BooleanQuery,
    BoostQuery,
    CombinedFieldsQuery,
    DocumentGranularity,
    FullTextOperator,
    FullTextQuery,
    FullTextQueryType,
    MatchQuery,
    MultiMatchQuery,
    Occur,
    PhraseQuery,
)

__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "CombinedFieldsQuery",
    "DocumentGranularity",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
    "VectorSearchQuery",
    "reciprocal_rank_fusion",
]
