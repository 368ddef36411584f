"""The Lance columnar file and table format in Python.

Submodules are attributes that are imported when they are first used.
"""

from __future__ import annotations

import importlib
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pilum.alias import install_as_lance, install_if_asked
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
from pilum.dataset.lance_dataset import LanceDataset, dataset, write_dataset
from pilum.dataset.metadata import FragmentMetadata, Index, IndexFile
from pilum.dataset.operations import LanceOperation
from pilum.dataset.rows import MergeInsertBuilder
from pilum.dataset.scan import ScanStatistics
from pilum.dataset.scanner import LanceScanner
from pilum.dataset.settings import DatasetBasePath
from pilum.dataset.udf import batch_udf
from pilum.encodings.options import EncodingOptions
from pilum.progress import IndexProgress
from pilum.table.read.session import Session
from pilum.version import __version__

if TYPE_CHECKING:
    from pilum import arrow as arrow
    from pilum import bitmap as bitmap
    from pilum import commit as commit
    from pilum import debug as debug
    from pilum import dependencies as dependencies
    from pilum import file as file
    from pilum import fragment as fragment
    from pilum import hf as hf
    from pilum import indices as indices
    from pilum import io as io
    from pilum import lance as lance
    from pilum import log as log
    from pilum import namespace as namespace
    from pilum import optimize as optimize
    from pilum import progress as progress
    from pilum import query as query
    from pilum import schema as schema
    from pilum import tracing as tracing
    from pilum import types as types
    from pilum import udf as udf
    from pilum import util as util
    from pilum import vector as vector
    from pilum.io import bytes_read_counter, iops_counter
    from pilum.log import set_logger
    from pilum.schema import json_to_schema, schema_to_json
    from pilum.text import FtsToken, tokenize

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
    "FtsToken",
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
    "__version__",
    "batch_udf",
    "blob_array",
    "blob_field",
    "bytes_read_counter",
    "dataset",
    "explain",
    "install_as_lance",
    "io",
    "iops_counter",
    "json_to_schema",
    "schema_to_json",
    "set_logger",
    "tokenize",
    "write_dataset",
]

_SUBMODULES = frozenset(
    {
        "arrow",
        "bitmap",
        "commit",
        "debug",
        "dependencies",
        "file",
        "fragment",
        "hf",
        "indices",
        "io",
        "lance",
        "log",
        "namespace",
        "optimize",
        "progress",
        "pydantic",
        "query",
        "sampler",
        "schema",
        "torch",
        "tracing",
        "training",
        "types",
        "udf",
        "util",
        "vector",
    }
)
_LAZY = {
    "FtsToken": "pilum.text",
    "bytes_read_counter": "pilum.io",
    "iops_counter": "pilum.io",
    "json_to_schema": "pilum.schema",
    "schema_to_json": "pilum.schema",
    "set_logger": "pilum.log",
    "tokenize": "pilum.text",
}
"""Functions that `import pilum` does not import, and their modules."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            found = globals()[name] = getattr(importlib.import_module(_LAZY[name]), name)
            return found
        if name in _SUBMODULES:
            with suppress(ModuleNotFoundError):
                return importlib.import_module(f"pilum.{name}")
        raise AttributeError(f"module 'pilum' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_SUBMODULES})


install_if_asked()
