"""Statistics of columns, computed from values; summaries of parts of a table can be merged.

fragments 0 1 2   ──▶ ColumnSummary ─┐
fragments 3 4     ──▶ ColumnSummary ─┴─▶ ColumnSummary ──▶ num_rows, nulls, min, max, distinct
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pilum.table.read.distinct import Distinct, can_count
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["ColumnSummary", "summarize"]

# Types that Arrow cannot compare.
_COMPARABLE = {
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


@dataclass(frozen=True)
class ColumnSummary:
    """Statistics of some rows of a column.

    Attributes:
        num_rows: Number of rows.
        null_count: Number of these rows that are null.
        min: The smallest value; None if there is none, or the type has no order. NaN is ignored.
        max: The largest value; None in the same cases.
        distinct: Sketch of the distinct values; None for nested types.
    """

    num_rows: int = 0
    null_count: int = 0
    min: Any = None
    max: Any = None
    distinct: Distinct | None = field(default=None, compare=False)

    @classmethod
    def of(cls, values: pa.Array) -> ColumnSummary:
        """Summarize an array."""
        least, most = _bounds(values)
        distinct = Distinct().with_values(values) if can_count(values.type) else None
        return cls(len(values), values.null_count, least, most, distinct)

    def joined(self, other: ColumnSummary) -> ColumnSummary:
        """Return the summary of the rows of both."""
        return ColumnSummary(
            self.num_rows + other.num_rows,
            self.null_count + other.null_count,
            _chosen(min, self.min, other.min),
            _chosen(max, self.max, other.max),
            _both(self.distinct, other.distinct),
        )


def summarize(
    snapshot: Snapshot, columns: Iterable[str], fragment_ids: Iterable[int] | None = None
) -> dict[str, ColumnSummary]:
    """Summarize columns, reading a batch at a time.

    Args:
        snapshot: The version.
        columns: Names of columns.
        fragment_ids: Ids of the fragments to read; None for all.

    Returns:
        A summary of each column, which ignores deleted rows.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        CorruptFileError: If a file is damaged.
    """
    names = tuple(columns)
    ids = None if fragment_ids is None else tuple(fragment_ids)
    found = dict.fromkeys(names, ColumnSummary())
    for batch in scan(snapshot, ScanOptions(columns=names, fragment_ids=ids)):
        for name in names:
            found[name] = found[name].joined(ColumnSummary.of(batch.column(name)))
    return found


def _bounds(values: pa.Array) -> tuple[Any, Any]:
    kind = values.type
    if not can_count(kind) or pt.is_interval(kind):
        return None, None
    if pt.is_dictionary(kind):
        values = values.dictionary_decode()
    elif (comparable := _COMPARABLE.get(kind)) is not None:
        values = values.cast(comparable)
    found = pc.min_max(values)
    return found["min"].as_py(), found["max"].as_py()


def _chosen(choose: Callable[[Any, Any], Any], one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    return choose(one, other)


def _both(one: Distinct | None, other: Distinct | None) -> Distinct | None:
    if one is None or other is None:
        return other if one is None else one
    return one.joined(other)
