"""Maintenance of a table: the driver plans and commits, tasks read and write.

compact    plan ──▶ one task per group of fragments ──▶ one commit per `commit_every` tasks
verify     manifests and ends of files on the driver; with `deep`, pages: one task per fragment
analyze    one task per group of fragments ──▶ a summary of each column ──▶ joined by the driver
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any
from uuid import uuid4

from pilum.arguments import optional_count
from pilum.dataset.compaction import (
    Compaction,
    CompactionMetrics,
    CompactionTask,
    RewriteResult,
    commit_what_fits,
)
from pilum.dataset.lance_dataset import LanceDataset
from pilum.distributed.jobs import Attempt
from pilum.distributed.row_changes import fragments_with
from pilum.distributed.sweeping import sweep
from pilum.distributed.tasks import Tasks, fragment_groups
from pilum.distributed.versions import TableVersion
from pilum.errors import ColumnNotFoundError, CommitConflictError
from pilum.table.read.column_statistics import ColumnSummary, summarize
from pilum.table.upkeep.faults import Fault, VerifyReport
from pilum.table.upkeep.verify import decode_fragment
from pilum.table.upkeep.verify import verify as check
from pilum.table.versions.commit_handler import open_table

__all__ = [
    "ColumnStatistics",
    "CompactionMetrics",
    "VerifyReport",
    "analyze",
    "compact",
    "excluding_others",
    "verify",
]


def compact(
    tasks: Tasks,
    uri: str,
    options: Mapping[str, Any],
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> CompactionMetrics:
    """Compact small fragments into larger ones, as `LanceDataset.optimize.compact_files` does.

    With `commit_every`, it commits whenever this many tasks are done, otherwise once at the end.
    CommitConflictError is raised if concurrent writers changed all of the fragments. If they
    changed some of them, those are left as they are.
    """
    optional_count("commit_every", commit_every, 1)
    access = dict(storage_options or {})
    dataset = LanceDataset(uri, storage_options=access)
    plan = Compaction.plan(dataset, options)
    rewriting = _Rewriting(uri, str(uuid4()), access)
    size = commit_every or max(1, len(plan.tasks))
    results: list[RewriteResult] = []
    metrics: list[CompactionMetrics] = []
    conflict: CommitConflictError | None = None
    for start in range(0, len(plan.tasks), size):
        try:
            done = tasks.run(plan.tasks[start : start + size], rewriting.execute)
        except BaseException:
            rewriting.sweep(results)
            raise
        results += done
        try:
            metrics.append(commit_what_fits(dataset, plan, [one.move for one in done]))
        except CommitConflictError as error:
            conflict = error
    rewriting.sweep(results)
    if conflict is not None and not metrics:
        raise conflict
    return CompactionMetrics(*map(sum, zip(*map(astuple, metrics), strict=True)))


def excluding_others(
    tasks: Tasks,
    uri: str,
    where: str,
    options: Mapping[str, Any],
    storage_options: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return options of a compaction of those fragments that have rows of a condition."""
    version = TableVersion.latest(uri, storage_options)
    wanted = fragments_with(tasks, version, where)
    others = [one.id for one in version.snapshot.manifest.fragments if one.id not in wanted]
    excluded = [*(options.get("excluded_fragment_ids") or ()), *others]
    return {**options, "excluded_fragment_ids": excluded}


@dataclass(frozen=True)
class _Rewriting:
    """The tasks of one compaction; picklable."""

    uri: str
    uuid: str
    storage_options: Mapping[str, str] = field(repr=False)

    def execute(self, task: CompactionTask, attempt: Attempt) -> RewriteResult:
        """Execute one compaction task."""
        dataset = LanceDataset(self.uri, storage_options=self.storage_options)
        return task.execute(dataset, file_name_prefix=attempt.prefix(self.uuid))

    def sweep(self, results: Iterable[RewriteResult]) -> None:
        """Delete the files of attempts whose results the engine discarded."""
        new = (fragment for result in results for fragment in result.move.new)
        keep = {file.path for fragment in new for file in fragment.files}
        sweep(open_table(self.uri, self.storage_options), self.uuid, keep.__contains__)


def verify(
    tasks: Tasks,
    uri: str,
    storage_options: Mapping[str, str] | None = None,
    *,
    deep: bool = False,
) -> VerifyReport:
    """Check the structure of a table without changing it; damage raises no error.

    If `deep`, tasks also decode all pages of the latest version.
    """
    version = TableVersion.latest(uri, storage_options)
    found = check(version.snapshot, deep=False, all_versions=True)
    if deep:
        known = {one.path for one in found.faults if one.kind != "misread"}
        ids = [int(fragment.id) for fragment in version.snapshot.manifest.fragments]
        faults = tasks.run(ids, _Reading(version).decode)
        new = [one for one in faults if one is not None and one.path not in known]
        found = replace(found, is_deep=True).with_faults(new)
    return found


@dataclass(frozen=True)
class _Reading:
    """The tasks of one check; picklable."""

    version: TableVersion

    def decode(self, fragment_id: int, _: Attempt) -> Fault | None:
        """Decode one fragment and return the first fault."""
        return decode_fragment(self.version.snapshot, self.version.fragment(fragment_id))


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column of a table.

    Attributes:
        name: Name of the column.
        num_rows: Number of table rows, without deleted rows.
        null_count: Number of rows that are null in this column.
        min: The smallest value; None if there is none, or if the type has no order. NaN is ignored.
        max: The greatest value, with the same rules.
        distinct_count: Number of distinct values. From 1,024 on it is an estimate, within 6 % in 95
            of 100 cases. None for nested types.
    """

    name: str
    num_rows: int
    null_count: int
    min: Any
    max: Any
    distinct_count: int | None


def analyze(
    tasks: Tasks, version: TableVersion, columns: Sequence[str] | None = None
) -> list[ColumnStatistics]:
    """Read a version and compute the statistics of its columns, in the order of the given ones.

    ColumnNotFoundError is raised if there is no such column.
    """
    known = version.columns.names
    names = tuple(known if columns is None else columns)
    if unknown := [name for name in names if name not in known]:
        raise ColumnNotFoundError(f"no columns {unknown}; there are {known}")
    totals = dict.fromkeys(names, ColumnSummary())
    for part in tasks.run(fragment_groups(version), partial(_read, version, names)):
        totals = {name: total.joined(part[name]) for name, total in totals.items()}
    return [_statistics(name, total) for name, total in totals.items()]


def _read(
    version: TableVersion, columns: tuple[str, ...], fragment_ids: tuple[int, ...], _: Attempt
) -> dict[str, ColumnSummary]:
    return summarize(version.snapshot, columns, fragment_ids)


def _statistics(name: str, total: ColumnSummary) -> ColumnStatistics:
    distinct = None if total.distinct is None else total.distinct.count
    return ColumnStatistics(name, total.num_rows, total.null_count, total.min, total.max, distinct)
