"""The clauses of a merge, bound to a version of the table before execution, and its steps as text.

MergeInsert: on=[a], when_matched=UpdateAll, when_not_matched=InsertAll, …
  Write: rows in the form of the table, and marks on those that moved or go
    Join: a of the source with a of the table, 64 MiB of keys at a time
      Scan: memory://t, version 2, columns a, 1 of 1 fragments, 3 rows
      Source: a, b
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Self

import pyarrow as pa

from pilum.arguments import require_names
from pilum.arrays import storage_type
from pilum.dataset.base import Retries
from pilum.dataset.projection import bind_values
from pilum.dataset.scan import Filter
from pilum.errors import (
    ColumnNotFoundError,
    FilterError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from pilum.expressions import bind
from pilum.format.blobs import has_blobs
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.format.schema import Schema
from pilum.table.changes.join import BLOCK_BYTES
from pilum.table.changes.merge_rows import SOURCE, TARGET, Clauses, Matched
from pilum.table.commit.jobs import JobKey
from pilum.table.indices.key_lookup import index_for_keys
from pilum.table.read.snapshot import Snapshot

__all__ = ["MergeClauses", "MergePlan", "explained_merge"]

_META = [pa.field(ROW_ID, pa.uint64()), pa.field(ROW_ADDRESS, pa.uint64())]

_RETRIES = Retries()

_MATCHED = {
    Matched.LEFT: "DoNothing",
    Matched.UPDATED: "UpdateAll",
    Matched.DELETED: "Delete",
    Matched.REFUSED: "Fail",
}


@dataclass(frozen=True)
class MergePlan:
    """The requested merge, before it is bound to a version of the table."""

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
        """Return whether any action is configured."""
        changes = self.matched is not Matched.LEFT or self.deletes is not None
        return changes or self.inserts or self.deletes_others

    @property
    def takes_all(self) -> bool:
        """Return whether columns of the source become columns of the table."""
        return self.inserts or (self.matched is Matched.UPDATED and self.values is None)

    def bound(self, snapshot: Snapshot, source: pa.Schema) -> Clauses:
        """Bind the clauses to the columns of both sides."""
        if not isinstance(source, pa.Schema):
            raise InvalidInputError(f"schema: expected a schema of Arrow, found {source!r:.80}")
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
        """Return the fields of the source, with the types of the table where they are written."""
        known = snapshot.described.arrow
        marked = snapshot.schema.fields if snapshot.schema.has_marks else ()
        blobs = {one.name for one in marked if has_blobs(one)}
        return [
            known.field(field.name)
            if self.takes_all and field.name in known.names and field.name not in blobs
            else pa.field(field.name, storage_type(field.type))
            for field in source
        ]


class MergeClauses:
    """The clauses of a merge, as builder methods; see `MergeInsertBuilder`."""

    def __init__(self, schema: Schema, on: str | Iterable[str] | None = None) -> None:
        self._plan = MergePlan(tuple(_key(schema, name) for name in _keys(schema, on)))
        self._retries = _RETRIES
        self._idempotency_key: JobKey | None = None

    def when_matched_update_all(self, condition: str | None = None) -> Self:
        """Update matching rows with all columns of the source.

        Args:
            condition: SQL about `source.x` and `target.x`; only pairs for which it is true are
                updated. Other pairs still count as matched.
        """
        return self._matched(Matched.UPDATED, condition=_text("condition", condition), values=None)

    def when_matched_update(
        self,
        set: Mapping[str, str],
        condition: str | None = None,
    ) -> Self:
        """Update some columns of matching rows; an extension of the reference.

        Args:
            set: SQL expressions by column of the table. They compute the new values from `source.x`
                and `target.x`, such as "target.count + source.count". All expressions see the
                values before the merge, and results are cast to the type of the column. The source
                may have columns that the table lacks, unless rows are also inserted.
            condition: As for `when_matched_update_all`.
        """
        if not isinstance(set, Mapping) or not set:
            raise InvalidInputError(f"set: expected a dict of columns and SQL, found {set!r}")
        condition = _text("condition", condition)
        return self._matched(Matched.UPDATED, condition=condition, values=dict(set))

    def when_matched_delete(self, condition: str | None = None) -> Self:
        """Delete matching rows of the table; only the keys of the source are used.

        Args:
            condition: SQL about `source.x` and `target.x`, an extension of the reference: only
                pairs for which it is true are deleted. Other clauses, such as an update, still
                apply to the other pairs.
        """
        if condition is not None:
            return self._with(deletes=_text("condition", condition))
        return self._matched(Matched.DELETED, condition=None, values=None, deletes=None)

    def when_matched_fail(self) -> Self:
        """Fail the whole merge if any row matches."""
        return self._matched(Matched.REFUSED, condition=None, values=None)

    def when_not_matched_insert_all(self, condition: str | None = None) -> Self:
        """Insert source rows that match nothing; columns that the source lacks are null.

        Args:
            condition: SQL about `source.x`, an extension of the reference: only rows for which it
                is true are inserted.
        """
        return self._with(inserts=True, inserts_where=_text("condition", condition))

    def when_not_matched_by_source_delete(self, expr: Filter | None = None) -> Self:
        """Delete rows of the table that match nothing.

        Args:
            expr: SQL about columns of the table; only rows for which it is true are deleted.
        """
        return self._with(deletes_others=True, others=expr)

    def source_columns(self, names: Iterable[str]) -> Self:
        """Select the source columns that are written; an extension of the reference.

        Args:
            names: The columns to write, including the keys. Other columns, such as an action flag,
                are available to conditions only. By default all columns are written.
        """
        columns = tuple(require_names("source_columns", names))
        if missing := [key for key in self._plan.on if key not in columns]:
            raise InvalidInputError(f"source_columns: the keys {missing} must be among them")
        return self._with(columns=columns)

    def conflict_retries(self, max_retries: int) -> Self:
        """Set the number of retries after conflicts with concurrent commits; 10 by default."""
        self._retries = replace(self._retries, conflict_retries=max_retries)
        return self

    def retry_timeout(self, timeout: timedelta) -> Self:
        """Set the time from which no retry starts; 30 seconds by default, on Spark 10 minutes."""
        self._retries = replace(self._retries, retry_timeout=timeout)
        return self

    def idempotency_key(self, key: JobKey) -> Self:
        """Identify this job; if the table already contains it, the merge does nothing.

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
    names = [on] if isinstance(on, str) else require_names("on", on or schema.primary_key)
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


def explained_merge(
    snapshot: Snapshot, plan: MergePlan, source: pa.Schema, *, uses_index: bool, verbose: bool
) -> str:
    """Return the steps of a merge as text."""
    keys = ", ".join(plan.on)
    manifest = snapshot.manifest
    num_fragments = len(manifest.fragments)
    lines = [
        (
            f"MergeInsert: on=[{keys}], when_matched={_matched(plan)}, "
            f"when_not_matched={_not_matched(plan)}, when_not_matched_by_source={_others(plan)}"
        ),
        "  Write: new rows in files of their own, and marks on rows that moved or go",
        (
            f"    Join: {keys} of source and table, {BLOCK_BYTES >> 20} MiB of keys at a time"
            f"{_lookup(snapshot, plan) if uses_index else ''}"
        ),
        (
            f"      Scan: {snapshot.store.uri}, version {manifest.version}, columns {keys}, "
            f"{num_fragments} of {num_fragments} fragments, {snapshot.num_rows} rows"
        ),
        f"      Source: {', '.join(source.names)}",
    ]
    if verbose:
        files = (file.path for fragment in manifest.fragments for file in fragment.files)
        lines[4:4] = [f"        File: {path}" for path in files]
    return "\n".join(lines)


def _lookup(snapshot: Snapshot, plan: MergePlan) -> str:
    """Return which index replaces the scan of the table if the source is small."""
    found = index_for_keys(snapshot, plan.on[0]) if len(plan.on) == 1 else None
    if found is None:
        return ""
    name, most = found
    return f"; up to {most} keys are looked up in the index {name}"


def _matched(plan: MergePlan) -> str:
    name = _MATCHED[plan.matched]
    if plan.matched is Matched.UPDATED:
        name = "Update" if plan.values is not None else "UpdateAll"
        if plan.values is not None:
            name += f"({', '.join(plan.values)})"
        if plan.condition is not None:
            name = f"UpdateIf({plan.condition})"
    if plan.deletes is None:
        return name
    return f"DeleteIf({plan.deletes}), {name}"


def _not_matched(plan: MergePlan) -> str:
    if not plan.inserts:
        return "DoNothing"
    where = plan.inserts_where
    return "InsertAll" if where is None else f"InsertIf({where})"


def _others(plan: MergePlan) -> str:
    if not plan.deletes_others:
        return "Keep"
    return "Delete" if plan.others is None else f"DeleteIf({plan.others})"
