"""Compaction in steps that can be taken apart: plan here, execute anywhere, commit here.

plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000_000})
results = [task.execute(dataset) for task in plan.tasks]        in other processes, if need be
Compaction.commit(dataset, results)

Plans, tasks and results are plain values: they pickle, and have a JSON form.
"""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pilum.dataset.base import DatasetBase
from pilum.dataset.compaction_options import (
    options_from_json,
    options_to_json,
    resolve_options,
)
from pilum.dataset.metadata import FragmentMetadata
from pilum.errors import (
    CommitConflictError,
    CommitError,
    InvalidInputError,
    UnsupportedFeatureError,
    UnsupportedFormatError,
)
from pilum.progress import progress
from pilum.table.compaction import commit_moves, discard_moves, rewrite_all, rewrite_fragments
from pilum.table.compaction_plan import CompactionOptions, plan_compaction
from pilum.table.fragment import Fragment
from pilum.table.manifest import Manifest
from pilum.table.reuse_index import Coverage, Move
from pilum.table.snapshot import Snapshot

__all__ = ["Compaction", "CompactionMetrics", "CompactionPlan", "CompactionTask", "RewriteResult"]


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """What a compaction did.

    Attributes:
        fragments_removed: Fragments that others took the place of.
        fragments_added: New fragments.
        files_removed: Data and deletion files that the new version does not need.
        files_added: New data files.
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def of(cls, moves: Iterable[Move]) -> CompactionMetrics:
        """Counts."""
        moves = list(moves)
        old = [fragment for move in moves for fragment in move.old]
        new = [fragment for move in moves for fragment in move.new]
        return cls(len(old), len(new), sum(map(_num_files, old)), sum(map(_num_files, new)))


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """Fragments that become new ones together.

    Attributes:
        read_version: The version that has them.
        sources: The fragments, in scan order.
        options: How to write.
    """

    read_version: int
    sources: tuple[Fragment, ...]
    options: CompactionOptions

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.sources]

    def execute(self, dataset: DatasetBase) -> RewriteResult:
        """Writes the new files; the table does not change.

        Args:
            dataset: The table, at any version.

        Raises:
            VersionNotFoundError: If the version of the plan is gone.
            CorruptFileError: If a file is damaged.
        """
        snapshot = dataset.snapshot
        if snapshot.manifest.version != self.read_version:
            snapshot = Snapshot.at(snapshot.store, self.read_version, snapshot.session)
        move = rewrite_fragments(snapshot, self.sources, self.options)
        return RewriteResult(self.read_version, move)

    def json(self) -> str:
        """The task as JSON."""
        return jsons.dumps(
            {
                "task": _task_json(self.sources),
                "read_version": self.read_version,
                "options": options_to_json(self.options),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Reads what `json` wrote.

        Raises:
            InvalidInputError: If it is something else.
        """
        values = _values(json, "task", "read_version", "options")
        return CompactionTask(
            _version(values), _sources(values["task"]), options_from_json(values["options"])
        )


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What a compaction will do.

    Attributes:
        read_version: The version that was looked at.
        tasks: Independent of each other.
        options: How to write.
    """

    read_version: int
    tasks: Sequence[CompactionTask]
    options: CompactionOptions

    def num_tasks(self) -> int:
        """How many tasks there are."""
        return len(self.tasks)

    def json(self) -> str:
        """The plan as JSON."""
        return jsons.dumps(
            {
                "tasks": [_task_json(task.sources) for task in self.tasks],
                "read_version": self.read_version,
                "options": options_to_json(self.options),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """Reads what `json` wrote.

        Raises:
            InvalidInputError: If it is something else.
        """
        values = _values(json, "tasks", "read_version", "options")
        version, options = _version(values), options_from_json(values["options"])
        tasks = [CompactionTask(version, _sources(task), options) for task in values["tasks"]]
        return CompactionPlan(version, tasks, options)

    def __repr__(self) -> str:
        return (
            f"CompactionPlan(read_version={self.read_version}, "
            f"tasks=<{self.num_tasks()} compaction tasks>)"
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What a task wrote; to be committed.

    Attributes:
        read_version: The version that has the old fragments.
        move: Old and new fragments.
    """

    read_version: int
    move: Move

    @property
    def original_fragments(self) -> list[FragmentMetadata]:
        """The fragments that others take the place of."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.move.old]

    @property
    def new_fragments(self) -> list[FragmentMetadata]:
        """Those others; their ids are assigned by the commit."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.move.new]

    @property
    def metrics(self) -> CompactionMetrics:
        """What the task did."""
        return CompactionMetrics.of([self.move])

    def json(self) -> str:
        """The result as JSON."""
        return jsons.dumps(
            {
                "metrics": _metrics_json(self.metrics),
                "new_fragments": [fragment.to_json() for fragment in self.move.new],
                "read_version": self.read_version,
                "original_fragments": [fragment.to_json() for fragment in self.move.old],
            }
        )

    @staticmethod
    def from_json(json: str) -> RewriteResult:
        """Reads what `json` wrote.

        Raises:
            InvalidInputError: If it is something else.
        """
        values = _values(json, "read_version", "original_fragments", "new_fragments")
        old = tuple(map(Fragment.from_json, values["original_fragments"]))
        new = tuple(map(Fragment.from_json, values["new_fragments"]))
        return RewriteResult(_version(values), Move(old, new))


class Compaction:
    """The steps of a compaction."""

    @staticmethod
    def plan(dataset: DatasetBase, options: Mapping[str, Any]) -> CompactionPlan:
        """Decides which fragments of the dataset's version become new ones together.

        Args:
            dataset: The table.
            options: Keywords of `DatasetOptimizer.compact_files`.

        Raises:
            UnsupportedFeatureError: If the table, or one of its indices, cannot be compacted.
            InvalidInputError: If an option makes no sense.
        """
        snapshot = dataset.snapshot
        manifest, store = snapshot.manifest, snapshot.store
        manifest.require_continuable(f"{store.uri}, version {manifest.version}")
        resolved = resolve_options(manifest, options)
        tasks = [
            CompactionTask(manifest.version, fragments, resolved)
            for fragments in plan_compaction(store, manifest, resolved)
        ]
        _require_index_remap(snapshot, tasks, resolved)
        return CompactionPlan(manifest.version, tasks, resolved)

    @staticmethod
    def execute(dataset: DatasetBase, options: Mapping[str, Any]) -> CompactionMetrics:
        """Plans, executes and commits; the dataset moves to the new version.

        Raises:
            As `DatasetOptimizer.compact_files`.
        """
        plan = Compaction.plan(dataset, options)
        snapshot = dataset.snapshot
        sources = [task.sources for task in plan.tasks]
        num_rows = sum(fragment.num_rows for task in sources for fragment in task)
        with progress("Compacting", num_rows) as on_rows:
            moves = rewrite_all(snapshot, sources, plan.options, on_rows)
        return _commit_what_fits(dataset, plan, moves)

    @staticmethod
    def commit(
        dataset: DatasetBase,
        rewrites: Sequence[RewriteResult],
        options: Mapping[str, Any] | None = None,
    ) -> CompactionMetrics:
        """Publishes what tasks wrote, as one version; the dataset moves to it.

        Args:
            dataset: The table, at any version.
            rewrites: Results of tasks of one plan; not all of them are needed.
            options: `defer_index_remap` counts: True records moves for indices to come.

        Raises:
            CommitConflictError: If others changed one of the fragments meanwhile. Nothing is
                committed then, and the new files stay.
            CommitContentionError: If every attempt lost against another commit.
            InvalidInputError: If the results are of several plans, or not results at all.
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


def _commit_what_fits(
    dataset: DatasetBase, plan: CompactionPlan, moves: list[Move]
) -> CompactionMetrics:
    """Commits; moves of fragments that others changed meanwhile are given up."""
    version, left = plan.read_version, moves
    while left:
        try:
            _publish(dataset, version, left, plan.options)
            break
        except (CommitError, InvalidInputError, UnsupportedFormatError) as error:
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


def _num_files(fragment: Fragment) -> int:
    return len(fragment.files) + (fragment.deletion_file is not None)


def _metrics_json(metrics: CompactionMetrics) -> dict[str, int]:
    return {
        "fragments_removed": metrics.fragments_removed,
        "fragments_added": metrics.fragments_added,
        "files_removed": metrics.files_removed,
        "files_added": metrics.files_added,
    }


def _task_json(fragments: Iterable[Fragment]) -> dict[str, Any]:
    return {"fragments": [fragment.to_json() for fragment in fragments]}


def _values(text: str, *names: str) -> dict[str, Any]:
    try:
        values = jsons.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"not JSON: {text!r:.200} ({error})") from error
    if not isinstance(values, dict) or not set(names) <= values.keys():
        raise InvalidInputError(f"expected {', '.join(names)}, found {text!r:.200}")
    return values


def _version(values: Mapping[str, Any]) -> int:
    version = values["read_version"]
    if type(version) is not int or version < 1:
        raise InvalidInputError(f"read_version: {version!r}")
    return version


def _sources(values: Any) -> tuple[Fragment, ...]:
    if not isinstance(values, Mapping) or not isinstance(values.get("fragments"), list):
        raise InvalidInputError(f"not a task: {values!r:.200}")
    return tuple(map(Fragment.from_json, values["fragments"]))
