"""Fragments: reading one fragment, and writing new fragments without committing them."""

from pilum.bitmap import Bitmap
from pilum.dataset.fragment import FragmentSession, LanceFragment, write_fragments
from pilum.dataset.metadata import (
    DataFile,
    DeletionFile,
    FragmentMetadata,
    RowDatasetVersionMeta,
    RowIdMeta,
    RowIdSequence,
)
from pilum.dataset.udf import BatchUDF
from pilum.dataset.write import WRITE_DEFAULTS
from pilum.progress import FragmentWriteProgress, NoopFragmentWriteProgress
from pilum.table.read.session import Session

__all__ = [
    "DEFAULT_MAX_BYTES_PER_FILE",
    "BatchUDF",
    "Bitmap",
    "DataFile",
    "DeletionFile",
    "FragmentMetadata",
    "FragmentSession",
    "FragmentWriteProgress",
    "LanceFragment",
    "NoopFragmentWriteProgress",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "Session",
    "write_fragments",
]

DEFAULT_MAX_BYTES_PER_FILE: int = WRITE_DEFAULTS["max_bytes_per_file"]
"""A file that has reached this size receives no further batches."""
