"""The values of a compaction: the plan, its tasks, their results and the metrics.

They are plain values that can be pickled and compared and have a JSON form, so tasks can run
anywhere.
"""

from __future__ import annotations

import json as jsons
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pilum.dataset.base import DatasetBase
from pilum.dataset.compaction_options import options_from_json, options_to_json
from pilum.dataset.metadata import FragmentMetadata
from pilum.errors import InvalidInputError
from pilum.table.model.fragment import Fragment
from pilum.table.model.reuse_index import Move
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.compaction import CompactionOptions, rewrite_fragments

__all__ = ["CompactionMetrics", "CompactionPlan", "CompactionTask", "RewriteResult"]


@dataclass(frozen=True, slots=True)
class CompactionMetrics:
    """The metrics of a compaction.

    Attributes:
        fragments_removed: Number of replaced fragments.
        fragments_added: Number of new fragments.
        files_removed: Number of data and deletion files that the new version does not need.
        files_added: Number of new data files.
    """

    fragments_removed: int = 0
    fragments_added: int = 0
    files_removed: int = 0
    files_added: int = 0

    @classmethod
    def of(cls, moves: Iterable[Move]) -> CompactionMetrics:
        """Count the fragments and files of moves."""
        moves = list(moves)
        old = [fragment for move in moves for fragment in move.old]
        new = [fragment for move in moves for fragment in move.new]
        return cls(len(old), len(new), sum(map(_num_files, old)), sum(map(_num_files, new)))


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """A group of fragments that are rewritten together.

    Attributes:
        read_version: The version that contains the fragments.
        sources: The fragments, in scan order.
        options: Options of the compaction.
    """

    read_version: int
    sources: tuple[Fragment, ...]
    options: CompactionOptions

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments to rewrite."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.sources]

    def execute(
        self, dataset: DatasetBase, *, file_name_prefix: str | None = None
    ) -> RewriteResult:
        """Write the new files; the table does not change.

        Args:
            dataset: The table, at any version.
            file_name_prefix: Prefix of the file names, which identifies the writer.

        Raises:
            VersionNotFoundError: If the version of the plan no longer exists.
            CorruptFileError: If a file is damaged.
        """
        snapshot = dataset.snapshot
        if snapshot.manifest.version != self.read_version:
            snapshot = Snapshot.at(snapshot.store, self.read_version, snapshot.session)
        move = rewrite_fragments(
            snapshot, self.sources, self.options, file_name_prefix=file_name_prefix
        )
        return RewriteResult(self.read_version, move)

    def json(self) -> str:
        """Return the task as JSON."""
        return jsons.dumps(
            {
                "task": _task_json(self.sources),
                "read_version": self.read_version,
                "options": options_to_json(self.options),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text has another form.
        """
        values = _values(json, "task", "read_version", "options")
        return CompactionTask(
            _version(values), _sources(values["task"]), options_from_json(values["options"])
        )


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """The plan of a compaction.

    Attributes:
        read_version: The version that was planned for.
        tasks: Tasks, which are independent of each other.
        options: Options of the compaction.
    """

    read_version: int
    tasks: Sequence[CompactionTask]
    options: CompactionOptions

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return the plan as JSON."""
        return jsons.dumps(
            {
                "tasks": [_task_json(task.sources) for task in self.tasks],
                "read_version": self.read_version,
                "options": options_to_json(self.options),
            }
        )

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text has another form.
        """
        values = _values(json, "tasks", "read_version", "options")
        version, options = _version(values), options_from_json(values["options"])
        if not isinstance(values["tasks"], list):
            raise InvalidInputError(f"not a plan: {json:.200}")
        tasks = [CompactionTask(version, _sources(task), options) for task in values["tasks"]]
        return CompactionPlan(version, tasks, options)

    def __repr__(self) -> str:
        return (
            f"CompactionPlan(read_version={self.read_version}, "
            f"tasks=<{self.num_tasks()} compaction tasks>)"
        )


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """The result of a task, to be committed.

    Attributes:
        read_version: The version that contains the old fragments.
        move: The old and new fragments.
    """

    read_version: int
    move: Move

    @property
    def original_fragments(self) -> list[FragmentMetadata]:
        """The fragments that are replaced."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.move.old]

    @property
    def new_fragments(self) -> list[FragmentMetadata]:
        """The fragments that replace them; the commit assigns their ids."""
        return [FragmentMetadata.from_table(fragment) for fragment in self.move.new]

    @property
    def metrics(self) -> CompactionMetrics:
        """The metrics of the task."""
        return CompactionMetrics.of([self.move])

    def json(self) -> str:
        """Return the result as JSON."""
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
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text has another form.
        """
        values = _values(json, "read_version", "original_fragments", "new_fragments")
        old, new = _fragments(values["original_fragments"]), _fragments(values["new_fragments"])
        return RewriteResult(_version(values), Move(old, new))


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
    if not isinstance(values, Mapping) or "fragments" not in values:
        raise InvalidInputError(f"not a task: {values!r:.200}")
    return _fragments(values["fragments"])


def _fragments(values: Any) -> tuple[Fragment, ...]:
    if not isinstance(values, list):
        raise InvalidInputError(f"expected a list of fragments, found {values!r:.200}")
    return tuple(map(Fragment.from_json, values))
