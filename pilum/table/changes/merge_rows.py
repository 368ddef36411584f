"""Merging a source into a table by keys: what becomes of rows that match and of those that do not.

                         source    table
    matched                *         *       updated | deleted | refused | left
    not matched            *                 inserted | ignored
    not matched by source            *       deleted where a condition holds | left

Updated rows are written in the order of the table, then those that are inserted. Only the keys of
the table are read, but for rows that need other columns of it: those that the source does not have,
or that a condition or expression names. Beside batches, memory holds some 40 bytes for each pair.

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedFeatureError
from pilum.expressions import BoundFilter, BoundProjection
from pilum.format.blobs import has_blobs
from pilum.format.extension import storage_type
from pilum.format.retype import retyped
from pilum.format.schema import Schema
from pilum.table.changes.delete import matching_rows
from pilum.table.changes.join import Matches, join_keys, require_joinable
from pilum.table.changes.rewrite import (
    discarded_on_failure,
    moved,
    require_rewritable,
    rows_by_fragment,
    with_blobs,
    write_rows,
)
from pilum.table.deletions.deletion_vector import DeletionVector, bit_mask
from pilum.table.fragment import Fragment, FragmentId
from pilum.table.operations.update import Update
from pilum.table.scanning.files import FragmentReader
from pilum.table.scanning.take import take_addresses
from pilum.table.scanning.windows import batches, rows_of_window
from pilum.table.snapshot import Snapshot
from pilum.table.upkeep.compaction_rows import written_schema
from pilum.table.writing.align import Alignment, align
from pilum.table.writing.spool import Spool

__all__ = ["Clauses", "Matched", "MergeCounts", "merge_rows"]

_BATCH_ROWS = 8192
_MAX_PART_ROWS = 1 << 17
SOURCE, TARGET = "source", "target"


class Matched(Enum):
    """What becomes of rows of the table that the source has too."""

    LEFT = "left"
    UPDATED = "updated"
    DELETED = "deleted"
    REFUSED = "refused"


@dataclass(frozen=True)
class Clauses:
    """What a merge does.

    Attributes:
        keys: Columns that are compared; at least one.
        matched: What becomes of rows that match.
        condition: Updates only pairs for which it is true; about `source.x` and `target.x`.
        values: What columns are set to, of their type, about `source.x` and `target.x`; None to
            take all columns of the source.
        inserts: Whether rows of the source that do not match are added.
        deletes_others: Whether rows of the table that do not match are deleted.
        others: Of these, only those for which it is true; None for all.
        inserts_primary_keys: Whether the keys are the primary key of the table, so that nobody may
            add rows meanwhile.
    """

    keys: tuple[str, ...]
    matched: Matched = Matched.LEFT
    condition: BoundFilter | None = None
    values: Mapping[str, BoundProjection] | None = None
    inserts: bool = False
    deletes_others: bool = False
    others: BoundFilter | None = None
    inserts_primary_keys: bool = False

    @property
    def takes_all(self) -> bool:
        """Whether columns of the source become columns of the table."""
        return self.inserts or (self.matched is Matched.UPDATED and self.values is None)

    @property
    def reads(self) -> tuple[str, ...]:
        """What condition and values name: `source.x`, `target.x`, `target.x.y`."""
        found = self.condition.columns if self.condition else ()
        values = (self.values or {}).values()
        return (*found, *(name for value in values for name in value.columns))


@dataclass(frozen=True)
class MergeCounts:
    """What a merge did, in rows."""

    inserted: int
    updated: int
    deleted: int


def merge_rows(snapshot: Snapshot, spool: Spool, clauses: Clauses) -> tuple[Update, MergeCounts]:
    """Writes changed and new rows; the table does not change before the result is committed.

    Args:
        snapshot: The version.
        spool: The source.
        clauses: What to do.

    Returns:
        What to commit, and what it does.

    Raises:
        InvalidInputError: If several rows of the source match one row of the table that they are
            to change, or if there is a match and matches are refused.
        SchemaMismatchError: If the source does not fit the table.
        FilterError: If an expression fails on a value.
        CorruptFileError: If a file is damaged.
        UnsupportedFeatureError: If rows of the table cannot be written anew.
        OSError: If the store failed. Whatever is raised, no file is left.
    """
    require_rewritable(snapshot)
    return _Merge(snapshot, spool, clauses).run()


@dataclass
class _Merge:
    """The state of one merge."""

    snapshot: Snapshot
    spool: Spool
    clauses: Clauses
    changed: list[NDArray[np.uint64]] = field(default_factory=list)
    num_inserted: int = 0

    def run(self) -> tuple[Update, MergeCounts]:
        source = self.aligned
        matches = join_keys(self.snapshot, self.keys, map(self._keys, self.spool.batches))
        if self.clauses.matched is Matched.REFUSED and len(matches):
            raise InvalidInputError(
                f"the source matches a row with {self._shown(matches.rows[0])}; nothing was merged"
            )
        updated: Iterable[pa.RecordBatch] = ()
        if self.clauses.matched is Matched.UPDATED and len(matches):
            updated = self._updated(matches)
        inserted = self._inserted(matches) if self.clauses.inserts else iter(())
        fragments = self._write(updated, inserted, source)
        with discarded_on_failure(self.snapshot, fragments):
            return self._finish(matches, fragments)

    @cached_property
    def keys(self) -> list[str]:
        return list(self.clauses.keys)

    @cached_property
    def aligned(self) -> Alignment:
        """How columns of the source become columns of the table; only keys, if no others do."""
        schema, incoming = self.snapshot.schema, self.spool.schema
        if missing := [name for name in self.keys if name not in incoming.names]:
            raise SchemaMismatchError(f"the source lacks the key columns {missing}")
        if not self.clauses.takes_all:
            incoming = pa.schema([incoming.field(name) for name in self.keys])
        if not self.clauses.inserts:  # nothing that the table has is missing in a row
            present = (one for one in schema.fields if one.name in incoming.names)
            schema = Schema(tuple(present), schema.metadata)
        alignment = align(incoming, schema)
        if blobs := [one.name for one in alignment.schema.fields if has_blobs(one)]:
            raise UnsupportedFeatureError(
                f"columns of blobs cannot be merged: {blobs}; leave them out, or delete and insert"
            )
        require_joinable(alignment.schema.project(self.keys).arrow)
        if self.clauses.matched is Matched.UPDATED and self.clauses.values is None:
            for one in alignment.schema.fields:
                if one.ids != self.snapshot.schema.by_name[one.name].ids:
                    raise SchemaMismatchError(
                        f"column {one.name!r} of the source lacks members that the table has"
                    )
        return alignment

    def _keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._aligned(self.keys).batch(batch.select(self.keys))

    def _aligned(self, names: list[str]) -> Alignment:
        by_name = self.aligned.schema.by_name
        return Alignment(Schema(tuple(by_name[name] for name in names)))

    def _shown(self, row: np.int64) -> str:
        (values,) = self.spool.take(np.array([row]), self.keys).to_pylist()
        return ", ".join(f"{name} = {value!r}" for name, value in values.items())

    def _updated(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """Matched rows with their new values, in the form of the table."""
        schema = self.snapshot.schema
        alignment = align(written_schema(self.snapshot).arrow, schema)
        last = None
        for start, stop in pairwise(self._cuts(matches)):
            addresses, rows = matches.addresses[start:stop], matches.rows[start:stop]
            pairs = self._pairs(addresses, rows)
            if self.clauses.condition is not None:
                mask = self.clauses.condition.mask(pairs)
                kept = mask.to_numpy(zero_copy_only=False)
                pairs, addresses, rows = pairs.filter(mask), addresses[kept], rows[kept]
            if not len(addresses):
                continue
            self._require_once(addresses, rows, last)
            last = addresses[-1]
            self.changed.append(addresses)
            values = self._values(pairs)
            yield from map(alignment.batch, with_blobs(self.snapshot, addresses, values))

    def _cuts(self, matches: Matches) -> list[int]:
        """Where pairs are cut into parts; with blobs, also where fragments end."""
        cuts = {*range(0, len(matches), self._part_rows), len(matches)}
        if self.snapshot.described is not self.snapshot.schema:
            cuts.update((np.flatnonzero(np.diff(matches.addresses >> np.uint64(32))) + 1).tolist())
        return sorted(cuts)

    @cached_property
    def _part_rows(self) -> int:
        """How many pairs are worked on together."""
        fragment = self.snapshot.manifest.fragments[0]
        reader = FragmentReader.of(self.snapshot.session, self.snapshot.store, fragment)
        fields = reader.fields(self.snapshot.described.fields)
        return min(rows_of_window(fields, _BATCH_ROWS), _MAX_PART_ROWS)

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
        """Columns `source.x` and `target.x` of pairs: those that are needed."""
        of_source, of_target = self._needed
        source = self.spool.take(rows, of_source)
        if self.clauses.takes_all:
            source = self._aligned(of_source).batch(source)
        columns = {
            f"{SOURCE}.{name}": retyped(column, storage_type(column.type))
            for name, column in _items(source)
        }
        if of_target:
            table = take_addresses(self.snapshot, addresses, of_target)
            (target,) = batches([table], len(addresses))
            columns |= {f"{TARGET}.{name}": column for name, column in _items(target)}
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    @cached_property
    def _needed(self) -> tuple[list[str], list[str]]:
        """Columns of the source and of the table, for conditions and for values."""
        read = [name.split(".")[:2] for name in self.clauses.reads]
        source = {path[1]: None for path in read if path[0] == SOURCE}
        target = {path[1]: None for path in read if path[0] == TARGET}
        values = self.clauses.values
        for name in self.snapshot.schema.names:
            if values is not None:
                target |= {} if name in values else {name: None}
            elif name in self.aligned.schema.by_name:
                source[name] = None
            else:
                target[name] = None
        return list(source) or self.keys[:1], list(target)

    def _values(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        names = self.snapshot.schema.names
        values = self.clauses.values
        columns = []
        for name in names:
            if values is not None and name in values:
                columns.append(values[name].evaluate(pairs))
            elif values is None and name in self.aligned.schema.by_name:
                columns.append(pairs.column(f"{SOURCE}.{name}"))
            else:
                columns.append(pairs.column(f"{TARGET}.{name}"))
        return pa.RecordBatch.from_arrays(columns, names)

    def _inserted(self, matches: Matches) -> Iterator[pa.RecordBatch]:
        """Rows of the source that match nothing, in the form of `aligned`."""
        is_new = np.ones(self.spool.num_rows, dtype=np.bool_)
        is_new[matches.rows] = False
        first = 0
        for batch in self.spool.batches:
            part = is_new[first : first + batch.num_rows]
            first += batch.num_rows
            num_new = int(part.sum())
            self.num_inserted += num_new
            if num_new:
                found = batch if num_new == len(part) else batch.filter(bit_mask(part))
                yield self.aligned.batch(found)

    def _write(
        self,
        updated: Iterable[pa.RecordBatch],
        inserted: Iterator[pa.RecordBatch],
        source: Alignment,
    ) -> tuple[Fragment, ...]:
        """New rows that have all columns go behind the updated ones, others to files of their own.

        So nulls of columns that the source does not have are not stored.
        """
        schema = written_schema(self.snapshot)
        if {one.ids for one in source.schema.fields} == {one.ids for one in schema.fields}:
            inserted = (batch.select(schema.names) for batch in inserted)
            return write_rows(self.snapshot, schema, chain(updated, inserted))
        fragments = write_rows(self.snapshot, schema, updated)
        with discarded_on_failure(self.snapshot, fragments):
            return (*fragments, *write_rows(self.snapshot, source.schema, inserted))

    def _finish(
        self, matches: Matches, fragments: tuple[Fragment, ...]
    ) -> tuple[Update, MergeCounts]:
        num_updated = sum(map(len, self.changed))
        addresses = np.concatenate([np.empty(0, np.uint64), *self.changed])
        rows = rows_by_fragment(addresses)
        if self.clauses.matched is Matched.DELETED:
            self._require_once(matches.addresses, matches.rows, None)
            rows = rows_by_fragment(matches.addresses)
        for number, vector in self._others(matches).items():
            rows[number] = rows[number].union(vector) if number in rows else vector
        num_deleted = sum(map(len, rows.values())) - num_updated
        fields = [one.id for one in self.snapshot.schema.walk()]
        keyed = self.clauses.inserts_primary_keys and self.num_inserted > 0
        operation = moved(self.snapshot, fragments, addresses, rows, fields, keyed)
        return operation, MergeCounts(self.num_inserted, num_updated, num_deleted)

    def _others(self, matches: Matches) -> dict[FragmentId, DeletionVector]:
        """Rows of the table that match nothing and are to go."""
        if not self.clauses.deletes_others:
            return {}
        found = matching_rows(self.snapshot, self.clauses.others)
        matched = rows_by_fragment(np.unique(matches.addresses))
        left = {
            number: rows.without(matched[number]) if number in matched else rows
            for number, rows in found.items()
        }
        return {number: rows for number, rows in left.items() if len(rows)}


def _items(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    return zip(batch.schema.names, batch.columns, strict=True)
