"""Datasets: `LanceDataset`, split by topic, and the functions that open and write datasets."""

from pilum.dataset.columns import AlterColumn
from pilum.dataset.delta import DatasetDelta
from pilum.dataset.explain import DataStatistics, FieldStatistics, LanceStats
from pilum.dataset.forms import Transaction
from pilum.dataset.index_forms import IndexInformation
from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.metadata import DataFile
from pilum.dataset.operations import LanceOperation
from pilum.dataset.refs import Branch, Branches, Tag, Tags
from pilum.dataset.rows import DeleteResult, MergeResult, UpdateResult
from pilum.dataset.scan import ColumnOrdering, ScanStatistics
from pilum.dataset.scanner import LanceScanner, ScannerBuilder
from pilum.dataset.search_filters import VectorSearchQuery
from pilum.dataset.upkeep import AutoCleanupConfig, DatasetOptimizer
from pilum.dataset.vector_reader import VectorIndexReader
from pilum.dataset.versions import Version, VersionRef
from pilum.dataset.writing import BulkCommitResult

__all__ = [
    "AlterColumn",
    "AutoCleanupConfig",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "ColumnOrdering",
    "DataFile",
    "DataStatistics",
    "DatasetDelta",
    "DatasetOptimizer",
    "DeleteResult",
    "FieldStatistics",
    "IndexInformation",
    "LanceDataset",
    "LanceOperation",
    "LanceScanner",
    "LanceStats",
    "MergeResult",
    "ScanStatistics",
    "ScannerBuilder",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "VectorIndexReader",
    "VectorSearchQuery",
    "Version",
    "VersionRef",
    "dataset",
    "write_dataset",
]
