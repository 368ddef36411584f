"""Types of indices with parameters, trained models, and what a table records about its indices."""

from pilum.dataset.index_forms import (
    IndexConfig,
    IndexDescription,
    IndexFileVersion,
    IndexSegment,
    IndexSegmentDescription,
    SupportedDistributedIndices,
)
from pilum.dataset.indices_builder import IndicesBuilder
from pilum.dataset.vector_models import IvfModel, PqModel
from pilum.progress import IndexProgress

__all__ = [
    "IndexConfig",
    "IndexDescription",
    "IndexFileVersion",
    "IndexProgress",
    "IndexSegment",
    "IndexSegmentDescription",
    "IndicesBuilder",
    "IvfModel",
    "PqModel",
    "SupportedDistributedIndices",
]
