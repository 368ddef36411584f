"""The trained partitions of an index of vectors."""

from pilum.dataset.vector_models import IvfModel

__all__ = ["IvfModel"]
