"""Builds of indices in steps, and the columns of the files between the steps."""

from pilum.dataset.index_forms import IndexConfig
from pilum.dataset.indices_builder import IndicesBuilder
from pilum.dataset.staged_vectors import PARTITION_COLUMN
from pilum.dataset.vector_models import IvfModel, PqModel
from pilum.index.vector.product import COLUMN as PQ_COLUMN

__all__ = ["PARTITION_COLUMN", "PQ_COLUMN", "IndexConfig", "IndicesBuilder", "IvfModel", "PqModel"]
