"""Merging rows by keys: the engine joins the keys, tasks write their parts, one commit publishes.

    source ──┐                                              new files
             ├─ join by key, by the engine ─ tasks: write_merge_part ─▶ addresses ──▶ driver:
    keys of ─┘                                                                        one commit
    the table

The engine gets only the keys of the table, with the addresses of their rows. All pairs of one table
row have to be in the same task, in ascending order of addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pilum.arrays import filtered
from pilum.dataset.merge_plan import MergeClauses
from pilum.dataset.rows import MergeResult, merge_result
from pilum.distributed.jobs import Attempt, WriteJob
from pilum.distributed.row_changes import RowChange
from pilum.errors import InvalidInputError, UnsupportedFeatureError
from pilum.format.blobs import has_blobs
from pilum.format.rows import Addresses, addresses_in, fragment_ids_of
from pilum.table.changes.join import Matches, Spool
from pilum.table.changes.merge_rows import (
    Clauses,
    MergeCounts,
    MergedPart,
    finish_merge,
    merge_part,
    merge_rows,
    merged_columns,
)
from pilum.table.changes.row_changes import matching_rows
from pilum.table.commit.operations.base import Operation
from pilum.table.read.snapshot import Snapshot
from pilum.table.write.write import WriteOptions

__all__ = [
    "MERGE_ADDRESS",
    "MERGE_PRESENT",
    "DistributedMerge",
    "MergeJob",
    "MergePart",
    "MergeResult",
    "write_merge_part",
]

MERGE_ADDRESS = "_pilum_address"
"""Column of joined rows: the address of the table row; null if the source row matches nothing."""

MERGE_PRESENT = "_pilum_present"
"""Column of joined rows: null if the row is in the table only."""

_NOTHING = MergeCounts(0, 0, 0)


@dataclass(frozen=True)
class MergeJob:
    """One attempt of a merge, as its tasks need it; picklable.

    `write` has the version and the files of the attempt, `source` the source columns in the types
    of the merge.
    """

    write: WriteJob
    source: pa.Schema
    clauses: Clauses

    @property
    def keys(self) -> tuple[str, ...]:
        """The key columns, which both sides have under these names."""
        return self.clauses.keys

    @property
    def kind_of_join(self) -> Literal["inner", "left", "right", "full"]:
        """The join of the source, on the left, with the table that finds all needed rows."""
        if self.clauses.deletes_others:
            return "full" if self.clauses.inserts else "right"
        return "left" if self.clauses.inserts else "inner"


@dataclass(frozen=True)
class MergePart:
    """The rows that one task of a merge wrote, and those that they replace.

    `others` are addresses of table rows that the source does not have and that are deleted.
    """

    written: MergedPart
    others: Addresses


class DistributedMerge(MergeClauses):
    """A builder of a merge; an engine derives a class that joins the rows.

    Clauses are configured as in `pilum.MergeInsertBuilder`. The options determine how rows are
    divided into files; limits that they lack are the target sizes of the table.
    """

    def __init__(
        self,
        change: RowChange,
        on: str | Iterable[str] | None,
        options: WriteOptions | None = None,
    ) -> None:
        self._change = change
        self._options = options or WriteOptions()
        self._table = change.opened()
        keys = [on] if isinstance(on, str) else [*(on or ())]
        super().__init__(self._table.snapshot.schema, keys)
        self._retries = change.retries

    @property
    def stored_schema(self) -> pa.Schema:
        """The columns of the table."""
        return self._table.snapshot.schema.arrow

    def run(
        self,
        schema: pa.Schema,
        local: Sequence[pa.RecordBatch] | None,
        spread: Callable[[MergeJob], Sequence[MergePart]],
    ) -> MergeResult:
        """Merge the rows with one commit; again, if concurrent commits changed the same rows.

        The errors are those of `pilum.MergeInsertBuilder.execute`. `schema` has the columns of the
        source in the types of the merge. All rows are merged in this process if they are given as
        `local`; otherwise `spread` joins the source with the table and writes each part as a task.
        """
        change = replace(self._change, retries=self._retries, key=self._idempotency_key)
        attempt = partial(self._attempt, schema, local, spread)
        return merge_result(change.commit_once(self._table, attempt, _NOTHING))

    def check(self, schema: pa.Schema) -> None:
        """Bind the clauses to both sides, to report the errors of `run` before any task runs."""
        if not self._plan.does_something:
            raise InvalidInputError("nothing to merge: call one of the when_ methods first")
        self._bound(self._table.snapshot, schema)

    def _attempt(
        self,
        schema: pa.Schema,
        local: Sequence[pa.RecordBatch] | None,
        spread: Callable[[MergeJob], Sequence[MergePart]],
        job: WriteJob,
    ) -> tuple[Operation, MergeCounts]:
        snapshot = job.base.snapshot
        clauses = self._bound(snapshot, schema)
        if local is not None:
            with Spool(pa.RecordBatchReader.from_batches(schema, local)) as spool:
                return merge_rows(snapshot, spool, clauses, self._options)
        parts = spread(MergeJob(replace(job, options=self._options), schema, clauses))
        others = np.concatenate([np.empty(0, np.uint64), *(part.others for part in parts)])
        return finish_merge(snapshot, clauses, [part.written for part in parts], others)

    def _bound(self, snapshot: Snapshot, schema: pa.Schema) -> Clauses:
        clauses = self._plan.bound(snapshot, schema)
        fields = merged_columns(snapshot, schema, clauses).schema.fields
        if blobs := [field.name for field in fields if has_blobs(field)]:
            raise UnsupportedFeatureError(
                f"tasks cannot merge columns of blobs: {blobs}; leave them out, or use "
                "LanceDataset.merge_insert"
            )
        return clauses


def write_merge_part(
    merge: MergeJob,
    batches: Iterable[pa.RecordBatch],
    attempt: Attempt,
    convert: Callable[[pa.RecordBatch, pa.Schema], pa.RecordBatch],
) -> MergePart:
    """Write the rows of one part of the join.

    The batches have the source columns, `MERGE_ADDRESS` and `MERGE_PRESENT`, in ascending order of
    addresses; `convert` casts rows of the engine to a schema, by name.
    """
    pairs: list[pa.Array] = []
    others: list[pa.Array] = []

    def source_rows() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            present = batch.column(MERGE_PRESENT).is_valid()
            of_source = filtered(batch, present)
            if of_source.num_rows < batch.num_rows:
                others.append(batch.column(MERGE_ADDRESS).filter(pc.invert(present)))
            pairs.append(of_source.column(MERGE_ADDRESS))
            yield convert(of_source, merge.source)

    job, snapshot = merge.write, merge.write.base.snapshot
    options = replace(job.options, file_name_prefix=attempt.prefix(job.uuid))
    with Spool(pa.RecordBatchReader.from_batches(merge.source, source_rows())) as spool:
        addresses = pa.chunked_array(pairs, pa.int64())
        rows = np.flatnonzero(addresses.is_valid().to_numpy())
        matches = Matches(_unsigned(addresses.drop_null()), rows)
        part = merge_part(snapshot, spool, merge.clauses, matches, options)
    left = _unsigned(pa.chunked_array(others, pa.int64()))
    if merge.clauses.others is None or not len(left):
        return MergePart(part, left)
    fragments = tuple(np.unique(fragment_ids_of(left)).tolist())
    found = matching_rows(snapshot, merge.clauses.others, fragments)
    wanted = [addresses_in(number, vector.offsets) for number, vector in found.items()]
    return MergePart(part, left[np.isin(left, np.concatenate([np.empty(0, np.uint64), *wanted]))])


def _unsigned(addresses: pa.ChunkedArray) -> Addresses:
    found: Addresses = addresses.to_numpy().astype(np.uint64)
    return found
