"""Our public names and arguments are those of the reference, but for a list of differences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import pilum
import pilum.fragment

lance: Any = pytest.importorskip("lance", reason="the reference is not installed")

# Ours only, and why.
OWN_EXPORTS = {
    "EncodingOptions",  # the reference takes these from field metadata alone
    "Explanation",
    "explain",  # there it is for plans of scans
}
OWN_PARAMETERS = {
    "buffer_alignment",  # of all that writes, as above
    "dry_run",  # of what deletes
    "commit_handler",  # there only for what it knows itself
    "encoding_options",
    "idempotency_key",
    "schema_mode",
}
OWN_NAMES = {
    ("LanceDataset", "advance"),  # how chapters and floors above move one on
    ("LanceDataset", "given_handler"),  # for the floors of the front
    ("LanceDataset", "index_recall"),  # no other library measures it
    ("LanceDataset", "last_commit"),
    ("LanceDataset", "pinned"),  # how the floors of the front make one
    ("LanceDataset", "prepare_nearest"),  # a search for many queries
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
    # Indices and search
    *("FtsToken", "simd_info", "tokenize"),
    "FFILanceTableProvider",  # for queries by DataFusion
    *("bytes_read_counter", "iops_counter"),  # here each dataset counts: `io_stats_snapshot`
    "io",  # wrappers of the stores that its own library has
    *("json_to_schema", "schema_to_json"),
    "set_logger",  # nothing is logged here
    "__version__",
}
_REFUSED = {  # of theirs, by themselves: they are there because pyarrow's classes have them
    "LanceScanner": ("from_batches", "from_dataset", "from_fragment", "take"),
    "LanceDataset": ("join", "partition_expression", "replace_schema"),
    "LanceFragment": ("partition_expression",),
}
MISSING_NAMES = {
    *((name, member) for name, members in _REFUSED.items() for member in members),
    *(("LanceDataset", name) for name in ("filter", "join_asof", "sort_by")),  # pyarrow's alone
    ("LanceDataset", "from_pydantic_model"),
    ("LanceDataset", "storage_options_accessor"),  # for namespaces
    ("LanceScanner", "scan_batches"),  # pyarrow's form of `to_batches`
}
# (where, parameter) -> why it differs.
DIFFERENCES = {
    ("dataset", "uri"): "required: there are no catalogs yet that could tell it",
    ("write_dataset", "uri"): "required: as above",
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


@pytest.mark.parametrize(
    ("name", "ours", "theirs"), [pytest.param(*item, id=item[0]) for item in _functions()]
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
    assert positional == [*expected][: len(positional)]


def _same(ours: Any, theirs: Any) -> bool:
    made = "<factory>"  # of dataclasses
    return ours == theirs or made in {repr(ours), repr(theirs)}
