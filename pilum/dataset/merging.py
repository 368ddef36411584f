"""Merging rows by keys: update those that are there, insert the others, delete what is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict

import pyarrow as pa

from pilum.dataset.base import DatasetBase
from pilum.dataset.inputs import to_reader
from pilum.dataset.once import once
from pilum.dataset.operations import Transaction
from pilum.dataset.options import Filter
from pilum.dataset.retrying import Retries
from pilum.dataset.transactions import publish, require_version
from pilum.dataset.updating import bind_values
from pilum.errors import (
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.expressions import BoundProjection, bind
from pilum.format.extension import storage_type
from pilum.format.schema import Schema
from pilum.table.changes.merge_rows import SOURCE, TARGET, Clauses, Matched, MergeCounts, merge_rows
from pilum.table.commits import transaction
from pilum.table.commits.jobs import JobKey
from pilum.table.snapshot import Snapshot
from pilum.table.writing.spool import Spool

__all__ = ["MergeInsertBuilder", "MergeResult", "Merging"]

_NOTHING = MergeCounts(0, 0, 0)
_META = [pa.field("_rowid", pa.uint64()), pa.field("_rowaddr", pa.uint64())]


class MergeResult(TypedDict):
    """What a merge did."""

    num_inserted_rows: int
    num_updated_rows: int
    num_deleted_rows: int


@dataclass(frozen=True)
class _Wanted:
    """What was asked for, before it meets a version of the table."""

    on: tuple[str, ...]
    matched: Matched = Matched.LEFT
    condition: str | None = None
    values: Mapping[str, str] | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: Filter | None = None

    def bound(self, snapshot: Snapshot, source: pa.Schema) -> Clauses:
        """Binds texts to the columns of both sides.

        Raises:
            InvalidInputError: As `MergeInsertBuilder.execute`.
        """
        schema = snapshot.schema
        if len(set(source.names)) < len(source.names):
            raise InvalidInputError(f"columns of the source come twice: {source.names}")
        scope = pa.schema(
            [
                pa.field(SOURCE, pa.struct(self._source_fields(snapshot, source))),
                pa.field(TARGET, pa.struct([*snapshot.described.arrow, *_META])),
            ]
        )
        condition = None if self.condition is None else bind(self.condition, scope)
        values = None if self.values is None else bind_values(self.values, schema, scope)
        for name in (*(condition.columns if condition else ()), *_columns(values or {})):
            _require_qualified(name)
        others = None if self.others is None else bind(self.others, schema.arrow)
        primary = frozenset(schema.primary_key)
        return Clauses(
            self.on,
            self.matched,
            condition,
            values,
            self.inserts,
            self.deletes_others,
            others,
            inserts_primary_keys=self.inserts and frozenset(self.on) == primary,
        )

    def _source_fields(self, snapshot: Snapshot, source: pa.Schema) -> list[pa.Field]:
        """Columns of the source: as the table has them, if they become columns of it."""
        known = snapshot.described.arrow
        becomes = self.inserts or (self.matched is Matched.UPDATED and self.values is None)
        return [
            known.field(field.name)
            if becomes and field.name in known.names
            else pa.field(field.name, storage_type(field.type))
            for field in source
        ]


class MergeInsertBuilder:
    """A merge to be configured; made by `LanceDataset.merge_insert`.

    What matches, what does not, and what only the table has is left as it is unless a method says
    otherwise. Of those about the same rows, the last one counts.
    """

    def __init__(self, dataset: DatasetBase, on: str | Iterable[str] | None = None) -> None:
        self._dataset = dataset
        schema = dataset.snapshot.schema
        self._wanted = _Wanted(tuple(_key(schema, name) for name in _keys(schema, on)))
        self._retries = Retries()
        self._idempotency_key: JobKey | None = None

    def when_matched_update_all(self, condition: str | None = None) -> MergeInsertBuilder:
        """Updates rows that match with all columns that the source has.

        Args:
            condition: SQL about `source.x` and `target.x`; only pairs for which it is true are
                updated. The others still count as matched.
        """
        return self._matched(Matched.UPDATED, condition=_text("condition", condition), values=None)

    def when_matched_update(
        self,
        set: Mapping[str, str],
        condition: str | None = None,
    ) -> MergeInsertBuilder:
        """Updates some columns of rows that match; the reference has nothing like it.

        Args:
            set: Columns of the table, and for each the SQL that computes its values from
                `source.x` and `target.x`, such as "target.count + source.count". All see the
                values before the merge, and are cast to the type of the column. The source may
                have columns that the table does not have, unless rows are inserted too.
            condition: As for `when_matched_update_all`.
        """
        if not isinstance(set, Mapping) or not set:
            raise InvalidInputError(f"set: expected a dict of columns and SQL, found {set!r}")
        condition = _text("condition", condition)
        return self._matched(Matched.UPDATED, condition=condition, values=dict(set))

    def when_matched_delete(self) -> MergeInsertBuilder:
        """Deletes rows of the table that match; only the keys of the source are looked at."""
        return self._matched(Matched.DELETED, condition=None, values=None)

    def when_matched_fail(self) -> MergeInsertBuilder:
        """Refuses the whole merge if a row matches."""
        return self._matched(Matched.REFUSED, condition=None, values=None)

    def when_not_matched_insert_all(self) -> MergeInsertBuilder:
        """Inserts rows of the source that match nothing; columns that it lacks are null."""
        return self._with(inserts=True)

    def when_not_matched_by_source_delete(self, expr: Filter | None = None) -> MergeInsertBuilder:
        """Deletes rows of the table that match nothing.

        Args:
            expr: SQL about columns of the table; only rows for which it is true are deleted.
        """
        return self._with(deletes_others=True, others=expr)

    def conflict_retries(self, max_retries: int) -> MergeInsertBuilder:
        """How often to merge anew because others changed the same rows; 10 at first."""
        self._retries = replace(self._retries, conflict_retries=max_retries)
        return self

    def retry_timeout(self, timeout: timedelta) -> MergeInsertBuilder:
        """When to begin no such try any more, after the call; 30 seconds at first."""
        self._retries = replace(self._retries, retry_timeout=timeout)
        return self

    def idempotency_key(self, key: JobKey) -> MergeInsertBuilder:
        """Names the job that this merge is: if the table has it already, nothing happens.

        Args:
            key: As in `pilum.write_dataset`.
        """
        self._idempotency_key = key
        return self

    def use_index(self, use_index: bool) -> MergeInsertBuilder:
        """Whether an index on the key may be used: nothing depends on it, as none is read."""
        if not isinstance(use_index, bool):
            raise InvalidInputError(f"use_index: expected a bool, found {use_index!r}")
        return self

    def data_storage_version(self, version: str) -> MergeInsertBuilder:
        """The file version of what is written: that of the table."""
        require_version(self._dataset.snapshot, version)
        return self

    def write_mode(
        self, mode: Literal["auto", "rewrite_rows", "rewrite_columns"]
    ) -> MergeInsertBuilder:
        """How rows are written: always whole ("rewrite_rows").

        Raises:
            UnsupportedFeatureError: For "rewrite_columns".
        """
        if mode == "rewrite_columns":
            raise UnsupportedFeatureError("write_mode='rewrite_columns': rows are written whole")
        if mode not in {"auto", "rewrite_rows"}:
            raise InvalidInputError(f"write_mode: expected auto or rewrite_rows, found {mode!r}")
        return self

    def execute(self, data_obj: Any, *, schema: pa.Schema | None = None) -> MergeResult:
        """Merges rows and moves the dataset to the new version.

        A null is no key: such rows match nothing. NaN matches NaN, and -0.0 does not match 0.0. The
        data is read once; if it is large, it is kept in a temporary file meanwhile.

        Args:
            data_obj: The source; see `pilum.write_dataset`.
            schema: What the data is brought to. Needed for an iterable that may be empty.

        Returns:
            A dict with `num_inserted_rows`, `num_updated_rows` and `num_deleted_rows`.

        Raises:
            SchemaMismatchError: If the source does not fit the table.
            ColumnNotFoundError: If a condition or expression names what neither side has.
            FilterError: If one does not parse or bind, or fails on a value.
            CommitConflictError: If another commit made the merge meaningless.
            CommitContentionError: If others interfered every time.
            UnsupportedFeatureError: If the source has columns of blobs that would be merged.
            InvalidInputError: If several rows of the source match one row that they are to change,
                a match is refused, nothing is to be done, or for other arguments that make no
                sense.
        """

        def change(properties: Mapping[str, str]) -> tuple[Snapshot, MergeCounts]:
            def merge(snapshot: Snapshot) -> tuple[Snapshot, MergeCounts]:
                found, counts = self._merge(snapshot, spool)
                return publish(snapshot.store, replace(found, properties=properties)), counts

            with self._opened(data_obj, schema) as spool:
                return self._retries.run(self._dataset.snapshot, merge)

        return _result(once(self._dataset, self._idempotency_key, change, _NOTHING))

    def execute_uncommitted(
        self, data_obj: Any, *, schema: pa.Schema | None = None
    ) -> tuple[Transaction, MergeResult]:
        """Writes the files of a merge, for `LanceDataset.commit`; see `execute`.

        Such a commit does not know its rows any more: it conflicts with whatever changed rows of
        the same fragments.

        Returns:
            What to commit, and what it does.
        """
        with self._opened(data_obj, schema) as spool:
            found, counts = self._merge(self._dataset.snapshot, spool)
        return Transaction.from_table(found), _result(counts)

    def _opened(self, data_obj: Any, schema: pa.Schema | None) -> Spool:
        wanted = self._wanted
        if not (wanted.inserts or wanted.deletes_others or wanted.matched is not Matched.LEFT):
            raise InvalidInputError("nothing to merge: call one of the when_ methods first")
        reader = to_reader(data_obj, schema)
        wanted.bound(self._dataset.snapshot, reader.schema)  # before it is read
        return Spool(reader)

    def _merge(
        self, snapshot: Snapshot, spool: Spool
    ) -> tuple[transaction.Transaction, MergeCounts]:
        operation, counts = merge_rows(snapshot, spool, self._wanted.bound(snapshot, spool.schema))
        return transaction.Transaction(snapshot.manifest.version, operation), counts

    def _matched(self, matched: Matched, **changes: Any) -> MergeInsertBuilder:
        return self._with(matched=matched, **changes)

    def _with(self, **changes: Any) -> MergeInsertBuilder:
        self._wanted = replace(self._wanted, **changes)
        return self


class Merging(DatasetBase):
    """Chapter of `LanceDataset`: merging rows by keys."""

    def merge_insert(self, on: str | Iterable[str] | None = None) -> MergeInsertBuilder:
        """Begins a merge: rows of a source meet the rows of the table that have the same keys.

        Args:
            on: The key column, or several; None for the primary key of the table.

        Returns:
            A builder. Say what becomes of the rows, then call `execute`.

        Raises:
            ColumnNotFoundError: If a column does not exist.
            InvalidInputError: If there is no key.
        """
        return MergeInsertBuilder(self, on)


def _keys(schema: Schema, on: str | Iterable[str] | None) -> list[str]:
    names = [on] if isinstance(on, str) else list(on or schema.primary_key)
    if not names:
        raise InvalidInputError("on: expected key columns, as the table has no primary key")
    if len(set(names)) < len(names):
        raise InvalidInputError(f"on: key columns come twice: {names}")
    return names


def _key(schema: Schema, name: Any) -> str:
    if name in schema.by_name:
        return str(name)
    alike = [known for known in schema.names if known.lower() == str(name).lower()]
    if len(alike) == 1:
        return alike[0]
    raise ColumnNotFoundError(f"on: no column {name!r}; the columns are {schema.names}")


def _text(what: str, text: Any) -> str | None:
    if text is not None and not isinstance(text, str):
        raise InvalidInputError(f"{what}: expected SQL, found {text!r}")
    return text


def _columns(values: Mapping[str, BoundProjection]) -> list[str]:
    return [name for value in values.values() for name in value.columns]


def _require_qualified(name: str) -> None:
    side, _, column = name.partition(".")
    if side not in {SOURCE, TARGET} or not column:
        raise FilterError(f"{name!r}: name columns as source.x or target.x")


def _result(counts: MergeCounts) -> MergeResult:
    return MergeResult(
        num_inserted_rows=counts.inserted,
        num_updated_rows=counts.updated,
        num_deleted_rows=counts.deleted,
    )
