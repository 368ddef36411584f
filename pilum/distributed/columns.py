"""Columns computed by tasks; finished files are kept, and committed when they fit the table.

driver    fragments without a file ──▶ tasks: read what is needed, compute, write one file each
          files ──▶ one commit, or one per `commit_every` fragments
                      │ concurrent commits came first
                      └──▶ check again: files that still fit are kept, the rest is computed
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from uuid import uuid4

from pilum.arguments import optional_count
from pilum.distributed.column_files import (
    ColumnFile,
    ColumnValues,
    added_columns,
    replaced_columns,
    swapped_columns,
    write_column_file,
)
from pilum.distributed.jobs import Attempt
from pilum.distributed.journal import Journal
from pilum.distributed.sweeping import sweep
from pilum.distributed.tasks import Tasks
from pilum.distributed.versions import TableVersion
from pilum.errors import CommitConflictError, InvalidInputError
from pilum.format.fields import FieldId
from pilum.format.schema import Schema
from pilum.table.changes.add_columns import add_null_columns, merge_of
from pilum.table.commit.jobs import JOB_PROPERTY, Job
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.data_replacement import DataReplacement, Replacement
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import clean_up_if_due
from pilum.table.versions.commit_handler import open_table
from pilum.tracing import DATASET_EVENTS, JOB_EVENTS, emit

__all__ = ["ColumnValues", "compute_columns"]

_ROUNDS = 10

Plan: TypeAlias = dict[str, str | None]


@dataclass(frozen=True)
class _Work:
    """The inputs of a task apart from its fragment; picklable."""

    version: TableVersion
    uuid: str
    new: Schema
    values: ColumnValues
    replaces: bool
    journal: Journal | None

    def run(self, fragment_id: int, attempt: Attempt) -> ColumnFile:
        """Write the file of one fragment."""
        finished = write_column_file(
            self.version.snapshot,
            self.version.fragment(fragment_id),
            self.new,
            self.values,
            replaces=self.replaces,
            file_name_prefix=attempt.prefix(self.uuid),
        )
        if self.journal is not None:
            self.journal.keep(finished)
        return finished


def compute_columns(
    tasks: Tasks,
    uri: str,
    values: ColumnValues,
    how: Literal["add", "update", "replace"],
    *,
    job: str | None = None,
    journal: str | None = None,
    commit_every: int | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int:
    """Compute columns in tasks, one per fragment, and return the version that has them.

    Args:
        tasks: The engine.
        uri: Location of the table.
        values: The computed values.
        how: Whether columns are added, their values updated, or existing columns replaced by
            columns of any type under the same names.
        job: Name of the job: if it is started again, it resumes.
        journal: Location of the journal of a named job; None for a folder of the table.
        commit_every: Commit whenever this many fragments are finished; not with "replace".
        storage_options: Options of the object store.

    Raises:
        CommitConflictError: If other writers rewrote the fragments, or won in every attempt.
        InvalidInputError: If arguments contradict each other, or the job name belongs to a
            different job. Errors of the values are those of `LanceDataset.add_columns`.
    """
    optional_count("commit_every", commit_every, 1)
    if job is None and (commit_every is not None or journal is not None):
        raise InvalidInputError(
            "job: required with commit_every and journal, which record its progress"
        )
    access = dict(storage_options or {})
    notes = None if job is None else Journal(uri, job, journal, access)
    run = _Run(tasks, uri, values, how == "update", notes, access, how == "replace")
    if how == "update":
        return run.update(commit_every)
    return run.add() if commit_every is None else run.add_in_groups(commit_every)


@dataclass
class _Run:
    """One call, with its finished files and its commits.

    Attributes:
        replaces: Whether files of existing columns are replaced; rows keep their positions.
        journal: Journal in which a named job records its progress.
        swaps: Whether new columns take the names and positions of existing ones.
        finished: Written files, by fragment.
        committed: Fragments whose files are in the table.
        uuid: Unique part of the names of all files of this call.
    """

    tasks: Tasks
    uri: str
    values: ColumnValues
    replaces: bool
    journal: Journal | None
    storage_options: Mapping[str, str]
    swaps: bool
    finished: dict[int, ColumnFile] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    uuid: str = field(default_factory=lambda: str(uuid4()))

    def add(self) -> int:
        """Add new columns with one commit."""
        snapshot = self._latest()
        if (done := self._done(snapshot)) is not None:
            return done
        self._schemas(snapshot)  # raise errors before a journal is begun
        self._begin(snapshot, _plan(snapshot))
        for _ in range(_ROUNDS - 1):
            try:
                return self._add_once()
            except CommitConflictError:  # rows were added or removed; finished files are kept
                emit(DATASET_EVENTS, event="conflict", uri=self.uri)
        return self._add_once()

    def _add_once(self) -> int:
        snapshot = self._latest()
        schema, new = self._schemas(snapshot)
        fragments = snapshot.manifest.fragments
        self._compute(snapshot, new, fragments, replaces=False)
        files = ((one, self.finished[one.id].file) for one in fragments)
        grown = [one if file is None else one.with_file(file) for one, file in files]
        return self._end(self._commit(snapshot, merge_of(snapshot, schema, new, grown, ()), True))

    def _schemas(self, snapshot: Snapshot) -> tuple[Schema, Schema]:
        """Return the schema after the commit, and the schema of the new files."""
        return (swapped_columns if self.swaps else added_columns)(snapshot, self.values)

    def add_in_groups(self, size: int) -> int:
        """Add new columns as nulls, then fill them with many commits."""
        snapshot = self._latest()
        if (done := self._done(snapshot)) is not None:
            return done
        assert self.journal is not None
        begin = Job(f"{self.journal.job} (columns)")
        if begin.held_by(snapshot.manifest.config) is None:
            _, new = added_columns(snapshot, self.values)
            operation = add_null_columns(snapshot, new.arrow)
            self._begin(snapshot, _plan(snapshot))
            _commit(snapshot, operation, begin)
        return self._fill(size, self._begin(snapshot, _plan(snapshot)))

    def update(self, size: int | None) -> int:
        """Update values with one commit or many."""
        snapshot = self._latest()
        if (done := self._done(snapshot)) is not None:
            return done
        replaced_columns(snapshot, self.values)
        return self._fill(size, self._begin(snapshot, _plan(snapshot)))

    def _fill(self, size: int | None, plan: Plan) -> int:
        """Write and commit files for existing columns, some fragments at a time."""
        conflicts = 0
        while True:
            snapshot = self._latest()
            new = replaced_columns(snapshot, self.values)
            if moved := self._moved(snapshot, plan):
                if not self.replaces or self._has_committed(snapshot):
                    raise self._rows_moved(snapshot, moved)
                plan = self._begin(snapshot, _plan(snapshot), restart=True)
            todo = [one for one in snapshot.manifest.fragments if self._wants(one, new, plan)]
            if not todo:
                return self._end(snapshot.manifest.version)
            group = todo[:size]
            self._compute(snapshot, new, group, replaces=True)
            try:
                version = self._replace(snapshot, group, is_last=len(group) == len(todo))
            except CommitConflictError:
                conflicts += 1
                emit(DATASET_EVENTS, event="conflict", uri=self.uri)
                if conflicts == _ROUNDS:
                    raise
                continue
            self.committed.update(one.id for one in group)
            if len(group) == len(todo):
                return self._end(version)
            if self.journal is not None:
                self.journal.keep_committed(self.committed)

    def _wants(self, fragment: Fragment, new: Schema, plan: Plan) -> bool:
        """Return whether a fragment still needs its file."""
        if fragment.id in self.committed or self._has(fragment) or not fragment.num_rows:
            return False
        if self.replaces:
            return str(fragment.id) in plan
        return {one.id for one in new.fields}.isdisjoint(
            number for file in fragment.files for number in file.fields
        )

    def _moved(self, snapshot: Snapshot, plan: Plan) -> list[int]:
        """Return the planned fragments without a file whose rows were moved or deleted."""
        now = {str(one.id): one for one in snapshot.manifest.fragments}
        current = _plan(snapshot)
        left = (number for number in plan if int(number) not in self.committed)
        return [
            int(number)
            for number in left
            if plan[number] != current.get(number, "gone") and not self._has(now.get(number))
        ]

    def _has(self, fragment: Fragment | None) -> bool:
        done = None if fragment is None else self.finished.get(fragment.id)
        return done is not None and fragment is not None and done.is_in(fragment)

    def _has_committed(self, snapshot: Snapshot) -> bool:
        return bool(self.committed) or any(map(self._has, snapshot.manifest.fragments))

    def _rows_moved(self, snapshot: Snapshot, moved: Sequence[int]) -> CommitConflictError:
        assert self.journal is not None
        return CommitConflictError(
            f"{snapshot.store.uri}: rows of the fragments {moved[:10]} were moved or deleted "
            f"before job {self.journal.job!r} had committed their values, so it is unknown where "
            "they are now; update the remaining rows with a job of another name, chosen by where="
        )

    def _compute(
        self, snapshot: Snapshot, new: Schema, fragments: Iterable[Fragment], *, replaces: bool
    ) -> None:
        """Write the missing files in tasks."""
        ids = {field.id for field in new.walk()}
        todo = [int(one.id) for one in fragments if not self._is_finished(one, ids)]
        version = TableVersion.opened(self.uri, snapshot, self.storage_options)
        work = _Work(version, self.uuid, new, self.values, replaces, self.journal)
        try:
            results = self.tasks.run(todo, work.run)
        except BaseException:
            if self.journal is not None:
                self.finished.update(self.journal.finished())
            self._sweep()
            raise
        files = [done.file for done in results if done.file is not None]
        size_bytes = sum(file.size_bytes or 0 for file in files)
        emit(JOB_EVENTS, event="wrote", files=len(files), bytes=size_bytes)
        self.finished.update({done.fragment.id: done for done in results})

    def _sweep(self) -> None:
        """Delete the files of attempts whose results the engine discarded."""
        files = (done.file for done in self.finished.values())
        keep = {file.path for file in files if file is not None}
        sweep(open_table(self.uri, self.storage_options), self.uuid, keep.__contains__)

    def _is_finished(self, fragment: Fragment, ids: set[FieldId]) -> bool:
        done = self.finished.get(fragment.id)
        if done is None or not done.fits(fragment):
            return False
        return done.file is None or set(done.file.fields) <= ids

    def _replace(self, snapshot: Snapshot, group: Sequence[Fragment], is_last: bool) -> int:
        files = ((one.id, self.finished[one.id].file) for one in group)
        replacements = [Replacement(number, file) for number, file in files if file is not None]
        return self._commit(snapshot, DataReplacement(tuple(replacements)), is_last)

    def _commit(self, snapshot: Snapshot, operation: Operation, is_last: bool) -> int:
        job = Job(self.journal.job) if is_last and self.journal is not None else None
        return _commit(snapshot, operation, job)

    def _latest(self) -> Snapshot:
        return Snapshot.latest(open_table(self.uri, self.storage_options))

    def _begin(self, snapshot: Snapshot, plan: Plan, *, restart: bool = False) -> Plan:
        """Open the journal, if there is one, and load the first plan and the finished files."""
        if self.journal is None:
            return plan
        facts = {**self.values.facts(), "replaces": self.replaces}
        if self.swaps:
            facts["swaps"] = True
        plan = self.journal.begin(facts, plan, restart=restart)
        self.finished.update(self.journal.finished())
        self.committed.update(self.journal.committed())
        return plan

    def _done(self, snapshot: Snapshot) -> int | None:
        """Return the version that already contains the whole named job, if any."""
        if self.journal is None:
            return None
        version = Job(self.journal.job).held_by(snapshot.manifest.config)
        return None if version is None else self._end(version)

    def _end(self, version: int) -> int:
        if self.finished:
            self._sweep()
        if self.journal is not None:
            self.journal.remove()
        return version


def _commit(snapshot: Snapshot, operation: Operation, job: Job | None) -> int:
    key = {} if job is None else {JOB_PROPERTY: job.property()}
    transaction = Transaction(snapshot.manifest.version, operation, str(uuid4()), properties=key)
    manifest = commit(snapshot.store, transaction)
    clean_up_if_due(snapshot.store, manifest)
    return manifest.version


def _plan(snapshot: Snapshot) -> Plan:
    """Return the fragments and their deletion files, which identify the rows."""
    return {
        str(one.id): None if one.deletion_file is None else json.dumps(one.deletion_file.to_json())
        for one in snapshot.manifest.fragments
    }
