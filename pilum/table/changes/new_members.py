"""Add members to existing structs: a new member is null where its struct is null.

    s in the table      {x: 1}    null      {x: 3}
    values for s.z      {z: 7}    {z: 8}    null
    written             {z: 7}    null      {z: null}     together    {x: 1, z: 7}  null  {x: 3}

Each file records which structs are null, so all files must agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from pilum.errors import SchemaMismatchError
from pilum.format.schema import Field, Schema
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["in_structs"]


def in_structs(
    snapshot: Snapshot,
    new: Schema,
    batches: Iterator[pa.RecordBatch],
    fragment_ids: tuple[int, ...] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches with the nulls of the existing structs.

    Args:
        snapshot: The version.
        new: The new columns, and the parents of new members.
        batches: Values of the rows that are not deleted, in scan order, of the types of `new`.
        fragment_ids: Fragments of the values; None for all.

    Raises:
        SchemaMismatchError: If a non-nullable member has no value for a struct.
    """
    names = tuple(field.name for field in new.fields if snapshot.schema.find(field.id))
    if not names:
        yield from batches
        return
    existing = scan(snapshot, ScanOptions(columns=names, fragment_ids=fragment_ids))
    ahead = next(existing, None)
    for batch in batches:
        start = 0
        while start < batch.num_rows and ahead is not None:
            part = batch.slice(start, ahead.num_rows)
            yield _placed(part, ahead.slice(0, part.num_rows), new, snapshot.schema)
            start += part.num_rows
            ahead = ahead.slice(part.num_rows)
            if not ahead.num_rows:
                ahead = next(existing, None)
        if start < batch.num_rows:
            yield batch.slice(start)  # more rows than there are: the caller counts them and raises


def _placed(
    batch: pa.RecordBatch, existing: pa.RecordBatch, new: Schema, schema: Schema
) -> pa.RecordBatch:
    columns = []
    for field, column in zip(new.fields, batch.columns, strict=True):
        known = schema.find(field.id)
        placed = known and _with_nulls(column, existing.column(field.name), field, known)
        columns.append(column if placed is None else placed)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _with_nulls(array: pa.Array, existing: pa.Array, field: Field, known: Field) -> pa.Array:
    olds = {child.id: number for number, child in enumerate(known.children)}
    values, there = array.flatten(), existing.flatten()
    members = []
    for child, member in zip(field.children, values, strict=True):
        if child.id in olds:
            number = olds[child.id]
            member = _with_nulls(member, there[number], child, known.children[number])
        members.append(member)
        missing = pc.and_(member.is_null(), existing.is_valid())
        if not child.nullable and missing.true_count:
            raise SchemaMismatchError(
                f"column {field.name!r}: {missing.true_count} values of {child.name!r} are null, "
                "which it must not be"
            )
    fields = [child.arrow for child in field.children]
    return pa.StructArray.from_arrays(members, fields=fields, mask=existing.is_null())
