"""Compaction in separate steps: plan in one process, execute anywhere, commit in one process.

plan = Compaction.plan(dataset, {"target_rows_per_fragment": 1_000_000})
results = [task.execute(dataset) for task in plan.tasks]        in other processes, if needed
Compaction.commit(dataset, results)

Plans, tasks and results are plain values: they can be pickled and compared, and have a JSON form.

An option that is not given is taken from the settings of the table, or has its default value:

    keyword argument  ──▶  table setting lance.compaction.{keyword}  ──▶  default
"""

from __future__ import annotations

import json as jsons
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from pilum.arguments import require_count, require_known
from pilum.dataset.base import DatasetBase
from pilum.dataset.metadata import FragmentMetadata
from pilum.errors import CommitConflictError, InvalidInputError, UnsupportedFeatureError
from pilum.format.version import FileVersion
from pilum.progress_display import progress
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.indices.segments import segments
from pilum.table.model.fragment import Fragment
from pilum.table.model.manifest import Manifest
from pilum.table.model.reuse_index import Coverage, Move
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.compaction import CompactionOptions as Options
from pilum.table.upkeep.compaction import (
    commit_moves,
    discard_moves,
    plan_compaction,
    require_consistent,
    rewrite_all,
    rewrite_fragments,
)
from pilum.table.upkeep.misread_nulls import fragments_with_misread_nulls

__all__ = [
    "Compaction",
    "CompactionMetrics",
    "CompactionPlan",
    "CompactionTask",
    "RewriteResult",
    "commit_what_fits",
]

_PREFIX = "lance.compaction."
_HINT = "binary_copy_read_batch_bytes"
"""An option without effect, because rows are always re-encoded."""
_MODES = ("reencode", "try_binary_copy", "force_binary_copy")


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
    options: Options

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
        return _to_json("task", _task_json(self.sources), self.read_version, self.options)

    @staticmethod
    def from_json(json: str) -> CompactionTask:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text has another form.
        """
        task, version, options = _from_json(json, "task")
        return CompactionTask(version, _sources(task), options)


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
    options: Options

    def num_tasks(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    def json(self) -> str:
        """Return the plan as JSON."""
        tasks = [_task_json(task.sources) for task in self.tasks]
        return _to_json("tasks", tasks, self.read_version, self.options)

    @staticmethod
    def from_json(json: str) -> CompactionPlan:
        """Read the JSON form that `json` returns.

        Raises:
            InvalidInputError: If the text has another form.
        """
        tasks, version, options = _from_json(json, "tasks")
        if not isinstance(tasks, list):
            raise InvalidInputError(f"not a plan: {json:.200}")
        planned = [CompactionTask(version, _sources(task), options) for task in tasks]
        return CompactionPlan(version, planned, options)

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
                "metrics": asdict(self.metrics),
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
        return RewriteResult(_read_version(values), Move(old, new))


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
        return Compaction._plan(dataset.snapshot, options)

    @staticmethod
    def _plan(snapshot: Snapshot, options: Mapping[str, Any]) -> CompactionPlan:
        manifest, store = snapshot.manifest, snapshot.store
        manifest.require_continuable(f"{store.uri}, version {manifest.version}")
        resolved = resolve_options(manifest, options)
        find_faults = partial(fragments_with_misread_nulls, snapshot)
        tasks = [
            CompactionTask(manifest.version, fragments, resolved)
            for fragments in plan_compaction(store, manifest, resolved, find_faults)
        ]
        _require_index_remap(snapshot, tasks, resolved)
        return CompactionPlan(manifest.version, tasks, resolved)

    @staticmethod
    def execute(dataset: DatasetBase, options: Mapping[str, Any]) -> CompactionMetrics:
        """Plan, execute and commit a compaction; the dataset moves to the new version.

        Raises:
            As `DatasetOptimizer.compact_files`.
        """
        snapshot = dataset.snapshot
        plan = Compaction._plan(snapshot, options)
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

    The files of dropped moves are deleted. CommitConflictError is raised if no move is left.
    """
    version, left = plan.read_version, moves
    while left:
        try:
            _publish(dataset, version, left, plan.options)
            break
        except NOT_COMMITTED as error:
            now = dataset.snapshot
            store = now.store
            latest = Snapshot.latest(store, now.session).manifest
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


def _publish(dataset: DatasetBase, version: int, moves: list[Move], options: Options) -> None:
    before = dataset.snapshot
    manifest = commit_moves(before.store, version, moves, records_moves=options.records_moves)
    dataset.advance(replace(before, manifest=manifest))


def _require_index_remap(
    snapshot: Snapshot, tasks: Sequence[CompactionTask], options: Options
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
    readable = {one.entry.uuid for one in segments(snapshot)}
    if names := Coverage(snapshot.store, snapshot.manifest).needs(moves, readable):
        raise UnsupportedFeatureError(
            f"defer_index_remap=False: the indices {names} cannot be rewritten; leave it out to "
            "record where their rows were moved"
        )


class _Option(NamedTuple):
    """One keyword argument, which `check` converts; its first argument names the option.

    `parse` reads the setting `lance.compaction.{name}` of a table; None if it has none. The
    attribute of `Options` may have another name.
    """

    check: Callable[[str, Any], Any]
    parse: Callable[[str], Any] | None = int
    attribute: str | None = None


def resolve_options(manifest: Manifest, options: Mapping[str, Any]) -> Options:
    """Check keyword arguments and complete them with settings of the table."""
    require_known("compactions have", options, {*_OPTIONS, _HINT})
    given = {name: value for name, value in options.items() if value is not None}
    configured = {
        name: _parsed(name, option.parse, manifest.config[_PREFIX + name])
        for name, option in _OPTIONS.items()
        if option.parse and _PREFIX + name in manifest.config and name not in given
    }
    resolved = _checked({**configured, **given})
    require_consistent(resolved, manifest)
    return resolved


def _checked(values: Mapping[str, Any]) -> Options:
    checked = {
        option.attribute or name: option.check(name, values[name])
        for name, option in _OPTIONS.items()
        if name in values
    }
    checked.pop("compaction_mode", None)  # rows are always re-encoded
    return Options(**checked)


def _parsed(name: str, parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except (ValueError, KeyError) as error:
        raise InvalidInputError(f"setting {_PREFIX}{name} of the table: {text!r}") from error


def _options_json(options: Options) -> dict[str, Any]:
    values = {
        name: getattr(options, option.attribute or name)
        for name, option in _OPTIONS.items()
        if name != "compaction_mode"
    }
    version = options.version
    values["data_storage_version"] = None if version is None else str(version)
    values["excluded_fragment_ids"] = list(options.excluded_fragment_ids)
    return values


def _options_from_json(values: Any) -> Options:
    if not isinstance(values, Mapping):
        raise InvalidInputError(f"not options of a compaction: {values!r}")
    return _checked({name: value for name, value in values.items() if value is not None})


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


def _mode(name: str, value: Any) -> None:
    if value not in _MODES:
        raise InvalidInputError(f"{name}: expected one of {', '.join(_MODES)}, found {value!r}")
    if value == "force_binary_copy":
        raise UnsupportedFeatureError(f"{name}='force_binary_copy': rows are always rewritten")


def _parse_truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


_OPTIONS = {
    "target_rows_per_fragment": _Option(_count),
    "target_bytes_per_fragment": _Option(_count),
    "max_rows_per_group": _Option(_count),
    "max_bytes_per_file": _Option(_count),
    "materialize_deletions": _Option(_truth, _parse_truth),
    "materialize_deletions_threshold": _Option(_share, float),
    "defer_index_remap": _Option(_truth, _parse_truth, "records_moves"),
    "num_threads": _Option(_count, None),
    "batch_size": _Option(_count),
    "memory_limit": _Option(_count, None, "memory_limit_bytes"),
    "compaction_mode": _Option(_mode, str),
    "max_source_fragments": _Option(require_count),
    "max_source_rows": _Option(require_count),
    "max_source_bytes": _Option(require_count),
    "excluded_fragment_ids": _Option(_ids, None),
    "data_storage_version": _Option(_version, str, "version"),
}
"""The options that have an effect, in the order in which they are checked."""


def _num_files(fragment: Fragment) -> int:
    return len(fragment.files) + (fragment.deletion_file is not None)


def _task_json(fragments: Iterable[Fragment]) -> dict[str, Any]:
    return {"fragments": [fragment.to_json() for fragment in fragments]}


def _to_json(kind: str, value: Any, version: int, options: Options) -> str:
    """Return a plan or a task as JSON."""
    values = {kind: value, "read_version": version, "options": _options_json(options)}
    return jsons.dumps(values)


def _from_json(text: str, kind: str) -> tuple[Any, int, Options]:
    """Return what `_to_json` was given."""
    values = _values(text, kind, "read_version", "options")
    return values[kind], _read_version(values), _options_from_json(values["options"])


def _values(text: str, *names: str) -> dict[str, Any]:
    try:
        values = jsons.loads(text)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"not JSON: {text!r:.200} ({error})") from error
    if not isinstance(values, dict) or not set(names) <= values.keys():
        raise InvalidInputError(f"expected {', '.join(names)}, found {text!r:.200}")
    return values


def _read_version(values: Mapping[str, Any]) -> int:
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
