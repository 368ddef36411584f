"""Options of a compaction: keyword arguments, settings of the table, and JSON.

keyword  ──▶  table setting lance.compaction.{keyword}  ──▶  default
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypedDict

from pilum.arguments import require_count
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.version import FileVersion
from pilum.table.model.manifest import Manifest
from pilum.table.upkeep.compaction import CompactionOptions as Resolved
from pilum.table.upkeep.compaction import require_consistent

__all__ = ["CompactionOptions", "options_from_json", "options_to_json", "resolve_options"]

_PREFIX = "lance.compaction."
_MODES = ("reencode", "try_binary_copy", "force_binary_copy")


class CompactionOptions(TypedDict, total=False):
    """The keyword arguments of `pilum.dataset.optimizing.DatasetOptimizer.compact_files`."""

    target_rows_per_fragment: int | None
    target_bytes_per_fragment: int | None
    max_rows_per_group: int | None
    max_bytes_per_file: int | None
    materialize_deletions: bool | None
    materialize_deletions_threshold: float | None
    defer_index_remap: bool | None
    num_threads: int | None
    batch_size: int | None
    memory_limit: int | None
    compaction_mode: str | None
    binary_copy_read_batch_bytes: int | None
    max_source_fragments: int | None
    max_source_rows: int | None
    max_source_bytes: int | None
    excluded_fragment_ids: list[int] | None
    data_storage_version: str | None


def resolve_options(manifest: Manifest, options: Mapping[str, Any]) -> Resolved:
    """Check keyword arguments and complete them with settings of the table.

    Raises:
        InvalidInputError: If an option is unknown or invalid.
        UnsupportedFeatureError: If a binary copy is requested.
    """
    known = CompactionOptions.__annotations__
    if unknown := sorted(set(options) - set(known)):
        raise InvalidInputError(f"unknown options {unknown}; known: {', '.join(known)}")
    given = {name: value for name, value in options.items() if value is not None}
    configured = {
        name: _parsed(name, manifest.config[_PREFIX + name])
        for name in _PARSERS
        if _PREFIX + name in manifest.config and name not in given
    }
    resolved = _resolved({**configured, **given})
    require_consistent(resolved, manifest)
    return resolved


def options_to_json(options: Resolved) -> dict[str, Any]:
    """Return the options as a plain dictionary of keyword arguments."""
    values: dict[str, Any] = {name: getattr(options, _ATTRIBUTES.get(name, name)) for name in _JSON}
    version = options.version
    values["data_storage_version"] = None if version is None else str(version)
    values["excluded_fragment_ids"] = list(options.excluded_fragment_ids)
    return values


def options_from_json(values: Any) -> Resolved:
    """Read options from the result of `options_to_json`.

    Raises:
        InvalidInputError: If a value is invalid.
    """
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"not options of a compaction: {values!r}")
    names = set(CompactionOptions.__annotations__)
    return _resolved({k: v for k, v in values.items() if k in names and v is not None})


def _resolved(values: Mapping[str, Any]) -> Resolved:
    mode = values.get("compaction_mode", "reencode")
    if mode not in _MODES:
        raise InvalidInputError(
            f"compaction_mode: expected one of {', '.join(_MODES)}, found {mode!r}"
        )
    if mode == "force_binary_copy":
        raise UnsupportedFeatureError("compaction_mode='force_binary_copy': rows are encoded anew")
    options = Resolved()
    for name, check in _CHECKS.items():
        if name in values:
            checked = check(name, values[name])
            options = replace(options, **{_ATTRIBUTES.get(name, name): checked})
    return options


def _count(name: str, value: Any) -> int:
    return require_count(name, value, 1)


def _truth(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidInputError(f"{name}: expected True or False, found {value!r}")
    return value


def _share(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidInputError(f"{name}: expected a share from 0 to 1, found {value!r}")
    return float(value)


def _version(name: str, value: Any) -> FileVersion:
    if not isinstance(value, str):
        raise InvalidInputError(f"{name}: expected a version such as '2.1', found {value!r}")
    return FileVersion.parse(value)


def _ids(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidInputError(f"{name}: expected a list of fragment ids, found {value!r}")
    return tuple(require_count(name, number) for number in value)


_CHECKS: Mapping[str, Callable[[str, Any], Any]] = {
    "target_rows_per_fragment": _count,
    "target_bytes_per_fragment": _count,
    "max_rows_per_group": _count,
    "max_bytes_per_file": _count,
    "materialize_deletions": _truth,
    "materialize_deletions_threshold": _share,
    "defer_index_remap": _truth,
    "num_threads": _count,
    "batch_size": _count,
    "memory_limit": _count,
    "max_source_fragments": require_count,
    "max_source_rows": require_count,
    "max_source_bytes": require_count,
    "excluded_fragment_ids": _ids,
    "data_storage_version": _version,
}
_ATTRIBUTES = {
    "defer_index_remap": "records_moves",
    "memory_limit": "memory_limit_bytes",
    "data_storage_version": "version",
}
_JSON = tuple(_CHECKS)


def _parse_truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    "target_rows_per_fragment": int,
    "target_bytes_per_fragment": int,
    "max_rows_per_group": int,
    "max_bytes_per_file": int,
    "materialize_deletions": _parse_truth,
    "materialize_deletions_threshold": float,
    "defer_index_remap": _parse_truth,
    "batch_size": int,
    "compaction_mode": str,
    "max_source_fragments": int,
    "max_source_rows": int,
    "max_source_bytes": int,
    "data_storage_version": str,
}


def _parsed(name: str, text: str) -> Any:
    try:
        return _PARSERS[name](text)
    except (ValueError, KeyError) as error:
        raise InvalidInputError(f"setting {_PREFIX}{name} of the table: {text!r}") from error
