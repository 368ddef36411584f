"""Spark jobs from job files in TOML, with one section of arguments for each kind of job.

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

import json
import logging
import sys
import tomllib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pilum.cli.outcome import Exit
from pilum.errors import InvalidInputError, MissingDependencyError, NotFoundError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pilum.table.upkeep.faults import VerifyReport

__all__ = ["KINDS", "JobSpec", "Kind", "carry_out", "merge_clauses", "read_job", "run_job"]

_LOG = logging.getLogger("pilum")
_SIZES = ("max_rows_per_file", "max_bytes_per_file")
_CLAUSES = {
    "when_matched": {
        "update": "when_matched_update_all",
        "delete": "when_matched_delete",
        "fail": "when_matched_fail",
    },
    "when_not_matched": {"insert": "when_not_matched_insert_all"},
    "when_not_matched_by_source": {"delete": "when_not_matched_by_source_delete"},
}
_INDEX_REQUIRED = ("target", "column", "index_type")
_INDEX_OPTIONAL = ("name", "replace", "merge", "fragments_per_task", "job", "journal")
_SHARED = ("storage", "spark")
_TEXTS = ("options", "values")
"""Arguments that are sections of names and texts."""


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
    """Read the section of a job file for one kind of job."""
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
    known = (*KINDS[kind].required, *KINDS[kind].optional)
    if not isinstance(section, dict):
        raise InvalidInputError(f"{path}: {kind} is not a section")
    if unknown := sorted(set(section) - set(known)):
        raise InvalidInputError(f"{path} [{kind}]: unknown {unknown}; known: {sorted(known)}")
    if missing := [name for name in KINDS[kind].required if name not in section]:
        raise InvalidInputError(f"{path} [{kind}]: {missing} is required")
    for name, value in section.items():
        if type(value) is not (expected := _TYPES[name]):
            raise InvalidInputError(
                f"{path} [{kind}]: {name}: expected {expected.__name__}, found {value!r}"
            )
    return {
        name: _texts(path, name, value) if name in _TEXTS else value
        for name, value in section.items()
    }


def _texts(path: str, name: str, section: Any) -> dict[str, str]:
    if not isinstance(section, dict) or not all(isinstance(one, str) for one in section.values()):
        raise InvalidInputError(f"{path}: {name}: expected names and texts, found {section!r}")
    return dict(section)


def run_job(spec: JobSpec, master: str | None, remote: str | None) -> Exit:
    """Start a session, run the job and print its result as one line of JSON.

    The session is a classic one (`local[*]` if `master` is None), or that of a Spark Connect server
    at the URL `remote`.
    """
    merge_clauses(spec.arguments)
    spark = _session(spec.spark, master, remote)
    try:
        _LOG.info("job %s begins: %s", spec.kind, dict(spec.arguments))
        result = carry_out(spark, spec)
        _LOG.info("job %s is done", spec.kind)
    finally:
        spark.stop()
    is_bad = result.get("is_valid") is False
    print(json.dumps({"job": spec.kind, **result}, default=str))
    return Exit.FAILED if is_bad else Exit.DONE


def carry_out(spark: SparkSession, spec: JobSpec) -> dict[str, Any]:
    """Run a job in a session and return its result."""
    return KINDS[spec.kind].run(spark, dict(spec.arguments), dict(spec.storage))


def merge_clauses(arguments: Mapping[str, Any]) -> list[str]:
    """Return the merge methods that the given clauses name."""
    methods = []
    for name, words in _CLAUSES.items():
        word = arguments.get(name)
        if word is not None and word not in words:
            raise InvalidInputError(f"{name}: expected one of {list(words)}, found {word!r}")
        if word is not None:
            methods.append(words[word])
    return methods


def _session(conf: Mapping[str, str], master: str | None, remote: str | None) -> SparkSession:
    # PySpark warns at each step that it does not support a newer pandas yet.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError("jobs need PySpark: pip install 'pilum[spark]'") from error
    is_local = remote is None and (master is None or master.startswith("local"))
    bar = str(is_local and sys.stderr.isatty()).lower()
    quiet = {"spark.ui.showConsoleProgress": bar, "spark.ui.enabled": "false"}
    builder = SparkSession.builder.appName("pilum")
    if remote is not None:
        return builder.remote(remote).config(map=dict(conf)).getOrCreate()
    return builder.master(master or "local[*]").config(map={**quiet, **conf}).getOrCreate()


_Run = Callable[["SparkSession", dict[str, Any], dict[str, str]], dict[str, Any]]


@dataclass(frozen=True)
class Kind:
    """A kind of jobs.

    Attributes:
        run: Runs a job, given the session, the arguments and the options of the object store.
        required: Names of the arguments that a job file must contain.
        optional: Names of the other arguments.
    """

    run: _Run
    required: tuple[str, ...]
    optional: tuple[str, ...]


def _call(
    name: str,
    result: Callable[[Any], dict[str, Any]],
    required: tuple[str, ...],
    optional: tuple[str, ...],
) -> Kind:
    """Return a kind of jobs that call `pilum.spark.{name}`, which takes `required` by position."""

    def run(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
        import pilum.spark

        values = [given.pop(argument) for argument in required]
        function = getattr(pilum.spark, name)
        return result(function(spark, *values, **given, storage_options=storage))

    return Kind(run, required, optional)


def _version(version: int) -> dict[str, Any]:
    return {"version": version}


def _statistics(columns: list[Any]) -> dict[str, Any]:
    return {"columns": [asdict(one) for one in columns]}


def _verified(report: VerifyReport) -> dict[str, Any]:
    print(report, file=sys.stderr)
    faults = ("missing", "damaged", "orphaned", "misread")
    counts = {name: len(getattr(report, name)) for name in faults}
    return {**counts, "is_valid": report.is_valid}


def _export(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    pilum.spark.export(spark, **given, storage_options=storage)
    return {"target": given["target"]}


def _merge(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark
    from pilum.spark.jobs.ingest import read_files

    target, on, job = given.pop("target"), given.pop("on"), given.pop("job", None)
    methods = merge_clauses(given)
    sizes = {name: given.pop(name) for name in _SIZES if name in given}
    frame = read_files(
        spark, **{name: value for name, value in given.items() if name not in _CLAUSES}
    )
    merge = pilum.spark.merge_into(spark, target, frame, on, **sizes, storage_options=storage)
    for method in methods or ["when_matched_update_all", "when_not_matched_insert_all"]:
        getattr(merge, method)()
    if job is not None:
        merge.idempotency_key(job)
    return dict(merge.execute())


def _create_index(
    spark: SparkSession, given: dict[str, Any], storage: dict[str, str]
) -> dict[str, Any]:
    import pilum.spark

    target, column, kind = (given.pop(name) for name in _INDEX_REQUIRED)
    parameters = given.pop("parameters", {})
    if known := sorted(set(parameters).intersection(_INDEX_OPTIONAL)):
        raise InvalidInputError(f"parameters: {known} are arguments of the job, not of the type")
    version = pilum.spark.create_index(
        spark, target, column, kind, **given, **parameters, storage_options=storage
    )
    return _version(version)


def _cleanup(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    target, days = given.pop("target"), given.pop("older_than_days", None)
    age = None if days is None else timedelta(days=days)
    result = pilum.spark.cleanup(spark, target, older_than=age, **given, storage_options=storage)
    if given.get("dry_run"):
        print(result, file=sys.stderr)
        return {"dry_run": True}
    return asdict(result)


_TYPES = {
    **dict.fromkeys(("source", "target", "format", "schema", "transform"), str),
    **dict.fromkeys(("mode", "schema_mode", "job", "journal", "filter", "blobs", "where"), str),
    **dict.fromkeys(_CLAUSES, str),
    **dict.fromkeys(("files_per_commit", "commit_every", "num_partitions", "memory_limit"), int),
    **dict.fromkeys((*_SIZES, "max_source_bytes"), int),
    **dict.fromkeys(("target_rows_per_fragment", "target_bytes_per_fragment"), int),
    **dict.fromkeys(("version", "batch_size", "older_than_days", "retain_versions"), int),
    **dict.fromkeys(("deep", "delete_unverified", "dry_run"), bool),
    **dict.fromkeys(("on", "columns", "partition_by"), list),
    **dict.fromkeys(("sort_by", "zorder_by", "hilbert_by"), list),
    **dict.fromkeys(("column", "index_type", "name"), str),
    **dict.fromkeys(("replace", "merge", "retrain"), bool),
    **dict.fromkeys(("fragments_per_task", "num_indices_to_merge"), int),
    "index_names": list,
    **dict.fromkeys((*_TEXTS, "parameters"), dict),
}
"""The types of all arguments."""

KINDS = {
    "ingest": _call(
        "ingest",
        asdict,
        ("source", "target"),
        (
            *("format", "schema", "transform", "options", "mode", "schema_mode", "job", "journal"),
            *("files_per_commit", "max_rows_per_file", "max_bytes_per_file", "memory_limit"),
        ),
    ),
    "merge": Kind(
        _merge,
        ("source", "target", "on"),
        (
            *("format", "schema", "transform", "options", "job", *_CLAUSES),
            *_SIZES,
        ),
    ),
    "export": Kind(
        _export,
        ("source", "target"),
        (
            *("format", "transform", "options", "columns", "filter", "version", "partition_by"),
            *("mode", "blobs", "batch_size"),
        ),
    ),
    "add-columns": _call(
        "add_columns", _version, ("target", "values"), ("job", "journal", "commit_every")
    ),
    "update-columns": _call(
        "update_columns",
        _version,
        ("target", "values"),
        ("job", "journal", "commit_every", "where"),
    ),
    "replace-columns": _call("replace_columns", _version, ("target", "values"), ("job", "journal")),
    "create-index": Kind(_create_index, _INDEX_REQUIRED, (*_INDEX_OPTIONAL, "parameters")),
    "optimize-indices": _call(
        "optimize_indices",
        _version,
        ("target",),
        ("num_indices_to_merge", "index_names", "retrain"),
    ),
    "compact": _call(
        "compact",
        asdict,
        ("target",),
        (
            *("commit_every", "max_source_bytes"),
            *("target_rows_per_fragment", "target_bytes_per_fragment"),
        ),
    ),
    "cluster": _call(
        "cluster",
        asdict,
        ("target",),
        (
            *("sort_by", "zorder_by", "hilbert_by", "num_partitions", "max_rows_per_file"),
            *("max_bytes_per_file", "memory_limit", "commit_every", "job", "journal"),
        ),
    ),
    "analyze": _call("analyze", _statistics, ("target",), ("columns", "version")),
    "verify": _call("verify", _verified, ("target",), ("deep",)),
    "cleanup": Kind(
        _cleanup,
        ("target",),
        ("older_than_days", "retain_versions", "delete_unverified", "dry_run"),
    ),
}
"""The kinds of jobs."""
