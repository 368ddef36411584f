"""Maintenance as Spark jobs: the driver plans and commits, tasks read and write.

compact    plan ──▶ one task per group of fragments ──▶ one commit per `commit_every` tasks
verify     manifests and ends of files on the driver; with `deep`, pages: one task per fragment
cleanup    on the driver: it only lists and deletes
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from pilum.dataset.cleanup import CleanupExplanation, CleanupStats
from pilum.dataset.compaction import (
    Compaction,
    CompactionMetrics,
    CompactionTask,
    RewriteResult,
    commit_what_fits,
)
from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.upkeep import VerifyReport, report_of
from pilum.distributed.sweeping import sweep
from pilum.errors import CommitConflictError, InvalidInputError
from pilum.spark.jobs.tasks import attempt_name, run_tasks
from pilum.spark.options import table_uri
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.verify import Fault, FaultKind, decode_fragment
from pilum.table.upkeep.verify import verify as check
from pilum.table.versions.open import open_table

__all__ = ["cleanup", "compact", "verify"]


def compact(
    spark: SparkSession,
    uri: str,
    *,
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> CompactionMetrics:
    """Compact small fragments into larger ones, without deleted rows, in Spark tasks.

    Args:
        spark: The session.
        uri: Location of the table.
        commit_every: Commit whenever this many tasks are done, so that a later failure loses
            little; None for one commit at the end.
        storage_options: Settings of the store.
        options: Options of `LanceDataset.optimize.compact_files`, such as
            `target_rows_per_fragment`.

    Returns:
        Metrics of the work done. Groups of fragments that were changed concurrently are left as
        they are.

    Raises:
        CommitConflictError: If concurrent writers changed all of the fragments.
        UnsupportedFeatureError: If the table or an index has a feature that cannot be compacted.
        InvalidInputError: If an argument is invalid.
        pyspark.errors.PythonException: If a task failed in all attempts. Earlier commits are kept.
    """
    if commit_every is not None and (type(commit_every) is not int or commit_every < 1):
        raise InvalidInputError(f"commit_every: expected a positive number, found {commit_every!r}")
    access = dict(storage_options or {})
    dataset = LanceDataset(table_uri(uri), storage_options=access)
    plan = Compaction.plan(dataset, options)
    rewriting = _Rewriting(table_uri(uri), str(uuid4()), access)
    size = commit_every or max(1, len(plan.tasks))
    results: list[RewriteResult] = []
    metrics: list[CompactionMetrics] = []
    conflict: CommitConflictError | None = None
    for start in range(0, len(plan.tasks), size):
        done = rewriting.run(spark, plan.tasks[start : start + size], results)
        results += done
        try:
            metrics.append(commit_what_fits(dataset, plan, [one.move for one in done]))
        except CommitConflictError as error:
            conflict = error
    rewriting.sweep(results)
    if conflict is not None and not metrics:
        raise conflict
    return _sum(metrics)


@dataclass(frozen=True)
class _Rewriting:
    """The tasks of one compaction; picklable."""

    uri: str
    uuid: str
    storage_options: Mapping[str, str] = field(repr=False)

    def run(
        self, spark: SparkSession, tasks: Sequence[CompactionTask], before: list[RewriteResult]
    ) -> list[RewriteResult]:
        try:
            texts = run_tasks(spark, [task.json() for task in tasks], self.execute)
        except BaseException:
            self.sweep(before)
            raise
        return [RewriteResult.from_json(text) for text in texts]

    def execute(self, task: str) -> str:
        """Execute one compaction task within a Spark task."""
        dataset = LanceDataset(self.uri, storage_options=dict(self.storage_options))
        prefix = f"{self.uuid}-{attempt_name()}"
        return CompactionTask.from_json(task).execute(dataset, file_name_prefix=prefix).json()

    def sweep(self, results: list[RewriteResult]) -> None:
        """Delete the files of attempts whose results Spark discarded."""
        new = (fragment for result in results for fragment in result.move.new)
        keep = {file.path for fragment in new for file in fragment.files}
        sweep(open_table(self.uri, self.storage_options), self.uuid, keep.__contains__)


def verify(
    spark: SparkSession,
    uri: str,
    *,
    deep: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> VerifyReport:
    """Check the structure of a table without changing it; damage raises no error.

    Args:
        spark: The session.
        uri: Location of the table.
        deep: Whether tasks also decode all pages of the latest version.
        storage_options: Settings of the store.

    Returns:
        The report of `LanceDataset.verify`.
    """
    access = dict(storage_options or {})
    snapshot = Snapshot.latest(open_table(table_uri(uri), access))
    found = check(snapshot, deep=False, all_versions=True)
    if deep:
        reading = _Reading(table_uri(uri), snapshot.manifest.version, access)
        known = {one.path for one in found.faults if one.kind is not FaultKind.MISREAD}
        ids = [int(fragment.id) for fragment in snapshot.manifest.fragments]
        faults = map(_fault, run_tasks(spark, ids, reading.decode))
        found.faults += [one for one in faults if one is not None and one.path not in known]
    return report_of(found, deep)


@dataclass(frozen=True)
class _Reading:
    """The tasks of one check; picklable."""

    uri: str
    version: int
    storage_options: Mapping[str, str] = field(repr=False)

    def decode(self, fragment_id: int) -> str:
        """Decode one fragment and return the faults as JSON."""
        snapshot = Snapshot.at(open_table(self.uri, self.storage_options), self.version)
        (fragment,) = (one for one in snapshot.manifest.fragments if one.id == fragment_id)
        fault = decode_fragment(snapshot, fragment)
        return json.dumps(fault and {**asdict(fault), "kind": fault.kind.value})


def _fault(text: str) -> Fault | None:
    values = json.loads(text)
    return values and Fault(**{**values, "kind": FaultKind(values["kind"])})


def cleanup(
    spark: SparkSession,
    uri: str,
    *,
    older_than: timedelta | None = None,
    retain_versions: int | None = None,
    delete_unverified: bool = False,
    dry_run: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> CleanupStats | CleanupExplanation:
    """Remove old versions and the files of failed writers; runs on the driver.

    Args:
        spark: The session; no Spark job is started.
        uri: Location of the table.
        older_than: Remove versions older than this; two weeks if neither condition is given.
        retain_versions: Keep this many of the newest versions. If `older_than` is given too, only
            versions that fulfil both conditions are removed.
        delete_unverified: Whether to remove also recent files that no version refers to. Safe only
            if no writer is active.
        dry_run: Whether to only report what would be removed.
        storage_options: Settings of the store.

    Raises:
        The errors of `LanceDataset.cleanup_old_versions`.
    """
    del spark
    dataset = LanceDataset(table_uri(uri), storage_options=dict(storage_options or {}))
    clean = partial(
        dataset.cleanup_old_versions,
        older_than,
        retain_versions,
        delete_unverified=delete_unverified,
    )
    return clean(dry_run=True) if dry_run else clean()


def _sum(metrics: Sequence[CompactionMetrics]) -> CompactionMetrics:
    totals: dict[str, int] = {}
    for one in metrics:
        for name, value in asdict(one).items():
            totals[name] = totals.get(name, 0) + value
    return CompactionMetrics(**totals)
