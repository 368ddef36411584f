"""Look up the rows with one integer, or one of some, with as few steps as possible.

    to_table(filter="id = 5", columns=["a"])    key 5 in the index on `id` ──▶ the rows, no scan
    to_table(filter="id = 5")                   a checked scan; its plan uses the index
    to_table(filter="id IN (6, 7)")             keys 6, 7 in this index ──▶ the rows, no scan

The version remembers the index and, by the other keywords, the columns of the scan.
"""

from __future__ import annotations

from typing import Any, TypeAlias

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
    columns = None if sought is None else _columns(snapshot, keywords)
    parts = None if sought is None or columns is None else _parts(snapshot, *sought)
    if parts is None or columns is None:
        return None
    table = read_parts(snapshot, parts, columns)
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


def _columns(snapshot: Snapshot, keywords: ScanKeywords) -> ReadColumns | None:
    """Return the columns of a scan, if it is valid and returns all rows as they are read."""
    key = key_of_keywords(keywords)
    if key is None:
        return None
    found: ReadColumns | None = snapshot.prepared.get((quick_table, key))
    if found is None:
        known: _Known | None = snapshot.prepared.get(key)
        names = _names(snapshot, keywords) if known is None else _names_of(snapshot, known[0])
        if not names:
            return None
        found = ReadColumns.described(snapshot, names)
        snapshot.prepared.put((quick_table, key), found, 1)
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
