"""Datasets: `LanceDataset`, split by topic, and the functions that open and write datasets."""

from pilum.bitmap import Bitmap
from pilum.blob import DEFAULT_BLOB_BUFFER_SIZE, BlobFile
from pilum.dataset.base import LANCE_COMMIT_MESSAGE_KEY
from pilum.dataset.cleanup import CleanupExplanation, CleanupStats
from pilum.dataset.columns import AlterColumn
from pilum.dataset.compaction import Compaction, CompactionMetrics
from pilum.dataset.delta import DatasetDelta
from pilum.dataset.explain import DatasetStats, DataStatistics, FieldStatistics, LanceStats
from pilum.dataset.forms import Transaction
from pilum.dataset.fragment import LanceFragment
from pilum.dataset.index_forms import (
    IndexConfig,
    IndexInformation,
    IndexSegment,
    SupportedDistributedIndices,
)
from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.metadata import DataFile, FragmentMetadata, Index, IndexFile
from pilum.dataset.operations import LanceOperation
from pilum.dataset.refs import Branch, Branches, Tag, Tags
from pilum.dataset.rows import DeleteResult, MergeInsertBuilder, MergeResult, UpdateResult
from pilum.dataset.rows import MergeResult as ExecuteResult
from pilum.dataset.scan import ColumnOrdering, ScanStatistics
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.scanner_builder import ScannerBuilder
from pilum.dataset.search_filters import VectorSearchQuery
from pilum.dataset.settings import DatasetBasePath
from pilum.dataset.sql import SqlQuery, SqlQueryBuilder
from pilum.dataset.udf import BatchUDF, batch_udf
from pilum.dataset.udf import Checkpoint as BatchUDFCheckpoint
from pilum.dataset.upkeep import AutoCleanupConfig, DatasetOptimizer
from pilum.dataset.vector_reader import VectorIndexReader
from pilum.dataset.versions import Version, VersionRef, td_to_micros
from pilum.dataset.writing import BulkCommitResult
from pilum.index.inverted.queries import DocumentGranularity, FullTextQuery
from pilum.index.minhash.queries import MinHashQuery
from pilum.schema import LanceSchema
from pilum.storage.base import IOStats
from pilum.table.read.session import Session

__all__ = [
    "DEFAULT_BLOB_BUFFER_SIZE",
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "BatchUDF",
    "BatchUDFCheckpoint",
    "Bitmap",
    "BlobFile",
    "Branch",
    "Branches",
    "BulkCommitResult",
    "CleanupExplanation",
    "CleanupStats",
    "ColumnOrdering",
    "Compaction",
    "CompactionMetrics",
    "DataFile",
    "DataStatistics",
    "DatasetBasePath",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "DeleteResult",
    "DocumentGranularity",
    "ExecuteResult",
    "FieldStatistics",
    "FragmentMetadata",
    "FullTextQuery",
    "IOStats",
    "Index",
    "IndexConfig",
    "IndexFile",
    "IndexInformation",
    "IndexSegment",
    "LanceDataset",
    "LanceFragment",
    "LanceOperation",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "MergeInsertBuilder",
    "MergeResult",
    "MinHashQuery",
    "ScanStatistics",
    "ScannerBuilder",
    "Session",
    "SqlQuery",
    "SqlQueryBuilder",
    "SupportedDistributedIndices",
    "Tag",
    "Tags",
    "Transaction",
    "UpdateResult",
    "VectorIndexReader",
    "VectorSearchQuery",
    "Version",
    "VersionRef",
    "batch_udf",
    "dataset",
    "td_to_micros",
    "write_dataset",
]
