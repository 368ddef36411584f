"""Compaction in separate steps: plan in one process, execute anywhere, commit in one process.

plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000_000})
results = [task.execute(dataset) for task in plan.tasks]        in other processes, if needed
Compaction.commit(dataset, results)

Plans, tasks and results are plain values: they can be pickled, and have a JSON form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pilum.dataset.base import DatasetBase
from pilum.dataset.compaction_options import resolve_options
from pilum.dataset.compaction_tasks import (
    CompactionMetrics,
    CompactionPlan,
    CompactionTask,
    RewriteResult,
)
from pilum.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from pilum.progress import progress
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.model.manifest import Manifest
from pilum.table.model.reuse_index import Coverage, Move
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.compaction import (
    CompactionOptions,
    commit_moves,
    discard_moves,
    plan_compaction,
    rewrite_all,
)
from pilum.table.upkeep.misread_nulls import fragments_with_misread_nulls

__all__ = ["Compaction", "commit_what_fits"]


class Compaction:
    """The steps of a compaction."""

    @staticmethod
    def plan(dataset: DatasetBase, options: Mapping[str, Any]) -> CompactionPlan:
        """Plan which fragments of the dataset's version are rewritten together.

        Args:
            dataset: The table.
            options: Keyword arguments of `DatasetOptimizer.compact_files`.

        Raises:
            UnsupportedFeatureError: If the table or one of its indices cannot be compacted.
            InvalidInputError: If an option is invalid.
        """
        snapshot = dataset.snapshot
        manifest, store = snapshot.manifest, snapshot.store
        manifest.require_continuable(f"{store.uri}, version {manifest.version}")
        resolved = resolve_options(manifest, options)
        to_mend = fragments_with_misread_nulls(snapshot)
        tasks = [
            CompactionTask(manifest.version, fragments, resolved)
            for fragments in plan_compaction(store, manifest, resolved, to_mend)
        ]
        _require_index_remap(snapshot, tasks, resolved)
        return CompactionPlan(manifest.version, tasks, resolved)

    @staticmethod
    def execute(dataset: DatasetBase, options: Mapping[str, Any]) -> CompactionMetrics:
        """Plan, execute and commit a compaction; the dataset moves to the new version.

        Raises:
            As `DatasetOptimizer.compact_files`.
        """
        plan = Compaction.plan(dataset, options)
        snapshot = dataset.snapshot
        sources = [task.sources for task in plan.tasks]
        num_rows = sum(fragment.num_rows for task in sources for fragment in task)
        with progress("Compacting", num_rows) as on_rows:
            moves = rewrite_all(snapshot, sources, plan.options, on_rows)
        return commit_what_fits(dataset, plan, moves)

    @staticmethod
    def commit(
        dataset: DatasetBase,
        rewrites: Sequence[RewriteResult],
        options: Mapping[str, Any] | None = None,
    ) -> CompactionMetrics:
        """Commit the results of tasks as one version; the dataset moves to it.

        Args:
            dataset: The table, at any version.
            rewrites: Results of tasks of one plan; a subset is allowed.
            options: Only `defer_index_remap` is used: True records row moves for later index
                remapping.

        Raises:
            CommitConflictError: If a concurrent commit changed one of the fragments. Nothing is
                committed then, and the new files remain.
            CommitContentionError: If every attempt lost to a concurrent commit.
            InvalidInputError: If the results belong to several plans, or are not results.
        """
        results = list(rewrites)
        if not all(isinstance(result, RewriteResult) for result in results):
            raise InvalidInputError(f"rewrites: expected a list of RewriteResult, found {rewrites}")
        if not results:
            return CompactionMetrics()
        versions = {result.read_version for result in results}
        if len(versions) > 1:
            raise InvalidInputError(f"results of plans for the versions {sorted(versions)}")
        resolved = resolve_options(dataset.snapshot.manifest, options or {})
        moves = [result.move for result in results]
        _publish(dataset, versions.pop(), moves, resolved)
        return CompactionMetrics.of(moves)


def commit_what_fits(
    dataset: DatasetBase, plan: CompactionPlan, moves: list[Move]
) -> CompactionMetrics:
    """Commit the moves, without those whose fragments were changed concurrently.

    The files of dropped moves are deleted.

    Raises:
        CommitConflictError: If no move is left to commit.
        CommitContentionError: If every attempt lost to a concurrent commit.
    """
    version, left = plan.read_version, moves
    while left:
        try:
            _publish(dataset, version, left, plan.options)
            break
        except NOT_COMMITTED as error:
            store = dataset.snapshot.store
            latest = Snapshot.latest(store, dataset.snapshot.session).manifest
            fitting = [move for move in left if _is_current(move, latest)]
            is_hopeless = not isinstance(error, CommitConflictError) or not error.retryable
            if is_hopeless or len(fitting) in {0, len(left)}:
                discard_moves(store, left)
                raise
            discard_moves(store, [move for move in left if move not in fitting])
            version, left = latest.version, fitting
    return CompactionMetrics.of(left)


def _is_current(move: Move, manifest: Manifest) -> bool:
    current = {fragment.id: fragment for fragment in manifest.fragments}
    return all(current.get(fragment.id) == fragment for fragment in move.old)


def _publish(
    dataset: DatasetBase, version: int, moves: list[Move], options: CompactionOptions
) -> None:
    before = dataset.snapshot
    records = bool(options.records_moves)
    manifest = commit_moves(before.store, version, moves, records_moves=records)
    dataset.advance(replace(before, manifest=manifest))


def _require_index_remap(
    snapshot: Snapshot, tasks: Sequence[CompactionTask], options: CompactionOptions
) -> None:
    if snapshot.has_stable_row_ids:
        if options.records_moves:
            raise UnsupportedFeatureError(
                "defer_index_remap=True: the format cannot record where rows with stable ids went; "
                "leave it out"
            )
        return
    if options.records_moves is not False:
        return
    moves = [Move(task.sources, ()) for task in tasks]
    if Coverage(snapshot.store, snapshot.manifest).needs(moves):
        raise UnsupportedFeatureError(
            "defer_index_remap=False: files of indices cannot be written anew; leave it out to "
            "record for them where rows went"
        )
