"""Our public names and arguments are those of the reference, but for a list of differences.

Every list of differences is compared exactly, so that a difference that is gone has to leave it.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import Enum
from types import ModuleType
from typing import Any, is_typeddict

import pytest
from arrow_types import reference_arrow

import pilum
import pilum.fragment

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")
reference_arrow()

# Ours only, and why.
OWN_EXPORTS = {
    "EncodingOptions",  # the reference takes these from field metadata alone
    "install_as_lance",
    "Explanation",
    "explain",  # there it is for plans of scans
}
OWN_PARAMETERS = {
    "buffer_alignment",  # of all that writes, as above
    "condition",  # of clauses of merges
    "dry_run",  # of what deletes
    "commit_handler",  # there only for what it knows itself
    "encoding_options",
    "file_name_prefix",  # of tasks of compactions
    "idempotency_key",
    "memory_limit",
    "schema_mode",
    "strings_as",  # of scans
    "storage_options_provider",  # of older releases of the reference; always None
    "target_bytes_per_fragment",
}
OWN_NAMES = {
    ("LanceDataset", "advance"),  # how chapters and floors above move one on
    ("LanceDataset", "given_handler"),  # for the floors of the front
    ("LanceDataset", "index_recall"),  # no other library measures it
    ("LanceDataset", "last_commit"),
    ("LanceDataset", "pinned"),  # how the floors of the front make one
    ("LanceDataset", "prepare_nearest"),  # a search for many queries
    ("LanceDataset", "to_pyarrow_dataset"),  # for engines
    ("LanceDataset", "snapshot"),  # what the front reads from
    ("LanceDataset", "take_rows"),  # there it is private
    ("LanceDataset", "verify"),  # there it is `validate`, and says less
    ("LanceScanner", "schema"),  # as pyarrow's readers have it
    ("Session", "index_cache_stats"),  # the reference has them, but not in Python
    ("Session", "metadata_cache_stats"),
    ("Session", "open_file"),  # for the floors below
    ("FragmentMetadata", "from_table"),  # to and from the form of the manifest
    ("FragmentMetadata", "to_table"),
    ("Transaction", "fragments"),  # the reference keeps them in the operation only
    ("Transaction", "from_table"),
    ("Transaction", "to_table"),
}
# Theirs only, and why.
MISSING_EXPORTS = {
    # Writing to memory ahead of the table
    *("CompactedSsTable", "ExecutionPlan", "LsmPointLookupPlanner", "LsmScanner"),
    *("LsmVectorSearchPlanner", "ShardSnapshot", "ShardWriter", "ShardingField", "ShardingSpec"),
    "evaluate_sharding_spec",
    "FFILanceTableProvider",  # for queries by DataFusion
    "simd_info",  # the kernels do not report what they chose
}
# Modules of theirs that are not here, and why. None of their names is compared.
MISSING_MODULES = {
    "download",  # models of languages, from hosts on the internet
    "mem_wal",  # writing to memory ahead of the table
    "otel",  # counters of its own library
    "torch.async_dataset",  # a loader of one worker: the option persistent_workers does the same
    "torch.bench_utils",  # of its measurements
}
# Names of modules that are there: (module, name) -> why not.
MISSING_IN_MODULES = {
    ("dataset", "model_to_dict"),  # of dependencies
    ("dataset", "normalize_transform"),  # of its functions for new columns
    ("dataset", "serialize_row_addrs"),
    *(("dependencies", name) for name in ("_LazyModule", "model_to_dict")),
    *(("dependencies", f"_check_for_{name}") for name in ("hugging_face", "numpy", "pandas")),
    *(("dependencies", f"_check_for_{name}") for name in ("polars", "pydantic", "torch")),
    ("dependencies", "_is_pydantic_base_model"),
    ("dependencies", "_is_pydantic_base_model_class"),
    ("dependencies", "_validate_pydantic_list"),
    ("fragment", "normalize_transform"),
    ("indices.builder", "RESIDUAL_COLUMN"),  # residuals are never stored here
    *(("indices.ivf", name) for name in ("LanceFileReader", "LanceFileWriter")),
    *(("indices.pq", name) for name in ("LanceFileReader", "LanceFileWriter")),
    ("types", "model_to_dict"),
    ("udf", "normalize_transform"),
    ("util", "HNSW"),  # a graph without an index
    *(("vector", name) for name in ("compute_partitions", "compute_pq_codes", "write_dataset")),
    *(("vector", f"one_pass_{name}_ivf_pq_on_accelerator") for name in ("assign", "train")),
    ("vector", "train_ivf_centroids_on_accelerator"),
    ("vector", "train_pq_codebook_on_accelerator"),
}

_REFUSED = {  # of theirs, by themselves: they are there because pyarrow's classes have them
    "LanceScanner": ("from_batches", "from_dataset", "from_fragment", "take"),
    "LanceDataset": ("join", "partition_expression", "replace_schema"),
    "LanceFragment": ("partition_expression",),
}
MISSING_NAMES = {
    *((name, member) for name, members in _REFUSED.items() for member in members),
    *(("LanceDataset", name) for name in ("filter", "join_asof", "sort_by")),  # pyarrow's alone
    ("LanceDataset", "storage_options_accessor"),  # for namespaces
    ("LanceScanner", "scan_batches"),  # pyarrow's form of `to_batches`
}
# (where, parameter) -> why it differs.
DIFFERENCES = {
    ("indices.builder.IndicesBuilder.assign_ivf_partitions", "accelerator"): "optional",
    ("log.set_logger", "file_path"): "named after this package",
    ("log.set_logger", "name"): "the logger of this package",
}
# Classes whose instances come out of other calls.
MADE_BY_THE_LIBRARY = {
    "BatchUDFCheckpoint",
    "BlobArray",
    "BulkCommitResult",
    "CommitConflictError",
    "Compaction",
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "DatasetDelta",
    "DeletionFile",
    "FragmentSession",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "IndexSegment",
    "IndexSegmentDescription",
    "LanceScanner",
    "LanceSchema",
    "LanceStats",
    "RewriteResult",
    "RowDatasetVersionMeta",
    "RowIdMeta",
}
# Parameters of theirs that are not here, by function.
MISSING_PARAMETERS: dict[str, set[str]] = {
    "Session": {"store_registry"},  # providers of stores in Rust
    "file.LanceFileReader": {"_inner_reader"},  # of its extension module
    "file.LanceFileWriter": {"_inner_writer"},
    "fragment.LanceFragment": {"fragment"},
}
# All our scans take all of them; there, some scans lack some.
SCAN_KEYWORDS = inspect.signature(lance.LanceDataset.scanner).parameters
CLASSES = [
    "LanceDataset",
    "LanceFragment",
    "LanceScanner",
    "FragmentMetadata",
    "Session",
    "Transaction",
]


def _functions() -> list[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    found: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
        ("dataset", pilum.dataset, lance.dataset),
        ("write_dataset", pilum.write_dataset, lance.write_dataset),
        ("write_fragments", pilum.fragment.write_fragments, lance.fragment.write_fragments),
        ("LanceOperation.Append", pilum.LanceOperation.Append, lance.LanceOperation.Append),
        (
            "LanceOperation.Overwrite",
            pilum.LanceOperation.Overwrite,
            lance.LanceOperation.Overwrite,
        ),
        ("Blob", pilum.Blob, lance.Blob),
        ("BlobColumn", pilum.BlobColumn, lance.BlobColumn),
        ("BlobFile", pilum.BlobFile, lance.BlobFile),
        (
            "BlobDescriptorArrayBuilder",
            pilum.BlobDescriptorArrayBuilder,
            lance.BlobDescriptorArrayBuilder,
        ),
        ("blob_array", pilum.blob_array, lance.blob_array),
        ("blob_field", pilum.blob_field, lance.blob_field),
        ("LanceOperation.Delete", pilum.LanceOperation.Delete, lance.LanceOperation.Delete),
        ("LanceOperation.Update", pilum.LanceOperation.Update, lance.LanceOperation.Update),
        ("DataFile", pilum.fragment.DataFile, lance.fragment.DataFile),
        ("FragmentMetadata", pilum.FragmentMetadata, lance.FragmentMetadata),
        ("Transaction", pilum.Transaction, lance.Transaction),
        ("LanceDataset", pilum.LanceDataset, lance.LanceDataset),
        ("Session", pilum.Session, lance.Session),
    ]
    for name in CLASSES:
        ours, theirs = getattr(pilum, name), getattr(lance, name)
        for member in _public(ours):
            ours_member, theirs_member = getattr(ours, member), getattr(theirs, member, None)
            if callable(ours_member) and theirs_member is not None:
                found.append((f"{name}.{member}", ours_member, theirs_member))
    return found


def _public(cls: type) -> list[str]:
    return [name for name in dir(cls) if not name.startswith("_")]


def test_every_name_is_one_of_the_reference() -> None:
    assert {name for name in pilum.__all__ if not hasattr(lance, name)} == OWN_EXPORTS
    own = {
        (name, member)
        for name in CLASSES
        for member in _public(getattr(pilum, name))
        if not hasattr(getattr(lance, name), member)
        and member not in getattr(getattr(lance, name), "__dataclass_fields__", {})
    }
    assert own == OWN_NAMES


def test_every_name_of_the_reference_is_there() -> None:
    assert {name for name in lance.__all__ if not hasattr(pilum, name)} == MISSING_EXPORTS
    missing = {
        (name, member)
        for name in CLASSES
        for member in _public(getattr(lance, name))
        if not hasattr(getattr(pilum, name), member)
        and member not in getattr(getattr(pilum, name), "__dataclass_fields__", {})
    }
    assert missing == MISSING_NAMES


def _modules() -> Iterator[tuple[str, ModuleType]]:
    """The public modules of the reference that can be imported here, by their names in it."""
    for info in pkgutil.walk_packages(lance.__path__, "lance."):
        name = info.name.removeprefix("lance.")
        if name.startswith(("_", "lance")) or name in {"conftest", *MISSING_MODULES}:
            continue
        with suppress(ImportError):  # of what only it needs
            yield name, importlib.import_module(info.name)


def _names(module: ModuleType) -> set[str]:
    """The public names of a module of the reference: those it lists, or else those it has."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return set(listed)
    return {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and _is_of_reference(value)
    }


def _is_of_reference(value: Any) -> bool:
    home = str(getattr(value, "__module__", "")).partition(".")[0]
    return not inspect.ismodule(value) and (
        home in {"lance", "_lib"} or (isinstance(value, str | int) and not isinstance(value, bool))
    )


def test_every_module_of_the_reference_is_there() -> None:
    names = {info.name for info in pkgutil.walk_packages(lance.__path__, "lance.")}
    public = {name.removeprefix("lance.") for name in names if "._" not in name}
    public -= {"conftest", *(name for name in public if name.startswith("lance"))}
    missing = {name for name in public if not _exists(f"pilum.{name}")}
    assert missing == MISSING_MODULES
    attributes = {name for name in public - missing if "." not in name and name != "dataset"}
    assert {name for name in attributes if not inspect.ismodule(getattr(pilum, name))} == set()


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_name_of_a_module_is_there() -> None:
    missing = {
        (name, member)
        for name, theirs in _modules()
        for member in _names(theirs)
        if not hasattr(importlib.import_module(f"pilum.{name}"), member)
    }
    imported = {name for name, _ in _modules()}  # `lance.vector` needs `datasets`
    assert missing == {one for one in MISSING_IN_MODULES if one[0] in imported}


def _module_functions() -> list[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    found = []
    for name, theirs in _modules():
        ours = importlib.import_module(f"pilum.{name}")
        for member in sorted(_names(theirs)):
            function, other = getattr(ours, member, None), getattr(theirs, member)
            if callable(function) and getattr(other, "__module__", "") == f"lance.{name}":
                if _is_called(function, other):
                    found.append((f"{name}.{member}", function, other))
                if inspect.isclass(function):
                    found += _methods(f"{name}.{member}", function, other)
    return found


def _is_called(ours: Any, theirs: Any) -> bool:
    """Whether users call both: functions, and classes that the library does not make itself."""
    try:
        inspect.signature(theirs), inspect.signature(ours)
    except ValueError:
        return False
    return not is_typeddict(theirs) and theirs.__name__ not in MADE_BY_THE_LIBRARY


def _methods(
    name: str, ours: type, theirs: type
) -> Iterator[tuple[str, Callable[..., Any], Callable[..., Any]]]:
    for member, method in vars(theirs).items():
        function = getattr(ours, member, None)
        if not member.startswith("_") and callable(function) and callable(method):
            yield f"{name}.{member}", function, getattr(theirs, member)


def test_every_argument_of_the_reference_is_there() -> None:
    missing = {}
    for name, ours, theirs in [*_functions(), *_module_functions()]:
        try:
            expected, given = _parameters(theirs), _parameters(ours)
        except ValueError:  # no signature
            continue
        names = {name for name, one in expected.items() if one.kind is not one.VAR_KEYWORD}
        names -= {"args", "self", *given}
        takes_all = any(one.kind is one.VAR_KEYWORD for one in given.values())
        if names and not takes_all:
            missing[name] = names
    assert missing == MISSING_PARAMETERS


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [pytest.param(*item, id=item[0]) for item in [*_functions(), *_module_functions()]],
)
def test_arguments_have_the_names_and_defaults_of_the_reference(
    name: str, ours: Callable[..., Any], theirs: Callable[..., Any]
) -> None:
    expected = inspect.signature(theirs).parameters
    more = SCAN_KEYWORDS if {"columns", "limit"} <= expected.keys() else {}
    open_ended = any(item.kind is item.VAR_KEYWORD for item in expected.values())
    positional: list[str] = []
    for parameter in inspect.signature(ours).parameters.values():
        if parameter.kind in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}:
            continue
        if parameter.name not in expected:
            assert open_ended or parameter.name in {*OWN_PARAMETERS, *more}, parameter
        else:
            same = _same(parameter.default, expected[parameter.name].default)
            assert same != ((name, parameter.name) in DIFFERENCES), parameter
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            positional.append(parameter.name)
    shared = [parameter for parameter in positional if parameter not in OWN_PARAMETERS]
    assert shared == [*expected][: len(shared)]


def _same(ours: Any, theirs: Any) -> bool:
    made = "<factory>"  # of dataclasses
    if isinstance(ours, Enum) and isinstance(theirs, Enum):
        return bool(ours.value == theirs.value)
    return ours == theirs or made in {repr(ours), repr(theirs)}
