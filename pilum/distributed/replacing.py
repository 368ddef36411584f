"""Replacing the rows for which a condition is true: old rows out and new rows in, with one commit.

    driver    pin a version ─┐                                ┌─▶ one commit: rows marked, new files
    tasks                    ├─ search the old rows ──────────┤
    tasks                    └─ check and write the new rows ─┘

All new rows have to fulfil the condition, so that replacing them once more finds all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict

import numpy as np
import pyarrow as pa

from pilum.distributed.jobs import Attempt, PartMessage, WriteJob
from pilum.distributed.row_changes import RowChange, found_rows
from pilum.distributed.tasks import Tasks
from pilum.distributed.writing import write_part, written_fragments
from pilum.errors import InvalidInputError
from pilum.expressions import BoundFilter, bind
from pilum.format.rows import addresses_in
from pilum.format.schema import Schema
from pilum.table.changes.row_changes import Rewritten, moved, require_rewritable
from pilum.table.commit.operations.base import Operation
from pilum.table.write.align import align
from pilum.table.write.write import WriteOptions

__all__ = ["ReplaceResult", "Replacement", "replace_rows", "write_replacement"]

_NO_ADDRESSES = np.empty(0, np.uint64)


class ReplaceResult(TypedDict):
    """The result of `replace_rows`: the numbers of old and of new rows."""

    num_deleted_rows: int
    num_inserted_rows: int


@dataclass(frozen=True)
class Replacement:
    """One attempt to replace rows, as the tasks that write need it; picklable.

    `write` has the files of the attempt; `where` and `condition` select the rows.
    """

    write: WriteJob
    where: str
    condition: BoundFilter


def replace_rows(
    tasks: Tasks,
    change: RowChange,
    where: str,
    options: WriteOptions,
    write: Callable[[Replacement], Sequence[PartMessage]],
) -> ReplaceResult:
    """Replace the rows for which a condition is true.

    Args:
        tasks: The tasks that search the old rows. The driver needs 8 bytes per row.
        change: The table.
        where: A condition on stored columns.
        options: How new rows are divided into files; these have the version of the table.
        write: Runs the tasks that write the new rows; each calls `write_replacement`.

    Raises:
        InvalidInputError: If a new row does not fulfil the condition.
        CommitConflictError: If a concurrent commit invalidated the change.
    """
    table = change.opened()
    _bound(where, table.snapshot.schema)  # report errors here, before any task runs

    def attempt(job: WriteJob) -> tuple[Operation, ReplaceResult]:
        snapshot = job.base.snapshot
        require_rewritable(snapshot)
        old = found_rows(tasks, job, where)
        version = snapshot.manifest.data_version
        new_files = replace(job, options=replace(options, version=version))
        messages = write(Replacement(new_files, where, _bound(where, snapshot.schema)))
        part = Rewritten(written_fragments(*messages), _NO_ADDRESSES)
        gone = [addresses_in(number, vector.offsets) for number, vector in old.items()]
        return moved(snapshot, [part], (), gone), ReplaceResult(
            num_deleted_rows=sum(map(len, gone)),
            num_inserted_rows=sum(message.num_rows for message in messages),
        )

    nothing = ReplaceResult(num_deleted_rows=0, num_inserted_rows=0)
    return change.commit_once(table, attempt, nothing)


def write_replacement(
    replacement: Replacement, batches: Iterable[pa.RecordBatch], attempt: Attempt
) -> PartMessage:
    """Write the new rows of one task, as `write_part`.

    InvalidInputError is raised if a row does not fulfil the condition; no file is left then.
    """
    job = replacement.write
    checked = map(partial(_checked, replacement), batches)
    return write_part(job, checked, partition=attempt.task, attempt=attempt.number)


def _checked(replacement: Replacement, batch: pa.RecordBatch) -> pa.RecordBatch:
    mask = replacement.condition.mask(_tested(replacement, batch))
    if mask.true_count < len(mask):
        raise InvalidInputError(
            f"{len(mask) - mask.true_count} of {len(mask)} rows do not fulfil the condition "
            f"{replacement.where!r} of the rows that they replace"
        )
    return batch


def _tested(replacement: Replacement, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of the condition as stored; those that the new rows lack are null."""
    schema, used = replacement.write.schema, _columns(replacement.condition)
    given = [name for name in batch.schema.names if name in used]
    if given:
        batch = batch.select(given)
        batch = align(batch.schema, schema.project(given)).batch(batch)
    for name in used.difference(given):
        field = schema.arrow.field(name)
        batch = batch.append_column(field, pa.nulls(batch.num_rows, field.type))
    return batch


def _bound(where: str, schema: Schema) -> BoundFilter:
    condition = bind(where, schema.arrow)
    if unknown := sorted(_columns(condition).difference(schema.names)):
        raise InvalidInputError(f"{where!r}: new rows have no {', '.join(unknown)} yet")
    return condition


def _columns(condition: BoundFilter) -> set[str]:
    return {name.partition(".")[0] for name in condition.columns}
