"""Optimizations of indices: merge segments and rows that are not covered; one commit, or none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace

from pilum.arguments import require_count
from pilum.dataset.base import DatasetBase, commit_operation
from pilum.dataset.index_reports import num_rows_of
from pilum.dataset.index_requests import require_continuable
from pilum.dataset.segment_commits import commit_new
from pilum.errors import InvalidInputError
from pilum.progress_display import progress
from pilum.storage.local import durable_at_commit
from pilum.table.commit.operations.create_index import CreateIndex
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.indices.moved_rows import record_of_moves, segments_that_move
from pilum.table.indices.optimize import MergePlan, plan_optimization, run_optimization
from pilum.table.model.index_segments import IndexSegment
from pilum.table.read.snapshot import Snapshot

__all__ = ["commit_optimized", "optimization_plans", "optimize"]


def optimize(
    dataset: DatasetBase,
    names: Collection[str] | None,
    num_to_merge: int | None,
    *,
    retrain: bool,
) -> None:
    """Merge segments and add rows that are not covered; one commit, or none."""
    read = dataset.snapshot
    plans = optimization_plans(read, names, num_to_merge, retrain=retrain)
    if not plans:
        return
    num_rows = sum(num_rows_of(read, plan.fragments) for plan in plans)
    with durable_at_commit(read.store) as store:
        snapshot = replace(read, store=store)
        with progress("Optimizing", num_rows) as on_rows:
            new = run_optimization(snapshot, plans, on_rows)
        commit_optimized(dataset, snapshot, plans, new)


def optimization_plans(
    snapshot: Snapshot,
    names: Collection[str] | None,
    num_to_merge: int | None,
    *,
    retrain: bool,
) -> list[MergePlan]:
    """Check the arguments of an optimization, and plan it."""
    if isinstance(names, str):
        raise InvalidInputError(f"index_names: expected a list of names, found {names!r}")
    if num_to_merge is not None:
        num_to_merge = require_count("num_indices_to_merge", num_to_merge)
    plans = plan_optimization(snapshot, names, num_to_merge, retrain=retrain)
    if plans:
        require_continuable(snapshot)
    return plans


def commit_optimized(
    dataset: DatasetBase,
    snapshot: Snapshot,
    plans: Sequence[MergePlan],
    new: Sequence[IndexSegment],
) -> None:
    """Commit the segments of plans, which were made from a version.

    If no segment needs the moves that compactions recorded any more, the record is removed.
    """
    removed = tuple(segment.entry for plan in plans for segment in plan.merged)
    made_of = {one.dataset_version: snapshot.manifest for one in new}
    committed = commit_new(dataset, snapshot, CreateIndex(tuple(new), removed, made_of))
    _forget_moves(dataset, snapshot, committed, {one.uuid for one in new})


def _forget_moves(
    dataset: DatasetBase, made_of: Snapshot, committed: Snapshot, new: Collection[str]
) -> None:
    """Remove the record of moves if only new segments, which followed them, cover moved rows.

    It stays if a compaction has added moves since the version that the new segments are made of.
    """
    record, latest = record_of_moves(made_of), record_of_moves(committed)
    if record is None or latest is None or record.uuid != latest.uuid:
        return
    if not segments_that_move(committed) <= set(new):
        return
    with suppress(*NOT_COMMITTED):  # the next optimization removes it
        commit_operation(dataset, committed, CreateIndex(removed=(latest,), made_of={}))
