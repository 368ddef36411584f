"""Sorting of the rows of a scan by columns.

    keys        (a ascending, b descending)      nulls last, or first if requested
    sorted by   is a null?, a, is b null?, b     NaN is the greatest number, and -0.0 below 0.0

All rows are held in memory; with a limit, only about twice as many as are requested. Rows with
equal keys keep the order of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.arrays import taken
from pilum.errors import InvalidInputError
from pilum.table.read.windows import joined_batch

__all__ = ["ColumnOrdering", "ordered"]

_LEAST_ROWS = 64 * 1024
_BITS: dict[int, type[np.signedinteger[Any]]] = {16: np.int16, 32: np.int32, 64: np.int64}


@dataclass(frozen=True)
class ColumnOrdering:
    """A column to sort rows by.

    Attributes:
        column_name: Name, or path of a struct member ("s.x").
        ascending: Whether the smallest value comes first.
        nulls_first: Whether nulls come before all values, in either direction.
    """

    column_name: str
    ascending: bool = True
    nulls_first: bool = False


def ordered(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    keys: Sequence[ColumnOrdering],
    offset: int,
    limit: int | None,
) -> pa.RecordBatch:
    """Sort rows by keys, the most important one first; skip `offset` rows and keep at most `limit`.

    InvalidInputError is raised if values of a type have no order.
    """
    for key in keys:
        _require_order(schema.field(key.column_name))
    wanted = None if limit is None else offset + limit
    waiting: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        waiting.append(batch)
        num_rows += batch.num_rows
        if wanted is not None and num_rows > max(2 * wanted, _LEAST_ROWS):
            waiting = [_sorted(waiting, schema, keys, 0, wanted)]
            num_rows = waiting[0].num_rows
    return _sorted(waiting, schema, keys, offset, limit)


def _sorted(
    batches: list[pa.RecordBatch],
    schema: pa.Schema,
    keys: Sequence[ColumnOrdering],
    offset: int,
    limit: int | None,
) -> pa.RecordBatch:
    rows = joined_batch(pa.Table.from_batches(batches, schema))
    columns, order = [], []
    for key in keys:
        column = rows.column(key.column_name)
        columns += [column.is_null(), _comparable(column)]
        order += ["descending" if key.nulls_first else "ascending"]
        order += ["ascending" if key.ascending else "descending"]
    names = [str(number) for number in range(len(columns))]
    places = pc.sort_indices(
        pa.RecordBatch.from_arrays(columns, names), sort_keys=list(zip(names, order, strict=True))
    ).slice(offset, limit)
    return taken(rows, places)


def _comparable(column: pa.Array) -> pa.Array:
    """Convert values so that Arrow sorts them correctly."""
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not pt.is_floating(column.type):
        return column
    bits = _BITS[column.type.bit_width]
    numbers = column.fill_null(pa.scalar(0, column.type)).to_numpy().view(bits)
    return pa.array(np.where(numbers < 0, numbers ^ np.iinfo(bits).max, numbers))


def _require_order(field: pa.Field) -> None:
    if pt.is_nested(field.type) or isinstance(field.type, pa.BaseExtensionType):
        raise InvalidInputError(
            f"order_by: values of type {field.type} (column {field.name!r}) have no order; name "
            "members of structs"
        )
