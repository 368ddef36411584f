"""Statistics of columns, from their values; those of parts of a table join to those of the whole.

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

# Types that Arrow does not compare.
_COMPARABLE = {
    pa.float16(): pa.float32(),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
}


@dataclass(frozen=True)
class ColumnSummary:
    """What some rows have in a column.

    Attributes:
        num_rows: Rows.
        null_count: Of them, those that are null.
        min: The least value; None if there is none, or the type has no order. NaN is no value.
        max: The greatest.
        distinct: The different values; None for nested types.
    """

    num_rows: int = 0
    null_count: int = 0
    min: Any = None
    max: Any = None
    distinct: Distinct | None = field(default=None, compare=False)

    @classmethod
    def of(cls, values: pa.Array) -> ColumnSummary:
        """Of an array."""
        least, most = _bounds(values)
        distinct = Distinct().with_values(values) if can_count(values.type) else None
        return cls(len(values), values.null_count, least, most, distinct)

    def joined(self, other: ColumnSummary) -> ColumnSummary:
        """Of the rows of both."""
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
    """Reads columns, a batch at a time.

    Args:
        snapshot: The version.
        columns: Names of columns.
        fragment_ids: Only these fragments; None for all.

    Returns:
        A summary of each column, without deleted rows.

    Raises:
        ColumnNotFoundError: If there is no such column.
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
