"""Look up the rows with one integer, or one of some, with as few steps as possible.

    to_table(filter="id = 5", columns=["a"])    key 5 in the index on `id` ──▶ the rows, no scan
    to_table(filter="id = 5")                   a checked scan; its plan uses the index
    to_table(filter="id IN (6, 7)")             keys 6, 7 in this index ──▶ the rows, no scan

The column of a single integer is not read: it has this integer in each row. The version remembers
the index and, by the other keywords, the columns of the scan.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import pyarrow as pa

from pilum.dataset.checked_scans import key_of_keywords
from pilum.dataset.scan import Scan, ScanKeywords
from pilum.expressions.quick import integers_sought
from pilum.table.indices.direct import index_of_integers
from pilum.table.indices.index_use import ANY_INDEX
from pilum.table.read.columns import ReadColumns
from pilum.table.read.json_columns import given_table
from pilum.table.read.scan import column_names
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import Part, read_parts

__all__ = ["quick_count", "quick_table"]

_Known: TypeAlias = "tuple[Scan, pa.Schema]"


def quick_table(snapshot: Snapshot, keywords: ScanKeywords) -> pa.Table | None:
    """Return the rows of a scan that looks up integers; None if it takes a scan."""
    filter = keywords.get("filter")
    sought = integers_sought(filter) if isinstance(filter, str) else None
    if sought is None:
        return None
    column, values = sought
    columns = _columns(snapshot, keywords, column if len(values) == 1 else None)
    parts = None if columns is None else _parts(snapshot, column, values)
    if parts is None or columns is None:
        return None
    table = columns.table(snapshot, parts, values[0])
    return given_table(table) if snapshot.schema.has_marks else table


def quick_count(snapshot: Snapshot, filter: object) -> int | None:
    """Return the number of rows with one of some integers; None if it takes a scan."""
    sought = integers_sought(filter) if isinstance(filter, str) else None
    direct = None if sought is None else index_of_integers(snapshot, sought[0])
    return None if sought is None or direct is None else direct.count_with(sought[1])


def _parts(snapshot: Snapshot, column: str, values: list[int]) -> list[Part] | None:
    """Return the rows with one of some integers; None if it takes a scan."""
    direct = index_of_integers(snapshot, column)
    return None if direct is None else direct.parts_with(values)


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a lookup.

    Attributes:
        schema: The schema of all.
        read: Those that are read; None for none.
        place: The place of the other one, which has one value in all rows; -1 if there is none.
    """

    schema: pa.Schema
    read: ReadColumns | None
    place: int

    @classmethod
    def of(cls, snapshot: Snapshot, names: tuple[str, ...], known: str | None) -> Self:
        """Return some columns of a version, of which one may have a known value."""
        every = ReadColumns.described(snapshot, names)
        if known not in names:
            return cls(every.schema, every, -1)
        place = names.index(known)
        others = names[:place] + names[place + 1 :]
        read = ReadColumns.described(snapshot, others) if others else None
        return cls(every.schema, read, place)

    def table(self, snapshot: Snapshot, parts: list[Part], value: int) -> pa.Table:
        """Return rows; `value` is that of the column that is not read."""
        table = None if self.read is None else read_parts(snapshot, parts, self.read)
        if table is not None and self.place < 0:
            return table
        num_rows = sum([len(rows) for _, rows in parts])
        field = self.schema.field(self.place)
        values = pa.repeat(pa.scalar(value, field.type), num_rows)
        if table is None:
            return pa.Table.from_arrays([values], schema=self.schema)
        return table.add_column(self.place, field, values)


def _columns(snapshot: Snapshot, keywords: ScanKeywords, column: str | None) -> _Columns | None:
    """Return the columns of a scan, if it is valid and returns all rows as they are read.

    `column` has one known value in all rows, if it is given.
    """
    key = key_of_keywords(keywords)
    if key is None:
        return None
    found: _Columns | None = snapshot.prepared.get((quick_table, key, column))
    if found is None:
        known: _Known | None = snapshot.prepared.get(key)
        names = _names(snapshot, keywords) if known is None else _names_of(snapshot, known[0])
        if not names:
            return None
        found = _Columns.of(snapshot, names, column)
        snapshot.prepared.put((quick_table, key, column), found, 1)
    return found


def _names(snapshot: Snapshot, keywords: ScanKeywords) -> tuple[str, ...]:
    """Return the columns of the first lookup of a version; none if its keywords are to be checked.

    They need not if there are no others than the filter and some columns of the table.
    """
    columns: Any = keywords.get("columns")
    num_given = len(keywords) - list(keywords.values()).count(None)
    if columns is None or num_given != len(("columns", "filter")) or snapshot.schema.has_marks:
        return ()
    known, names = snapshot.schema.by_name, tuple(columns)
    is_plain = all(map(known.__contains__, names)) and len(set(names)) == len(names)
    return names if is_plain else ()


def _names_of(snapshot: Snapshot, wanted: Scan) -> tuple[str, ...]:
    """Return the columns of a checked scan, if it returns all rows as they are read."""
    is_whole = wanted.is_plain and wanted.options.is_whole and wanted.indices is ANY_INDEX
    return column_names(snapshot, wanted.options) if is_whole else ()
