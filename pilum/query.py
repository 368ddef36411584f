"""Queries of full text and near duplicates, searches of vectors as filters, fusion of results."""

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
from pilum.index.minhash.queries import MinHashQuery

__all__ = [
    "BooleanQuery",
    "BoostQuery",
    "CombinedFieldsQuery",
    "DocumentGranularity",
    "FullTextOperator",
    "FullTextQuery",
    "FullTextQueryType",
    "MatchQuery",
    "MinHashQuery",
    "MultiMatchQuery",
    "Occur",
    "PhraseQuery",
    "VectorSearchQuery",
    "reciprocal_rank_fusion",
]
