"""Merge a source into a table by keys, with actions for matched and unmatched rows.

                         source    table
    matched                *         *       updated | deleted | refused | left
    not matched            *                 inserted | ignored
    not matched by source            *       deleted where a condition holds | left

The keys of both are joined, then rows are written, and finally rows that moved or are deleted are
marked. Several tasks can share the second step, each for a part of the source.

Updated rows are written first, in the order of the table, then inserted rows. Rows of the table are
read only if they need further columns of it: columns that the source lacks, or that a condition or
expression uses. In addition to batches, memory holds about 40 bytes for each pair.

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import filtered, retyped, storage_type
from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs
from pilum.format.rows import BATCH_ROWS, addresses_in, fragment_ids_of
from pilum.format.schema import Schema
from pilum.lazy import cached_property
from pilum.progress_display import counted, progress
from pilum.table.changes.join import Matches, Spool, join_keys, require_joinable
from pilum.table.changes.row_changes import (
    Rewritten,
    discarded_on_failure,
    matching_rows,
    moved,
    require_rewritable,
    with_blobs,
    write_rows,
)
from pilum.table.commit.operations.update import Update
from pilum.table.model.deletion_vector import bit_mask
from pilum.table.model.fragment import Fragment
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses
from pilum.table.read.windows import batches, rows_of_window
from pilum.table.write.align import Alignment, align
from pilum.table.write.write import WriteOptions

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundFilter, BoundProjection

__all__ = [
    "SOURCE",
    "TARGET",
    "Clauses",
    "Matched",
    "MergeCounts",
    "MergedPart",
    "finish_merge",
    "merge_part",
    "merge_rows",
    "merged_columns",
]

SOURCE, TARGET = "source", "target"
_MAX_PART_ROWS = 1 << 17


class Matched(Enum):
    """The action for rows of the table whose key is in the source."""

    LEFT = "left"
    UPDATED = "updated"
    DELETED = "deleted"
    REFUSED = "refused"


@dataclass(frozen=True)
class Clauses:
    """The actions of a merge and their conditions.

    Attributes:
        keys: Key columns that are compared; at least one.
        matched: The action for rows that match.
        condition: Only pairs for which it is true are updated; it refers to `source.x` and
            `target.x`.
        deletes: Pairs for which it is true are deleted, before others are updated; it refers to the
            same columns.
        values: Expressions for the new values of columns, with the columns' types; they refer to
            `source.x` and `target.x`. None to use all columns of the source.
        inserts: Whether rows of the source that do not match are added.
        inserts_where: Only unmatched source rows for which it is true are added; it refers to
            `source.x`. None for all.
        deletes_others: Whether rows of the table that do not match are deleted.
        others: Only unmatched table rows for which it is true are deleted; None for all.
        columns: Source columns that are written to the table, the keys included; other columns
            serve conditions only. None for all.
        uses_index: Whether an index on the key may be used to find the pairs.
        inserts_primary_keys: Whether the keys are the primary key of the table, so that no rows may
            be added concurrently.
    """

    keys: tuple[str, ...]
    matched: Matched = Matched.LEFT
    condition: BoundFilter | None = None
    values: Mapping[str, BoundProjection] | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: BoundFilter | None = None
    inserts_primary_keys: bool = False
    deletes: BoundFilter | None = None
    inserts_where: BoundFilter | None = None
    columns: tuple[str, ...] | None = None
    uses_index: bool = True

    @property
    def takes_all(self) -> bool:
        """Return whether columns of the source become columns of the table."""
        return self.inserts or (self.matched is Matched.UPDATED and self.values is None)

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns that conditions and values use, each with its side.

        For example `source.x`, `target.x` and `target.x.y`.
        """
        conditions = [one for one in (self.condition, self.deletes) if one is not None]
        columns = [one.columns for one in conditions]
        columns += [one.columns for one in (self.values or {}).values()]
        return tuple(name for names in columns for name in names)


def merged_columns(snapshot: Snapshot, incoming: pa.Schema, clauses: Clauses) -> Alignment:
    """Align the columns of a source with those of the table; only its keys, if no others are used.

    The errors are those of `MergeInsertBuilder.execute`.
    """
    schema, keys = snapshot.schema, list(clauses.keys)
    if missing := [name for name in keys if name not in incoming.names]:
        raise SchemaMismatchError(f"the source lacks the key columns {missing}")
    names = list(clauses.columns or incoming.names) if clauses.takes_all else keys
    incoming = pa.schema([incoming.field(name) for name in names])
    if not clauses.inserts:  # no column of the table is missing in a row
        present = (one for one in schema.fields if one.name in incoming.names)
        schema = Schema(tuple(present), schema.metadata)
    alignment = align(incoming, schema)
    if alignment.schema.has_marks:
        _require_mergeable_blobs(snapshot, alignment.schema, keys)
    require_joinable(alignment.schema.project(keys).arrow)
    if clauses.matched is Matched.UPDATED and clauses.values is None:
        for one in alignment.schema.fields:
            if not one.blob_version and one.ids != snapshot.schema.by_name[one.name].ids:
                raise SchemaMismatchError(
                    f"column {one.name!r} of the source lacks members that the table has"
                )
    return alignment


def _require_mergeable_blobs(snapshot: Snapshot, schema: Schema, keys: list[str]) -> None:
    """Raise an error if columns of a merge have blobs where these cannot be."""
    inner = [one.name for one in schema.fields if has_blobs(one) and not one.blob_version]
    if inner and snapshot.manifest.data_version.has_blobs_v2:
        raise UnsupportedFeatureError(
            f"columns with blobs inside of them cannot be merged: {inner}; leave them out, or "
            "delete and insert"
        )
    if blobs := [name for name in keys if has_blobs(schema.by_name[name])]:
        raise InvalidInputError(f"columns of blobs cannot be keys: {blobs}")


@dataclass(frozen=True)
class MergeCounts:
    """The numbers of rows that a merge changed."""

    inserted: int
    updated: int
    deleted: int


@dataclass(frozen=True)
class MergedPart:
    """The result of merging some rows of the source with the table rows that they match.

    Attributes:
        rewritten: Updated rows, followed by inserted rows.
        removed: uint64, shape (n,): addresses of the rows to delete, ascending.
        num_inserted: Number of inserted rows.
    """

    rewritten: Rewritten
    removed: NDArray[np.uint64]
    num_inserted: int


def merge_rows(
    snapshot: Snapshot, spool: Spool, clauses: Clauses, options: WriteOptions | None = None
) -> tuple[Update, MergeCounts]:
    """Write and count changed and new rows; the table changes only when the result is committed.

    `options` are those of `write_rows`. The errors are those of `MergeInsertBuilder.execute`; after
    any exception, no file is left.
    """
    require_rewritable(snapshot)
    merge = _Merge(snapshot, spool, clauses, options)
    matches = merge.matches()
    part = merge.write(matches)
    with discarded_on_failure(snapshot, part.rewritten.fragments):
        others = _others(snapshot, clauses, matches.addresses)
        return finish_merge(snapshot, clauses, [part], others)


def merge_part(
    snapshot: Snapshot,
    spool: Spool,
    clauses: Clauses,
    matches: Matches,
    options: WriteOptions | None = None,
) -> MergedPart:
    """Write changed and new rows of a part of the source, as one task of a merge.

    All rows that match the same row of the table must be in one part. Rows that the source does not
    have are left to `finish_merge`. The errors are those of `merge_rows`.
    """
    require_rewritable(snapshot)
    return _Merge(snapshot, spool, clauses, options).write(matches)


def finish_merge(
    snapshot: Snapshot,
    clauses: Clauses,
    parts: Iterable[MergedPart],
    others: NDArray[np.uint64],
) -> tuple[Update, MergeCounts]:
    """Mark rows that moved or are deleted; the table changes only when the result is committed.

    `others` are the addresses of rows that the source does not have and that are deleted: uint64,
    shape (n,). After any exception, no file is left.
    """
    parts = tuple(parts)
    rewritten = [part.rewritten for part in parts]
    gone = [*(part.removed for part in parts), others]
    num_inserted = sum(part.num_inserted for part in parts)
    fields = [one.id for one in snapshot.schema.walk()]
    keyed = clauses.inserts_primary_keys and num_inserted > 0
    operation = moved(snapshot, rewritten, fields, gone, inserts_keys=keyed)
    num_updated = sum(len(part.addresses) for part in rewritten)
    return operation, MergeCounts(num_inserted, num_updated, sum(map(len, gone)))


def _others(
    snapshot: Snapshot, clauses: Clauses, matched: NDArray[np.uint64]
) -> NDArray[np.uint64]:
    """Return addresses of the table rows that match nothing and are to be deleted."""
    if not clauses.deletes_others:
        return np.empty(0, np.uint64)
    found = matching_rows(snapshot, clauses.others)
    addresses = [addresses_in(number, rows.offsets) for number, rows in found.items()]
    return np.setdiff1d(np.concatenate([np.empty(0, np.uint64), *addresses]), matched)


@dataclass
class _Merge:
    """The state of one merge, or of a part of it."""

    snapshot: Snapshot
    spool: Spool
    clauses: Clauses
    options: WriteOptions | None = None
    changed: list[NDArray[np.uint64]] = field(default_factory=list)
    removed: list[NDArray[np.uint64]] = field(default_factory=list)
    num_inserted: int = 0

    def matches(self) -> Matches:
        """Look up the keys of the source."""
        self.aligned  # noqa: B018 - raises before any file is read
        with progress("Matching", self.spool.num_rows) as done:
            keys = counted(map(self._keys, self.spool.batches), done)
            return join_keys(self.snapshot, self.keys, keys, uses_index=self.clauses.uses_index)

    def write(self, matches: Matches) -> MergedPart:
        """Write changed and new rows."""
        source, matched = self.aligned, self.clauses.matched
        if matched is Matched.REFUSED and len(matches):
            raise InvalidInputError(
                f"the source matches a row with {self._shown(matches.rows[0])}; nothing was merged"
            )
        if matched is Matched.DELETED:
            self._require_once(matches.addresses, matches.rows, None)
            self.removed.append(matches.addresses)
        updated: Iterable[pa.RecordBatch] = ()
        if len(matches) and (matched is Matched.UPDATED or self.clauses.deletes):
            updated = self._updated(matches)
        inserted = self._inserted(matches) if self.clauses.inserts else iter(())
        fragments = self._write(updated, inserted, source)
        none = np.empty(0, np.uint64)
        rewritten = Rewritten(fragments, np.concatenate([none, *self.changed]))
        return MergedPart(rewritten, np.concatenate([none, *self.removed]), self.num_inserted)

    @cached_property
    def keys(self) -> list[str]:
        """Return the key columns."""
        return list(self.clauses.keys)

    @cached_property
    def aligned(self) -> Alignment:
        """Return the alignment of source columns with columns of the table."""
        return merged_columns(self.snapshot, self.spool.schema, self.clauses)

    def _keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._aligned(self.keys).batch(batch.select(self.keys))

    def _aligned(self, names: list[str]) -> Alignment:
        by_name = self.aligned.schema.by_name
        return Alignment(Schema(tuple(by_name[name] for name in names)))

    def _shown(self, row: np.int64) -> str:
        (values,) = self.spool.take(np.array([row]), self.keys).to_pylist()
        return ", ".join(f"{name} = {value!r}" for name, value in values.items())

    def _updated(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """Yield matched rows with their new values, with the types of the table."""
        schema = self.snapshot.schema
        alignment = align(self.snapshot.written.arrow, schema)
        last = None
        for start, stop in pairwise(self._cuts(matches)):
            addresses, rows = matches.addresses[start:stop], matches.rows[start:stop]
            pairs = self._pairs(addresses, rows)
            deleted, kept = self._decided(pairs)
            changes = deleted | kept
            if not changes.any():
                continue
            self._require_once(addresses[changes], rows[changes], last)
            last = addresses[changes][-1]
            self.removed.append(addresses[deleted])
            if not kept.any():
                continue
            pairs, addresses = filtered(pairs, bit_mask(kept)), addresses[kept]
            self.changed.append(addresses)
            values = self._values(pairs)
            found = with_blobs(self.snapshot, addresses, values, self._new_columns)
            yield from map(alignment.batch, found)

    def _decided(self, pairs: pa.RecordBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which pairs are deleted, and which of the others are updated."""
        deletes, condition = self.clauses.deletes, self.clauses.condition
        deleted = np.zeros(pairs.num_rows, dtype=np.bool_)
        if deletes is not None:
            deleted = deletes.mask(pairs).to_numpy(zero_copy_only=False)
        if self.clauses.matched is not Matched.UPDATED:
            return deleted, np.zeros_like(deleted)
        if condition is None:
            return deleted, ~deleted
        return deleted, condition.mask(pairs).to_numpy(zero_copy_only=False) & ~deleted

    def _cuts(self, matches: Matches) -> list[int]:
        """Return where pairs are split into parts; with blobs, also where fragments end."""
        cuts = {*range(0, len(matches), self._part_rows), len(matches)}
        if self.snapshot.described is not self.snapshot.schema:
            cuts.update((np.flatnonzero(np.diff(fragment_ids_of(matches.addresses))) + 1).tolist())
        return sorted(cuts)

    @cached_property
    def _part_rows(self) -> int:
        """Return the number of pairs in a part."""
        fragment = self.snapshot.manifest.fragments[0]
        reader = self.snapshot.reader(fragment)
        fields = reader.fields(self.snapshot.described.fields)
        return min(rows_of_window(fields, BATCH_ROWS), _MAX_PART_ROWS)

    def _require_once(
        self, addresses: NDArray[np.uint64], rows: NDArray[np.int64], last: np.uint64 | None
    ) -> None:
        again = np.flatnonzero(addresses[1:] == addresses[:-1]) + 1
        if last is not None and addresses[0] == last:
            again = np.zeros(1, dtype=np.int64)
        if len(again):
            raise InvalidInputError(
                "several rows of the source match one row of the table, with "
                f"{self._shown(rows[again[0]])}; nothing was merged"
            )

    def _pairs(self, addresses: NDArray[np.uint64], rows: NDArray[np.int64]) -> pa.RecordBatch:
        """Return the required columns `source.x` and `target.x` of pairs."""
        of_source, of_target = self._needed
        columns = dict(_items(self._of_source(self.spool.take(rows, of_source))))
        if of_target:
            table = take_addresses(self.snapshot, addresses, of_target)
            (target,) = batches([table], len(addresses))
            columns |= {f"{TARGET}.{name}": column for name, column in _items(target)}
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _of_source(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return columns of the source as `source.x`."""
        columns = dict(_items(batch))
        if self.clauses.takes_all:
            kept = [name for name in batch.schema.names if name in self.aligned.schema.by_name]
            columns |= _items(self._aligned(kept).batch(batch.select(kept)))
        return pa.RecordBatch.from_arrays(
            [retyped(column, storage_type(column.type)) for column in columns.values()],
            [f"{SOURCE}.{name}" for name in columns],
        )

    @cached_property
    def _needed(self) -> tuple[list[str], list[str]]:
        """Return the columns of the source and of the table that conditions and values use."""
        read = [name.split(".")[:2] for name in self.clauses.reads]
        if self.clauses.matched is Matched.UPDATED:
            computed = self.clauses.values or {}
            names = (name for name in self.snapshot.schema.names if name not in computed)
            read += [[self._side(name), name] for name in names]
        source = {name: None for side, name in read if side == SOURCE}
        target = {name: None for side, name in read if side == TARGET}
        return list(source) or self.keys[:1], list(target)

    @cached_property
    def _new_columns(self) -> frozenset[str]:
        """Return columns of updated rows that have new values, from the source or computed."""
        values = self.clauses.values
        return frozenset(self.aligned.schema.names if values is None else values)

    def _side(self, name: str) -> str:
        """Return the side of a pair that has the new value of a column, unless it is computed."""
        is_given = self.clauses.values is None and name in self.aligned.schema.by_name
        return SOURCE if is_given else TARGET

    def _values(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        names, computed = self.snapshot.schema.names, self.clauses.values or {}
        columns = [
            computed[name].evaluate(pairs)
            if name in computed
            else pairs.column(f"{self._side(name)}.{name}")
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names)

    def _inserted(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """Yield rows of the source that match nothing, with the types of `aligned`."""
        is_new = np.ones(self.spool.num_rows, dtype=np.bool_)
        is_new[matches.rows] = False
        first = 0
        for batch in self.spool.batches:
            part = is_new[first : first + batch.num_rows]
            first += batch.num_rows
            if self.clauses.inserts_where is not None:
                where = self.clauses.inserts_where.mask(self._of_source(batch))
                part = part & where.to_numpy(zero_copy_only=False)
            num_new = int(part.sum())
            self.num_inserted += num_new
            if num_new:
                found = batch if num_new == len(part) else filtered(batch, bit_mask(part))
                yield self.aligned.batch(found.select(self.aligned.schema.names))

    def _write(
        self,
        updated: Iterable[pa.RecordBatch],
        inserted: Iterator[pa.RecordBatch],
        source: Alignment,
    ) -> tuple[Fragment, ...]:
        """Write updated rows and then new rows with all columns; write others to separate files.

        Nulls of columns that the source does not have are therefore not stored.
        """
        schema, options = self.snapshot.written, self.options
        if {one.ids for one in source.schema.fields} == {one.ids for one in schema.fields}:
            inserted = (batch.select(schema.names) for batch in inserted)
            return write_rows(self.snapshot, schema, chain(updated, inserted), options)
        fragments = write_rows(self.snapshot, schema, updated, options)
        with discarded_on_failure(self.snapshot, fragments):
            return (*fragments, *write_rows(self.snapshot, source.schema, inserted, options))


def _items(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)
