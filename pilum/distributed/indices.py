"""Indices built by tasks: segments are trained side by side and become visible with one commit.

driver    vectors: a sample ──▶ centroids and codebook, which all segments share
          groups of fragments without a segment ──▶ tasks: train one segment each, note it
          segments ──▶ one segment, if they are to be merged ──▶ one commit
                         │ a concurrent commit came first
                         └──▶ check again: segments that still fit are kept, the rest is trained

Segments travel as their entries for the manifest, in Base64. No version refers to their files
before the commit. Those of lost attempts are deleted, see `segment_folders.py`. The segments of a
named job stay when it fails, and its next run continues with them.

optimize    one task per index ──▶ merges segments, adds rows that are not covered ──▶ one commit
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import numpy as np
from pyroaring import BitMap

from pilum.arguments import optional_count
from pilum.dataset.index_builds import shared_models
from pilum.dataset.index_forms import IndexConfig
from pilum.dataset.index_optimization import commit_optimized, optimization_plans
from pilum.dataset.index_requests import require_creatable, type_and_parameters
from pilum.dataset.lance_dataset import LanceDataset
from pilum.dataset.metadata import Index
from pilum.dataset.segment_commits import commit_segments
from pilum.distributed.jobs import Attempt
from pilum.distributed.journal import Journal
from pilum.distributed.segment_folders import SegmentFolders
from pilum.distributed.tasks import Tasks
from pilum.errors import (
    CommitConflictError,
    CorruptFileError,
    InvalidInputError,
    VersionNotFoundError,
)
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2
from pilum.storage.base import Store
from pilum.storage.local import durable_at_commit
from pilum.table.commit.jobs import JOB_PROPERTY, Job
from pilum.table.commit.operations.create_index import changed_fragments
from pilum.table.commit.publish import NOT_COMMITTED
from pilum.table.indices.build import discard_segments
from pilum.table.indices.optimize import run_optimization
from pilum.table.indices.rows import existing_fragments, indexed_column
from pilum.table.model.base_paths import own_store
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import IndexSegment
from pilum.table.model.names import index_folder
from pilum.table.versions.history import load_version
from pilum.tracing import DATASET_EVENTS, emit

__all__ = ["IndexConfig", "create_index", "optimize_indices"]

_ROUNDS = 10
_TASK_ROWS = 1 << 23
_NOTE, _MODELS = "segment-", "models"


def create_index(
    tasks: Tasks,
    uri: str,
    column: str,
    kind: str | IndexConfig,
    parameters: Mapping[str, Any],
    *,
    name: str | None = None,
    replaces: bool = True,
    merges: bool = False,
    fragments_per_task: int | None = None,
    job: str | None = None,
    journal: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Build an index in tasks, commit it once, and return the version that has it.

    Args:
        tasks: The engine.
        uri: Location of the table.
        column: Name of the column, or the dotted path of a member of a struct.
        kind: The type, with or without parameters.
        parameters: Parameters of the type.
        name: Name of the index; None for the default.
        replaces: Whether an index of the name is replaced.
        merges: Whether the driver merges the segments into one.
        fragments_per_task: Number of fragments per segment; None for about eight million rows.
        job: Name of the job: if it is started again, it resumes.
        journal: Location of the journal of a named job; None for a folder of the table.
        storage_options: Options of the object store.

    Raises:
        CommitConflictError: If concurrent commits won in every attempt.
        InvalidInputError: If an argument is invalid, or the job name belongs to a different job.
            Other errors are those of `LanceDataset.create_scalar_index`.
    """
    optional_count("fragments_per_task", fragments_per_task, 1)
    if job is None and journal is not None:
        raise InvalidInputError("job: required with journal, which records its progress")
    type, given = type_and_parameters(kind, parameters)
    access = dict(storage_options or {})
    notes = None if job is None else Journal(uri, job, journal, access)
    dataset = LanceDataset(uri, storage_options=access)
    work = _Training(uri, 0, 0, SegmentFolders(), column, type.name, given, name, access, notes)
    run = _Run(tasks, dataset, work, replaces, merges, fragments_per_task, notes)
    return run.create()


@dataclass(frozen=True)
class _Training:
    """The inputs of a task apart from its fragments; picklable.

    Attributes:
        uri: Location of the table.
        version: The version to read.
        round: Number of the round of tasks within the call.
        folders: The folders of the segments.
        column: The column, or the path of a member.
        kind: Name of the type.
        parameters: Parameters of the type.
        name: Name of the index; None for the default.
        storage_options: Options of the object store.
        journal: Journal of a named job.
        models: Further parameters: what all segments have in common.
    """

    uri: str
    version: int
    round: int
    folders: SegmentFolders
    column: str
    kind: str
    parameters: Mapping[str, Any]
    name: str | None
    storage_options: Mapping[str, str] = field(repr=False)
    journal: Journal | None = None
    models: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def run(self, fragment_ids: tuple[int, ...], attempt: Attempt) -> str:
        """Train the segment of some fragments and return its entry."""
        dataset = LanceDataset(self.uri, self.version, storage_options=self.storage_options)
        segment = dataset.create_index_uncommitted(
            self.column,
            self.kind,
            self.name,
            replace=True,
            fragment_ids=fragment_ids,
            index_uuid=str(self.folders.uuid(attempt, self.round)),
            **{**self.parameters, **self.models},
        )
        entry = _encoded(segment)
        if self.journal is not None:
            self.journal.put_note(f"{_NOTE}{segment.uuid}", entry)
        return entry

    def facts(self) -> dict[str, Any]:
        """Return what identifies the work, as JSON has it."""
        return {
            "column": self.column,
            "index_type": self.kind,
            "name": self.name,
            "parameters": dict(self.parameters),
        }


@dataclass
class _Run:
    """One call, with its trained segments.

    Attributes:
        tasks: The engine.
        dataset: The table.
        work: The work of the tasks.
        replaces: Whether an index of the name is replaced.
        merges: Whether the segments are merged.
        fragments_per_task: Number of fragments per segment; None to go by their rows.
        journal: Journal in which a named job records its progress.
        trained: The segments that exist.
    """

    tasks: Tasks
    dataset: LanceDataset
    work: _Training
    replaces: bool
    merges: bool
    fragments_per_task: int | None
    journal: Journal | None
    trained: list[Index] = field(default_factory=list)

    def create(self) -> int:
        """Build the index and commit it."""
        if (done := self._done()) is not None:
            return done
        self._check()
        if self.journal is not None:
            self.journal.begin({**self.work.facts(), "merge": self.merges}, {})
            self.trained = self._noted(self.journal)
        self.work = replace(self.work, models=self._models())
        for number in range(_ROUNDS):
            try:
                return self._try(number)
            except CommitConflictError as error:
                if not error.retryable or number == _ROUNDS - 1:
                    self._give_up()
                    raise
                emit(DATASET_EVENTS, event="conflict", uri=self.dataset.uri)
        raise AssertionError  # the last round returns or raises

    def _try(self, number: int) -> int:
        """Train what is missing, and commit; after a conflict, the segments stay."""
        try:
            if number:
                self.dataset.checkout_latest()
                self._check()
            parts = self._segments(number)
            merges = self.merges and len(parts) > 1
            new = [self.dataset.merge_existing_index_segments(parts)] if merges else parts
        except BaseException:
            self._give_up()
            raise
        try:
            commit_segments(self.dataset, new[0].name, self.work.column, new, self._properties())
        except NOT_COMMITTED as error:
            self._discard(new if merges else ())
            if not isinstance(error, CommitConflictError):
                self._give_up()
            raise
        self._discard(parts if merges else ())
        self._sweep(new)
        return self._end(self.dataset.version)

    def _check(self) -> None:
        """Raise the errors of the arguments, and of the table as it is now."""
        work, snapshot = self.work, self.dataset.snapshot
        require_creatable(
            snapshot, work.column, work.kind, work.name, work.parameters, replaces=self.replaces
        )

    def _models(self) -> dict[str, Any]:
        """Train what all segments have in common; a named job does so once for all of its runs."""
        noted = None if self.journal is None else self.journal.note(_MODELS)
        if noted is not None:
            return {name: _model_of(note) for name, note in noted.items()}
        work = self.work
        found = shared_models(self.dataset.snapshot, work.column, work.kind, work.parameters)
        if self.journal is not None and found:
            notes = {name: _note_of(model) for name, model in found.items()}
            noted = self.journal.keep_note(_MODELS, notes)
            return {name: _model_of(note) for name, note in noted.items()}
        return found

    def _segments(self, number: int) -> list[Index]:
        """Return segments that cover all fragments, by their first fragment; train missing ones."""
        snapshot = self.dataset.snapshot
        kept, covered = self._kept()
        todo = [one for one in snapshot.manifest.fragments if one.id not in covered]
        groups = _groups(todo, self.fragments_per_task)
        if not groups and not kept:
            groups = [()]  # a table without rows: the index exists, and is empty
        work = replace(self.work, version=snapshot.manifest.version, round=number)
        new = [_decoded(entry) for entry in self.tasks.run(groups, work.run)]
        self.trained += new
        return sorted([*kept, *new], key=lambda one: min(one.fragment_ids, default=0))

    def _kept(self) -> tuple[list[Index], BitMap]:
        """Return the trained segments that still fit the table, and the fragments they cover."""
        kept, covered = [], BitMap()
        for segment in self.trained:
            fragments = self._lasting_fragments(segment) - covered
            if fragments:
                kept.append(replace(segment, fragment_ids=fragments))
                covered |= fragments
        return kept, covered

    def _lasting_fragments(self, segment: Index) -> BitMap:
        """Return the fragments of a segment whose values are those that it contains."""
        snapshot = self.dataset.snapshot
        leaf = indexed_column(snapshot, self.work.column).leaf
        if leaf is None or segment.fields != [leaf.id]:
            return BitMap()
        try:
            before = load_version(snapshot.store, segment.dataset_version)
        except VersionNotFoundError:  # cleaned up, so it is unknown what has changed
            return BitMap()
        changed = changed_fragments(before, snapshot.manifest, (leaf.id,))
        return BitMap(segment.fragment_ids) & existing_fragments(snapshot) - changed

    def _noted(self, journal: Journal) -> list[Index]:
        """Return the still existing segments of earlier runs; skip damaged notes."""
        store = own_store(self.dataset.snapshot.store)
        found = (_decoded_or_none(note) for note in journal.notes(_NOTE))
        return [one for one in found if one is not None and _is_complete(store, one)]

    def _properties(self) -> dict[str, str]:
        return {} if self.journal is None else {JOB_PROPERTY: Job(self.journal.job).property()}

    def _done(self) -> int | None:
        """Return the version that already contains the whole named job, if any."""
        if self.journal is None:
            return None
        version = Job(self.journal.job).held_by(self.dataset.snapshot.manifest.config)
        return None if version is None else self._end(version)

    def _end(self, version: int) -> int:
        if self.journal is not None:
            self.journal.remove()
        return version

    def _give_up(self) -> None:
        """Delete the segments of this call, except those that the next run continues with."""
        self._sweep([] if self.journal is None else self._noted(self.journal))

    def _sweep(self, kept: Iterable[Index]) -> None:
        """Delete the other segments of this call, also of attempts whose results do not count."""
        store = own_store(self.dataset.snapshot.store)
        self.work.folders.sweep(store, {one.uuid for one in kept})

    def _discard(self, segments: Iterable[Index]) -> None:
        discard_segments(self.dataset.snapshot, [one.to_table() for one in segments])


def optimize_indices(
    tasks: Tasks,
    uri: str,
    names: Collection[str] | None = None,
    num_to_merge: int | None = None,
    *,
    retrain: bool = False,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Add rows to indices and merge their segments, in one task per index; return the version.

    The arguments and errors are those of `LanceDataset.optimize.optimize_indices`.
    """
    access = dict(storage_options or {})
    dataset = LanceDataset(uri, storage_options=access)
    plans = optimization_plans(dataset.snapshot, names, num_to_merge, retrain=retrain)
    if not plans:
        return dataset.version
    store, folders = own_store(dataset.snapshot.store), SegmentFolders()
    work = _Optimizing(uri, dataset.version, folders, num_to_merge, retrain, access)
    try:
        entries = tasks.run([plan.segments[-1].name for plan in plans], work.run)
    except BaseException:
        folders.sweep(store, ())
        raise
    new = [_decoded(entry).to_table() for entry in entries]
    try:
        commit_optimized(dataset, dataset.snapshot, plans, new)
    except NOT_COMMITTED:
        folders.sweep(store, ())
        raise
    folders.sweep(store, {one.uuid for one in new})
    return dataset.version


@dataclass(frozen=True)
class _Optimizing:
    """The inputs of a task apart from the index; picklable.

    Attributes:
        uri: Location of the table.
        version: The version to read.
        folders: The folders of the segments.
        num_to_merge: Number of segments to merge; None for the default.
        retrain: Whether all rows are read again.
        storage_options: Options of the object store.
    """

    uri: str
    version: int
    folders: SegmentFolders
    num_to_merge: int | None
    retrain: bool
    storage_options: Mapping[str, str] = field(repr=False)

    def run(self, name: str, attempt: Attempt) -> str:
        """Write the new segment of an index and return its entry."""
        dataset = LanceDataset(self.uri, self.version, storage_options=self.storage_options)
        read = dataset.snapshot
        plans = optimization_plans(read, [name], self.num_to_merge, retrain=self.retrain)
        with durable_at_commit(read.store) as store:
            (new,) = run_optimization(
                replace(read, store=store), plans, uuids=[self.folders.uuid(attempt)]
            )
        return _encoded(Index.from_table(new))


def _groups(fragments: Sequence[Fragment], size: int | None) -> list[tuple[int, ...]]:
    """Group the ids of fragments: by their number, or by about `_TASK_ROWS` rows."""
    if size is not None:
        keys: Iterable[int] = (number // size for number in range(len(fragments)))
    else:
        starts = accumulate((one.num_rows for one in fragments), initial=0)
        keys = (start // _TASK_ROWS for start in starts)
    keyed = groupby(zip(keys, fragments, strict=False), key=itemgetter(0))
    return [tuple(int(one.id) for _, one in group) for _, group in keyed]


def _is_complete(store: Store, segment: Index) -> bool:
    """Return whether the files of a segment exist and have their sizes."""
    sizes = {entry.name: entry.size for entry in store.list(index_folder(segment.uuid))}
    return all(sizes.get(file.path) == file.size_bytes for file in segment.files or ())


def _note_of(model: Any) -> Any:
    """Return a model as JSON has it: an array as its bytes."""
    if not isinstance(model, np.ndarray):
        return model
    data = b64encode(model.tobytes()).decode()
    return {"shape": model.shape, "dtype": str(model.dtype), "data": data}


def _model_of(note: Any) -> Any:
    """Return the model of a note.

    Raises:
        CorruptFileError: If it is none.
    """
    if not isinstance(note, dict):
        return note
    try:
        flat = np.frombuffer(b64decode(note["data"]), np.dtype(note["dtype"]))
        return flat.reshape(note["shape"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"the models of a job: {error}", f"{_MODELS}.json") from error


def _encoded(segment: Index) -> str:
    return b64encode(segment.to_table().message.SerializeToString()).decode()


def _decoded(entry: str) -> Index:
    message = parse_message(table_pb2.IndexMetadata, b64decode(entry))
    return Index.from_table(IndexSegment(message))


def _decoded_or_none(note: Any) -> Index | None:
    try:
        return _decoded(note)
    except (TypeError, ValueError, CorruptFileError):
        return None
