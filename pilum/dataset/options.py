"""Scan keywords as one frozen value: what to scan, and what to compute from it.

columns=["a", "s.x"]            scan a and s.x, return them
columns={"twice": "a * 2"}      scan a, compute twice, return it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pilum.arguments import require_count
from pilum.dataset.scan_arguments import ScanShape, shape_of
from pilum.errors import InvalidInputError
from pilum.expressions import bind, bind_projection
from pilum.format.blobs import materialized
from pilum.format.meta_columns import ROW_ADDRESS, ROW_ID
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot

if TYPE_CHECKING:
    from pilum.expressions.filter import BoundProjection

__all__ = [
    "BlobHandling",
    "Columns",
    "Filter",
    "Projection",
    "ScanRequest",
    "project",
    "request",
]

Columns: TypeAlias = Sequence[str] | Mapping[str, str]
"""Column names and dotted paths, or a dict of new names and SQL expressions."""

Filter: TypeAlias = "str | pc.Expression"
"""SQL, or a `pyarrow.compute` expression."""

BlobHandling: TypeAlias = Literal["all_binary", "blobs_descriptions", "all_descriptions"]
"""The form in which scans return blobs."""

_BLOB_HANDLING: dict[str | None, bool] = {
    None: False,
    "all_binary": True,
    "blobs_descriptions": False,
    "all_descriptions": False,
}
_PLAIN = ScanShape()


@dataclass(frozen=True)
class Projection:
    """A projection that computes columns from those that are read.

    Attributes:
        items: Name and expression of each computed column.
        kept: Columns that are passed through after them.
    """

    items: tuple[tuple[str, BoundProjection], ...]
    kept: tuple[str, ...] = ()

    @property
    def reads(self) -> tuple[str, ...]:
        """Return the columns to read; a struct is read once if it is also needed as a whole."""
        wanted = dict.fromkeys(name for _, item in self.items for name in item.columns)
        columns = tuple(name for name in wanted if not _covered(name, wanted))
        return columns or (ROW_ID,)  # constants still need the number of rows

    def schema(self, scanned: pa.Schema) -> pa.Schema:
        """Return the schema of the results of `apply` for batches of the schema `scanned`."""
        computed = [item.field.with_name(name) for name, item in self.items]
        kept = [scanned.field(name) for name in self.kept]
        return pa.schema([*computed, *kept], scanned.metadata)

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Compute the projected columns of one batch."""
        if not self.items and not self.kept:
            return batch.select([])
        computed = [item.evaluate(batch) for _, item in self.items]
        kept = [batch.column(name) for name in self.kept]
        return pa.RecordBatch.from_arrays([*computed, *kept], schema=self.schema(batch.schema))

    def table(self, table: pa.Table) -> pa.Table:
        """Compute the projected columns of a table."""
        batches = [self.apply(batch) for batch in table.to_batches()]
        return pa.Table.from_batches(batches, self.schema(table.schema))


@dataclass(frozen=True)
class ScanRequest:
    """The request for one scan.

    Attributes:
        options: Options that say what is read.
        projection: What is computed from it; None to return what is read.
        shape: Order and batch sizes of the results.
    """

    options: ScanOptions
    projection: Projection | None = None
    shape: ScanShape = _PLAIN

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of the batches of the scan."""
        scanned = scan_schema(snapshot, self.options)
        return self.projection.schema(scanned) if self.projection else scanned

    def limited(self, num_rows: int) -> ScanRequest:
        """Return the same scan, limited to `num_rows` rows."""
        limit = self.options.limit
        least = num_rows if limit is None else min(num_rows, limit)
        return replace(self, options=replace(self.options, limit=least))


def request(
    snapshot: Snapshot,
    *,
    columns: Columns | None,
    filter: Filter | None,
    limit: int | None,
    offset: int | None,
    batch_size: int | None,
    with_row_id: bool | None,
    with_row_address: bool | None,
    fragment_ids: Iterable[int] | None = None,
    blob_handling: BlobHandling | None = None,
    more: Mapping[str, Any] | None = None,
) -> ScanRequest:
    """Check scan keywords and bind them to a version.

    Filters always see descriptors of blobs, even if the scan returns their bytes. `more` holds the
    arguments of `ScanArguments`.

    Raises:
        ColumnNotFoundError: If a named column does not exist.
        FilterError: If the filter or a computed column cannot be parsed or bound.
        UnsupportedFeatureError: If an index search is requested.
        InvalidInputError: If any other argument is invalid.
    """
    shape = shape_of(more, with_row_id=bool(with_row_id)) if more else _PLAIN
    options = ScanOptions(
        filter=None if filter is None else bind(filter, snapshot.described.arrow),
        limit=None if limit is None else require_count("limit", limit),
        offset=0 if offset is None else require_count("offset", offset),
        batch_size=None if batch_size is None else require_count("batch_size", batch_size, 1),
        with_row_id=bool(with_row_id),
        with_row_address=bool(with_row_address),
        fragment_ids=None if fragment_ids is None else tuple(fragment_ids),
        with_payloads=_wants_payloads(blob_handling),
    )
    shown = materialized(snapshot.schema) if options.with_payloads else snapshot.described
    names, projection = project(columns, shown.arrow)
    if projection:
        meta = {ROW_ID: options.with_row_id, ROW_ADDRESS: options.with_row_address}
        kept = tuple(name for name, wanted in meta.items() if wanted)
        projection = replace(projection, kept=kept)
    return ScanRequest(replace(options, columns=names), projection, shape)


def _wants_payloads(blob_handling: str | None) -> bool:
    if blob_handling not in _BLOB_HANDLING:
        known = ", ".join(name for name in _BLOB_HANDLING if name)
        raise InvalidInputError(f"blob_handling: expected one of {known}, found {blob_handling!r}")
    return _BLOB_HANDLING[blob_handling]


def project(
    columns: Columns | None, schema: pa.Schema
) -> tuple[tuple[str, ...] | None, Projection | None]:
    """Return what to read for the requested columns, and what to compute from it.

    Raises:
        ColumnNotFoundError: If an expression names a column that does not exist.
        FilterError: If an expression cannot be parsed or bound.
        InvalidInputError: If `columns` is neither names nor expressions, or a name occurs twice.
    """
    if columns is None:
        return None, None
    if isinstance(columns, Mapping):
        items = tuple((name, bind_projection(text, schema)) for name, text in columns.items())
        projection = Projection(items)
        return projection.reads, projection
    return _names(columns), None


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
