"""The trained codebook of an index of vectors."""

from pilum.dataset.vector_models import PqModel

__all__ = ["PqModel"]
