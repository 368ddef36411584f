"""Fragments: reading one of them, and writing new ones without committing them."""

from pilum.dataset.fragment import LanceFragment, write_fragments
from pilum.dataset.metadata import DataFile, DeletionFile, FragmentMetadata

__all__ = ["DataFile", "DeletionFile", "FragmentMetadata", "LanceFragment", "write_fragments"]
