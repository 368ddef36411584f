"""Spark jobs from a job file, as run by `pilum job`."""

from __future__ import annotations

import json
import logging
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pilum.cli.job_file import JobSpec
from pilum.cli.outcome import Exit
from pilum.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["carry_out", "merge_clauses", "run_job"]

_LOG = logging.getLogger("pilum")
_CLAUSES = {
    "when_matched": {
        "update": "when_matched_update_all",
        "delete": "when_matched_delete",
        "fail": "when_matched_fail",
    },
    "when_not_matched": {"insert": "when_not_matched_insert_all"},
    "when_not_matched_by_source": {"delete": "when_not_matched_by_source_delete"},
}


def run_job(spec: JobSpec, master: str | None, remote: str | None) -> Exit:
    """Start a session, run the job and print its result as one line of JSON.

    Args:
        spec: The job to run.
        master: Master URL of a classic session; None for `local[*]`.
        remote: URL of a Spark Connect server, used instead of a classic session.

    Raises:
        MissingDependencyError: If PySpark is not installed.
        Exception: Any error that the job raises.
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
    return _RUN[spec.kind](spark, dict(spec.arguments), dict(spec.storage))


def merge_clauses(arguments: Mapping[str, Any]) -> list[str]:
    """Return the merge methods that the given clauses name.

    Raises:
        InvalidInputError: If a clause is unknown.
    """
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


def _ingest(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    return asdict(pilum.spark.ingest(spark, **given, storage_options=storage))


def _export(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    pilum.spark.export(spark, **given, storage_options=storage)
    return {"target": given["target"]}


def _merge(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark
    from pilum.spark.jobs.ingest import read_files

    target, on, job = given.pop("target"), given.pop("on"), given.pop("job", None)
    methods = merge_clauses(given)
    frame = read_files(
        spark, **{name: value for name, value in given.items() if name not in _CLAUSES}
    )
    merge = pilum.spark.merge_into(spark, target, frame, on, storage_options=storage)
    for method in methods or ["when_matched_update_all", "when_not_matched_insert_all"]:
        getattr(merge, method)()
    if job is not None:
        merge.idempotency_key(job)
    return dict(merge.execute())


def _columns(name: str) -> Callable[[SparkSession, dict[str, Any], dict[str, str]], dict[str, Any]]:
    def run(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
        import pilum.spark

        target, values = given.pop("target"), given.pop("values")
        function = getattr(pilum.spark, name)
        return {"version": function(spark, target, values, **given, storage_options=storage)}

    return run


def _rewrite(name: str) -> Callable[[SparkSession, dict[str, Any], dict[str, str]], dict[str, Any]]:
    def run(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
        import pilum.spark

        target = given.pop("target")
        function = getattr(pilum.spark, name)
        return asdict(function(spark, target, **given, storage_options=storage))

    return run


def _analyze(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    found = pilum.spark.analyze(spark, given.pop("target"), **given, storage_options=storage)
    return {"columns": [asdict(one) for one in found]}


def _verify(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    target = given.pop("target")
    report = pilum.spark.verify(spark, target, **given, storage_options=storage)
    print(report, file=sys.stderr)
    faults = ("missing", "damaged", "orphaned", "misread")
    counts = {name: len(getattr(report, name)) for name in faults}
    return {**counts, "is_valid": report.is_valid}


def _cleanup(spark: SparkSession, given: dict[str, Any], storage: dict[str, str]) -> dict[str, Any]:
    import pilum.spark

    target, days = given.pop("target"), given.pop("older_than_days", None)
    age = None if days is None else timedelta(days=days)
    result = pilum.spark.cleanup(spark, target, older_than=age, **given, storage_options=storage)
    if given.get("dry_run"):
        print(result, file=sys.stderr)
        return {"dry_run": True}
    return asdict(result)


_RUN = {
    "ingest": _ingest,
    "export": _export,
    "merge": _merge,
    "add-columns": _columns("add_columns"),
    "update-columns": _columns("update_columns"),
    "replace-columns": _columns("replace_columns"),
    "compact": _rewrite("compact"),
    "cluster": _rewrite("cluster"),
    "analyze": _analyze,
    "verify": _verify,
    "cleanup": _cleanup,
}
