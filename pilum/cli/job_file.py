"""Job files in TOML: one section per kind of job, which holds the arguments of the job.

    [ingest]                          pilum job ingest --file nightly.toml
    source = "/data/in"
    target = "/data/events.lance"
    format = "csv"
    schema = "id long, name string"
    transform = "SELECT id, lower(name) AS name FROM {source}"
    job = "nightly"

    [compact]                         pilum job compact --file nightly.toml
    target = "/data/events.lance"

    [storage]                         options of the object store, for all sections
    [spark]                           settings of the Spark session
    "spark.driver.memory" = "2g"

An unknown section or argument is an error, so that a typing error cannot change what a job does.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pilum.errors import InvalidInputError, NotFoundError

__all__ = ["KINDS", "JobSpec", "read_job"]

_Types = Mapping[str, type]

_FILES: _Types = {
    "source": str,
    "target": str,
    "format": str,
    "schema": str,
    "transform": str,
    "options": dict,
}
_COLUMNS: _Types = {"target": str, "values": dict, "job": str, "journal": str, "commit_every": int}
KINDS: Mapping[str, _Types] = {
    "ingest": {
        **_FILES,
        "mode": str,
        "schema_mode": str,
        "job": str,
        "journal": str,
        "files_per_commit": int,
        "max_rows_per_file": int,
    },
    "merge": {
        **_FILES,
        "on": list,
        "job": str,
        "when_matched": str,
        "when_not_matched": str,
        "when_not_matched_by_source": str,
    },
    "export": {
        **{name: kind for name, kind in _FILES.items() if name != "schema"},
        "columns": list,
        "filter": str,
        "version": int,
        "partition_by": list,
        "mode": str,
        "blobs": str,
        "batch_size": int,
    },
    "add-columns": _COLUMNS,
    "update-columns": {**_COLUMNS, "where": str},
    "replace-columns": {name: kind for name, kind in _COLUMNS.items() if name != "commit_every"},
    "compact": {
        "target": str,
        "commit_every": int,
        "target_rows_per_fragment": int,
        "target_bytes_per_fragment": int,
        "max_source_bytes": int,
    },
    "cluster": {
        "target": str,
        "sort_by": list,
        "zorder_by": list,
        "hilbert_by": list,
        "num_partitions": int,
        "max_rows_per_file": int,
        "max_bytes_per_file": int,
        "memory_limit": int,
        "commit_every": int,
        "job": str,
        "journal": str,
    },
    "analyze": {"target": str, "columns": list, "version": int},
    "verify": {"target": str, "deep": bool},
    "cleanup": {
        "target": str,
        "older_than_days": int,
        "retain_versions": int,
        "delete_unverified": bool,
        "dry_run": bool,
    },
}
"""The kinds of jobs, each with its arguments and their types."""

_NEEDED = {
    "ingest": ("source", "target"),
    "merge": ("source", "target", "on"),
    "export": ("source", "target"),
    "add-columns": ("target", "values"),
    "update-columns": ("target", "values"),
    "replace-columns": ("target", "values"),
}
_SHARED = ("storage", "spark")


@dataclass(frozen=True)
class JobSpec:
    """A job as read from a job file.

    Attributes:
        kind: One of `KINDS`.
        arguments: The arguments by name; their types are checked.
        storage: Options of the object store.
        spark: Settings of the Spark session.
    """

    kind: str
    arguments: Mapping[str, Any]
    storage: Mapping[str, str]
    spark: Mapping[str, str]


def read_job(path: str, kind: str) -> JobSpec:
    """Read the section of a job file for one kind of job.

    Raises:
        NotFoundError: If the file does not exist.
        InvalidInputError: If the file is not valid TOML, or an entry is unknown, missing or of the
            wrong type.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError) as error:
        raise NotFoundError(f"no job file at {path!r}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"{path}: not valid TOML: {error}") from error
    if unknown := sorted(set(content) - set(KINDS) - set(_SHARED)):
        raise InvalidInputError(f"{path}: unknown sections {unknown}; known: {[*KINDS, *_SHARED]}")
    if kind not in content:
        raise InvalidInputError(f"{path}: no section [{kind}]; it has {sorted(content)}")
    arguments = _checked(path, kind, content[kind])
    storage, spark = (_texts(path, name, content.get(name, {})) for name in _SHARED)
    return JobSpec(kind, arguments, storage, spark)


def _checked(path: str, kind: str, section: Any) -> dict[str, Any]:
    types = KINDS[kind]
    if not isinstance(section, dict):
        raise InvalidInputError(f"{path}: {kind} is not a section")
    if unknown := sorted(set(section) - set(types)):
        raise InvalidInputError(f"{path} [{kind}]: unknown {unknown}; known: {sorted(types)}")
    if missing := [name for name in _NEEDED.get(kind, ("target",)) if name not in section]:
        raise InvalidInputError(f"{path} [{kind}]: {missing} is required")
    for name, value in section.items():
        if type(value) is not types[name]:
            raise InvalidInputError(
                f"{path} [{kind}]: {name}: expected {types[name].__name__}, found {value!r}"
            )
    return {
        name: _texts(path, name, value) if isinstance(value, dict) else value
        for name, value in section.items()
    }


def _texts(path: str, name: str, section: Any) -> dict[str, str]:
    if not isinstance(section, dict) or not all(isinstance(one, str) for one in section.values()):
        raise InvalidInputError(f"{path}: {name}: expected names and texts, found {section!r}")
    return dict(section)
