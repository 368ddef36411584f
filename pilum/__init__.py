"""The Lance columnar file and table format in Python."""

from pilum.blob import (
    Blob,
    BlobArray,
    BlobColumn,
    BlobDescriptor,
    BlobDescriptorArrayBuilder,
    BlobFile,
    DedicatedBlobWriter,
    PackedBlobWriter,
    blob_array,
    blob_field,
)
from pilum.dataset.cleanup import (
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupReferencedBranch,
    CleanupStats,
)
from pilum.dataset.explain import DataStatistics, Explanation, FieldStatistics, explain
from pilum.dataset.forms import Transaction
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.index_forms import IndexProgress
from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.metadata import FragmentMetadata, Index, IndexFile
from pilum.dataset.operations import LanceOperation
from pilum.dataset.rows import MergeInsertBuilder
from pilum.dataset.scan import ScanStatistics
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.settings import DatasetBasePath
from pilum.dataset.udf import batch_udf
from pilum.encodings.options import EncodingOptions
from pilum.table.read.session import Session

__all__ = [
    "Blob",
    "BlobArray",
    "BlobColumn",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "BlobFile",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "DataStatistics",
    "DatasetBasePath",
    "DedicatedBlobWriter",
    "EncodingOptions",
    "Explanation",
    "FieldStatistics",
    "FragmentMetadata",
    "Index",
    "IndexFile",
    "IndexProgress",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "MergeInsertBuilder",
    "PackedBlobWriter",
    "ScanStatistics",
    "Session",
    "Transaction",
    "batch_udf",
    "blob_array",
    "blob_field",
    "dataset",
    "explain",
    "write_dataset",
]
