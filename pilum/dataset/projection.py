"""Projections: the requested columns, by name or computed by SQL from the columns that are read.

columns=["a", "s.x"]            read a and s.x, return them
columns={"twice": "a * 2"}      read a, compute twice, return it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pilum.errors import ColumnNotFoundError, InvalidInputError, UnsupportedFeatureError
from pilum.expressions import bind_assignment, bind_projection
from pilum.format.blobs import has_blobs
from pilum.format.fields import Field
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import BATCH_ROWS
from pilum.format.schema import Schema
from pilum.table.read.json_columns import given_table, is_json_field
from pilum.table.read.scan import ScanOptions, scan_schema, scan_tables
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.windows import batches

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundProjection

__all__ = ["Columns", "Projection", "bind_values", "computed", "null_columns", "project", "taken"]

Columns: TypeAlias = Sequence[str] | Mapping[str, str]
"""Column names and dotted paths, or a dict of new names and SQL expressions."""


@dataclass(frozen=True)
class Projection:
    """A projection that computes columns from those that are read.

    The columns `first` are passed through before the named expressions, `kept` after them.
    """

    items: tuple[tuple[str, BoundProjection], ...]
    kept: tuple[str, ...] = ()
    first: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns to read; a struct is read once if it is also needed as a whole."""
        wanted = dict.fromkeys(name for _, item in self.items for name in item.columns)
        columns = tuple(name for name in wanted if not _covered(name, wanted))
        return columns or (ROW_ID,)  # constants still need the number of rows

    def schema(self, scanned: pa.Schema) -> pa.Schema:
        """Return the schema of the results of `apply` for batches of the schema `scanned`."""
        computed = [item.field.with_name(name) for name, item in self.items]
        first, kept = ([scanned.field(one) for one in some] for some in (self.first, self.kept))
        return pa.schema([*first, *computed, *kept], scanned.metadata)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compute the projected columns of one batch."""
        if not (self.items or self.kept or self.first):
            return batch.select([])
        computed = [item.evaluate(batch) for _, item in self.items]
        first, kept = ([batch.column(one) for one in some] for some in (self.first, self.kept))
        arrays = [*first, *computed, *kept]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(batch.schema))

    def table(self, table: pa.Table) -> pa.Table:
        """Compute the projected columns of a table."""
        batches = [self.apply(batch) for batch in table.to_batches()]
        return pa.Table.from_batches(batches, self.schema(table.schema))


def project(
    columns: Columns | None, schema: pa.Schema
) -> tuple[tuple[str, ...] | None, Projection | None]:
    """Return what to read for the requested columns, and what to compute from it."""
    if columns is None:
        return None, None
    if isinstance(columns, Mapping):
        items = tuple((name, bind_projection(text, schema)) for name, text in columns.items())
        projection = Projection(items)
        return projection.reads, projection
    return _names(columns), None


def taken(
    snapshot: Snapshot,
    columns: Columns | None,
    take: Callable[[tuple[str, ...] | None], pa.Table],
) -> pa.Table:
    """Take rows, and return the requested columns of them."""
    names, projection = project(columns, snapshot.described.arrow)
    table = take(names)
    table = projection.table(table) if projection else table
    return given_table(table) if snapshot.schema.has_marks else table


def computed(
    snapshot: Snapshot,
    expressions: Mapping[Any, Any],
    batch_size: int | None,
    fragment_ids: tuple[int, ...] | None = None,
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the columns of expressions, and their values for rows that are not deleted."""
    for pair in expressions.items():
        if not all(isinstance(text, str) for text in pair):
            raise InvalidInputError(f"expected names and SQL expressions, found {pair!r}")
    if not expressions:
        raise InvalidInputError("no columns to add")
    reads, projection = project(expressions, snapshot.described.arrow)
    assert projection is not None
    options = ScanOptions(columns=reads, batch_size=batch_size, fragment_ids=fragment_ids)
    schema = projection.schema(scan_schema(snapshot, options))
    rows = batches(scan_tables(snapshot, options), batch_size or BATCH_ROWS)
    return schema, map(projection.apply, rows)


def null_columns(snapshot: Snapshot, expressions: Mapping[str, str]) -> pa.Schema | None:
    """Return the columns of expressions that are all null; None if one is not.

    An example of such an expression is `CAST(NULL AS INT)`.
    """
    _, projection = project(expressions, snapshot.described.arrow)
    assert projection is not None
    items = projection.items
    if not all(item.is_null for _, item in items):
        return None
    return pa.schema([pa.field(name, item.field.type) for name, item in items])


def bind_values(
    updates: Mapping[str, str], schema: Schema, scope: pa.Schema, *, with_blobs: bool = False
) -> dict[str, BoundProjection]:
    """Bind the SQL expressions, by column, that columns of a table are set to.

    The SQL can name the columns of `scope`; `with_blobs` is whether the caller stores new payloads
    of blobs of version 1.
    """
    values = {}
    for name, text in updates.items():
        if not (isinstance(name, str) and isinstance(text, str)):
            raise InvalidInputError(f"expected a column and SQL, found {name!r}: {text!r}")
        if name not in schema.by_name:
            if "." in name:
                raise UnsupportedFeatureError(f"{name!r}: members of structs cannot be set alone")
            raise ColumnNotFoundError(f"no column {name!r}; the columns are {schema.names}")
        field = schema.by_name[name]
        if has_blobs(field) and not (with_blobs and field.blob_version == 1):
            raise UnsupportedFeatureError(
                f"{name!r}: these blobs cannot be set by SQL; merge rows with the new ones"
            )
        values[name] = _bound(text, field, scope)
    return values


def _names(columns: Any) -> tuple[str, ...]:
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise InvalidInputError(f"columns: expected names or a dict, found {columns!r}")
    names = tuple(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidInputError(f"columns: expected names, found {name!r}")
        if names.count(name) > 1:
            raise InvalidInputError(f"columns: {name!r} comes twice")
    return names


def _covered(path: str, wanted: Mapping[str, Any]) -> bool:
    parts = path.split(".")
    return any(".".join(parts[:depth]) in wanted for depth in range(1, len(parts)))


def _bound(text: str, field: Field, scope: pa.Schema) -> BoundProjection:
    if not field.is_json:
        return bind_assignment(text, scope, field.arrow_type)
    found = bind_projection(text, scope)
    is_binary = is_json_field(found.field)  # otherwise text, parsed when it is written
    return found if is_binary else bind_assignment(text, scope, pa.string())
