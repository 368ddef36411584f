"""What a merge is asked to do: clauses in words, bound when they meet a version of the table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

import pyarrow as pa

from pilum.arrays.retype import storage_type
from pilum.dataset.options import Filter
from pilum.dataset.retrying import Retries
from pilum.dataset.updating import bind_values
from pilum.errors import (
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.expressions import bind
from pilum.format.blobs import has_blobs
from pilum.format.schema import Schema
from pilum.table.changes.merge_clauses import SOURCE, TARGET, Clauses, Matched
from pilum.table.commit.jobs import JobKey
from pilum.table.read.snapshot import Snapshot

__all__ = ["MergeClauses", "MergePlan"]

_META = [pa.field("_rowid", pa.uint64()), pa.field("_rowaddr", pa.uint64())]


@dataclass(frozen=True)
class MergePlan:
    """What was asked for, before it meets a version of the table."""

    on: tuple[str, ...]
    matched: Matched = Matched.LEFT
    condition: str | None = None
    values: Mapping[str, str] | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: Filter | None = None
    deletes: str | None = None
    inserts_where: str | None = None
    columns: tuple[str, ...] | None = None

    @property
    def does_something(self) -> bool:
        """Return whether there is anything to be done."""
        changes = self.matched is not Matched.LEFT or self.deletes is not None
        return changes or self.inserts or self.deletes_others

    def bound(self, snapshot: Snapshot, source: pa.Schema) -> Clauses:
        """Bind texts to the columns of both sides.

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
        values = None
        if self.values is not None:
            values = bind_values(self.values, schema, scope, with_blobs=True)
        deletes = None if self.deletes is None else bind(self.deletes, scope)
        of_source = pa.schema([scope.field(SOURCE)])
        where = None if self.inserts_where is None else bind(self.inserts_where, of_source)
        others = None if self.others is None else bind(self.others, schema.arrow)
        primary = frozenset(schema.primary_key)
        clauses = Clauses(
            self.on,
            self.matched,
            condition,
            values,
            self.inserts,
            self.deletes_others,
            others,
            inserts_primary_keys=self.inserts and frozenset(self.on) == primary,
            deletes=deletes,
            inserts_where=where,
            columns=self.columns,
        )
        for name in (*clauses.reads, *(where.columns if where else ())):
            _require_qualified(name)
        return clauses

    def _source_fields(self, snapshot: Snapshot, source: pa.Schema) -> list[pa.Field]:
        """Columns of the source: as the table has them, if they become columns of it."""
        known = snapshot.described.arrow
        blobs = {field.name for field in snapshot.schema.fields if has_blobs(field)}
        becomes = self.inserts or (self.matched is Matched.UPDATED and self.values is None)
        return [
            known.field(field.name)
            if becomes and field.name in known.names and field.name not in blobs
            else pa.field(field.name, storage_type(field.type))
            for field in source
        ]


class MergeClauses:
    """A merge to be configured.

    What matches, what does not, and what only the table has is left as it is unless a method says
    otherwise. Of those about the same rows, the last one counts.
    """

    def __init__(self, schema: Schema, on: str | Iterable[str] | None = None) -> None:
        self._plan = MergePlan(tuple(_key(schema, name) for name in _keys(schema, on)))
        self._retries = Retries()
        self._idempotency_key: JobKey | None = None

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update rows that match with all columns that the source has.

        Args:
            condition: SQL about `source.x` and `target.x`; only pairs for which it is true are
                updated. The others still count as matched.
        """
        return self._matched(Matched.UPDATED, condition=_text("condition", condition), values=None)

    def when_matched_update(
        self,
        set: Mapping[str, str],
        condition: str | None = None,
    ) -> Self:
        """Update some columns of rows that match; the reference has nothing like it.

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

    def when_matched_delete(self, condition: str | None = None) -> Self:
        """Delete rows of the table that match; only the keys of the source are looked at.

        Args:
            condition: SQL about `source.x` and `target.x`, an extension of ours: only pairs for
                which it is true are deleted. What is said of the others, such as an update, holds
                on for those.
        """
        if condition is not None:
            return self._with(deletes=_text("condition", condition))
        return self._matched(Matched.DELETED, condition=None, values=None, deletes=None)

    def when_matched_fail(self) -> Self:
        """Refuse the whole merge if a row matches."""
        return self._matched(Matched.REFUSED, condition=None, values=None)

    def when_not_matched_insert_all(self, condition: str | None = None) -> Self:
        """Insert rows of the source that match nothing; columns that it lacks are null.

        Args:
            condition: SQL about `source.x`, an extension of ours: only rows for which it is true
                are inserted.
        """
        return self._with(inserts=True, inserts_where=_text("condition", condition))

    def when_not_matched_by_source_delete(self, expr: Filter | None = None) -> Self:
        """Delete rows of the table that match nothing.

        Args:
            expr: SQL about columns of the table; only rows for which it is true are deleted.
        """
        return self._with(deletes_others=True, others=expr)

    def source_columns(self, names: Iterable[str]) -> Self:
        """Report which columns of the source go into the table; an extension of ours.

        Args:
            names: The keys among them. Others, such as one that says what to do with a row, are
                there for conditions only. All columns go into the table unless this is called.
        """
        columns = tuple(names)
        if missing := [key for key in self._plan.on if key not in columns]:
            raise InvalidInputError(f"source_columns: the keys {missing} must be among them")
        return self._with(columns=columns)

    def conflict_retries(self, max_retries: int) -> Self:
        """How often to merge anew because others changed the same rows; 10 at first."""
        self._retries = replace(self._retries, conflict_retries=max_retries)
        return self

    def retry_timeout(self, timeout: timedelta) -> Self:
        """When to begin no such try any more, after the call; 30 seconds at first."""
        self._retries = replace(self._retries, retry_timeout=timeout)
        return self

    def idempotency_key(self, key: JobKey) -> Self:
        """Name the job that this merge is: if the table has it already, nothing happens.

        Args:
            key: As in `pilum.write_dataset`.
        """
        self._idempotency_key = key
        return self

    def _matched(self, matched: Matched, **changes: Any) -> Self:
        return self._with(matched=matched, **changes)

    def _with(self, **changes: Any) -> Self:
        self._plan = replace(self._plan, **changes)
        return self


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
    if str(name).partition(".")[0] in schema.by_name:
        raise UnsupportedFeatureError(f"on: {name!r} is a member; keys are whole columns")
    raise ColumnNotFoundError(f"on: no column {name!r}; the columns are {schema.names}")


def _text(what: str, text: Any) -> str | None:
    if text is not None and not isinstance(text, str):
        raise InvalidInputError(f"{what}: expected SQL, found {text!r}")
    return text


def _require_qualified(name: str) -> None:
    side, _, column = name.partition(".")
    if side not in {SOURCE, TARGET} or not column:
        raise FilterError(f"{name!r}: name columns as source.x or target.x")
