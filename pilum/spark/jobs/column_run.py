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
from typing import TypeAlias
from uuid import uuid4

from pyspark.sql import SparkSession

from pilum.dataset.column_files import (
    ColumnFile,
    ColumnValues,
    added_columns,
    replaced_columns,
    swapped_columns,
    write_column_file,
)
from pilum.distributed.sweeping import sweep
from pilum.errors import CommitConflictError, InvalidInputError
from pilum.format.schema import FieldId, Schema
from pilum.spark.jobs.journal import Journal
from pilum.spark.jobs.tasks import attempt_name, run_tasks
from pilum.spark.options import table_uri
from pilum.table.changes.add_columns import add_null_columns, merge_of
from pilum.table.commit.jobs import JOB_PROPERTY, Job
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.data_replacement import DataReplacement, Replacement
from pilum.table.commit.transaction import Transaction
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import commit_and_clean_up
from pilum.table.versions.open import open_table

__all__ = ["ColumnRun"]

_ROUNDS = 10

Plan: TypeAlias = dict[str, str | None]


@dataclass(frozen=True)
class _Work:
    """The inputs of a task apart from its fragment; picklable."""

    uri: str
    version: int
    uuid: str
    new: Schema
    values: ColumnValues
    replaces: bool
    journal: Journal | None
    storage_options: Mapping[str, str] = field(repr=False)

    def run(self, fragment_id: int) -> str:
        """Write the file of one fragment."""
        store = open_table(self.uri, self.storage_options)
        snapshot = Snapshot.at(store, self.version)
        (fragment,) = (one for one in snapshot.manifest.fragments if one.id == fragment_id)
        finished = write_column_file(
            snapshot,
            fragment,
            self.new,
            self.values,
            replaces=self.replaces,
            file_name_prefix=f"{self.uuid}-{attempt_name()}",
        )
        if self.journal is not None:
            self.journal.keep(finished)
        return finished.to_json()


@dataclass
class ColumnRun:
    """One call, with its finished files and its commits.

    Attributes:
        spark: The session.
        uri: Location of the table.
        values: The computed values.
        replaces: Whether files of existing columns are replaced; rows keep their positions.
        journal: Journal in which a named job records its progress.
        storage_options: Settings of the store.
        swaps: Whether new columns take the names and positions of existing ones.
        finished: Written files, by fragment.
        committed: Fragments whose files are in the table.
        uuid: Unique part of the names of all files of this call.
    """

    spark: SparkSession
    uri: str
    values: ColumnValues
    replaces: bool
    journal: Journal | None
    storage_options: Mapping[str, str]
    swaps: bool = False
    finished: dict[int, ColumnFile] = field(default_factory=dict)
    committed: set[int] = field(default_factory=set)
    uuid: str = field(default_factory=lambda: str(uuid4()))

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        uri: str,
        values: ColumnValues,
        replaces: bool,
        job: str | None,
        location: str | None,
        commit_every: int | None,
        storage_options: Mapping[str, str] | None,
        *,
        swaps: bool = False,
    ) -> ColumnRun:
        """Check and combine the arguments of a call.

        Raises:
            InvalidInputError: If the arguments contradict each other.
        """
        if commit_every is not None and (type(commit_every) is not int or commit_every < 1):
            raise InvalidInputError(f"commit_every: expected a positive number, not {commit_every}")
        if job is None and (commit_every is not None or location is not None):
            raise InvalidInputError(
                "job: required with commit_every and journal, which record its progress"
            )
        access = dict(storage_options or {})
        uri = table_uri(uri)
        journal = None
        if job is not None:
            journal = Journal(uri, job, location and table_uri(location), access)
        return cls(spark, uri, values, replaces, journal, access, swaps)

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
            except CommitConflictError:
                continue  # rows were added or removed; finished files are kept
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
            key = {JOB_PROPERTY: begin.property()}
            version = snapshot.manifest.version
            commit_and_clean_up(snapshot.store, Transaction(version, operation, str(uuid4()), key))
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
        done = self.finished.get(fragment.id)
        if fragment.id in self.committed or (done is not None and done.is_in(fragment)):
            return False
        if not fragment.num_rows:
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
        if fragment is None:
            return False
        done = self.finished.get(fragment.id)
        return done is not None and done.is_in(fragment)

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
        work = _Work(
            self.uri,
            snapshot.manifest.version,
            self.uuid,
            new,
            self.values,
            replaces,
            self.journal,
            self.storage_options,
        )
        try:
            results = run_tasks(self.spark, todo, work.run)
        except BaseException:
            if self.journal is not None:
                self.finished.update(self.journal.finished())
            self._sweep()
            raise
        for text in results:
            done = ColumnFile.from_json(text)
            self.finished[done.fragment.id] = done

    def _sweep(self) -> None:
        """Delete the files of attempts whose results Spark discarded."""
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
        key = {}
        if is_last and self.journal is not None:
            key = {JOB_PROPERTY: Job(self.journal.job).property()}
        transaction = Transaction(
            snapshot.manifest.version, operation, str(uuid4()), properties=key
        )
        return commit_and_clean_up(snapshot.store, transaction).version

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


def _plan(snapshot: Snapshot) -> Plan:
    """Return the fragments and their deletion files, which identify the rows."""
    return {
        str(one.id): None if one.deletion_file is None else json.dumps(one.deletion_file.to_json())
        for one in snapshot.manifest.fragments
    }
