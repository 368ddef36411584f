"""Values of new columns that SQL expressions compute, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from pilum.dataset.options import project
from pilum.errors import InvalidInputError
from pilum.table.read.scan import ScanOptions, scan, scan_schema
from pilum.table.read.snapshot import Snapshot

__all__ = ["computed", "null_columns"]


def computed(
    snapshot: Snapshot,
    expressions: Mapping[Any, Any],
    batch_size: int | None,
    fragment_ids: tuple[int, ...] | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of expressions, and their values for rows that are not deleted.

    Args:
        snapshot: The version of the table.
        expressions: Names and SQL expressions over the columns of the table.
        batch_size: Rows per batch; None for 8,192.
        fragment_ids: Fragments to read; None for all.

    Raises:
        FilterError: If an expression cannot be parsed or bound.
        ColumnNotFoundError: If an expression names a column that does not exist.
        InvalidInputError: If `expressions` is not a dict of strings.
    """
    for pair in expressions.items():
        if not all(isinstance(text, str) for text in pair):
            raise InvalidInputError(f"expected names and SQL expressions, found {pair!r}")
    if not expressions:
        raise InvalidInputError("no columns to add")
    reads, projection = project(expressions, snapshot.described.arrow)
    assert projection is not None
    options = ScanOptions(columns=reads, batch_size=batch_size, fragment_ids=fragment_ids)
    schema = projection.schema(scan_schema(snapshot, options))
    return schema, map(projection.apply, scan(snapshot, options))


def null_columns(snapshot: Snapshot, expressions: Mapping[str, str]) -> pa.Schema | None:
    """Return the columns of expressions that are all null; None if one is not.

    An example of such an expression is `CAST(NULL AS INT)`.

    Args:
        snapshot: The version of the table.
        expressions: Names and SQL expressions that `computed` has accepted.
    """
    _, projection = project(expressions, snapshot.described.arrow)
    assert projection is not None
    items = projection.items
    if not all(item.is_null for _, item in items):
        return None
    return pa.schema([pa.field(name, item.field.type) for name, item in items])
