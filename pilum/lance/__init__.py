"""Names that other packages import from `lance.lance`, the extension module of the reference.

They are the classes of this package; there is no extension module of that form.
"""

from pilum.arrow import BFloat16, bfloat16_array
from pilum.bitmap import Bitmap
from pilum.blob import (
    BlobDescriptor,
    BlobDescriptorArrayBuilder,
    DedicatedBlobWriter,
    PackedBlobWriter,
)
from pilum.dataset.cleanup import (
    CleanupCandidateFile,
    CleanupExplanation,
    CleanupReferencedBranch,
    CleanupStats,
)
from pilum.dataset.metadata import DeletionFile, RowDatasetVersionMeta, RowIdMeta, RowIdSequence
from pilum.dataset.scan import ScanStatistics
from pilum.dataset.settings import DatasetBasePath
from pilum.debug import format_fragment, format_manifest, format_schema, list_transactions
from pilum.file import (
    LanceBufferDescriptor,
    LanceColumnMetadata,
    LanceFileMetadata,
    LanceFileReader,
    LanceFileSession,
    LanceFileStatistics,
    LanceFileWriter,
    LancePageMetadata,
    stable_version,
)
from pilum.io import IOStats, bytes_read_counter, iops_counter
from pilum.lance import indices
from pilum.optimize import (
    Compaction,
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from pilum.schema import LanceSchema
from pilum.text import FtsToken, tokenize
from pilum.tracing import TraceEvent
from pilum.version import __version__

__all__ = [
    "BFloat16",
    "Bitmap",
    "BlobDescriptor",
    "BlobDescriptorArrayBuilder",
    "CleanupCandidateFile",
    "CleanupExplanation",
    "CleanupReferencedBranch",
    "CleanupStats",
    "Compaction",
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "DatasetBasePath",
    "DedicatedBlobWriter",
    "DeletionFile",
    "FtsToken",
    "IOStats",
    "LanceBufferDescriptor",
    "LanceColumnMetadata",
    "LanceFileMetadata",
    "LanceFileReader",
    "LanceFileSession",
    "LanceFileStatistics",
    "LanceFileWriter",
    "LancePageMetadata",
    "LanceSchema",
    "PackedBlobWriter",
    "RewriteResult",
    "RowDatasetVersionMeta",
    "RowIdMeta",
    "RowIdSequence",
    "ScanStatistics",
    "TraceEvent",
    "__version__",
    "bfloat16_array",
    "bytes_read_counter",
    "format_fragment",
    "format_manifest",
    "format_schema",
    "indices",
    "iops_counter",
    "list_transactions",
    "stable_version",
    "tokenize",
]
