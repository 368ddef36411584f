"""The estimated costs of scans and of rows that indices find, in nanoseconds, as measured."""

from __future__ import annotations

import pyarrow as pa
from pyroaring import BitMap

from pilum.table.read.columns import scan_columns
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "FRAGMENT_NS",
    "LISTED_ROW_NS",
    "READ_ROW_NS",
    "num_rows_of",
    "scan_ns",
    "scan_of_unknown_ns",
]

LISTED_ROW_NS = 80
"""A row that an index lists: by value, so that rows are sorted."""
READ_ROW_NS = 100
"""A row that is read at its place."""
FRAGMENT_NS = 50_000
"""Beginning to read a fragment."""

_SCANNED_ROW_NS = 2
_SCANNED_BYTE_NS = 0.4
_VARIABLE_BYTES = 32
"""Assumed width of values of variable width."""


def scan_ns(snapshot: Snapshot, columns: tuple[str, ...], num_rows: int) -> float:
    """Return the estimated time in which a scan tests rows of the columns of a filter."""
    return num_rows * (_SCANNED_ROW_NS + _row_bytes(snapshot, columns) * _SCANNED_BYTE_NS)


def scan_of_unknown_ns(num_rows: int) -> float:
    """Return the estimated time in which a scan tests rows of a column of variable width."""
    return num_rows * (_SCANNED_ROW_NS + _VARIABLE_BYTES * _SCANNED_BYTE_NS)


def num_rows_of(snapshot: Snapshot, fragment_ids: BitMap | tuple[int, ...]) -> int:
    """Return the number of live rows of fragments; those that are gone have none."""
    fragments = snapshot.manifest.fragments
    if len(fragment_ids) == len(fragments):
        return snapshot.num_rows
    found = map(fragments.find, fragment_ids)
    return sum(fragment.num_rows for fragment in found if fragment is not None)


def _row_bytes(snapshot: Snapshot, names: tuple[str, ...]) -> float:
    """Return the width of the columns of a filter, which the version remembers."""
    key = _row_bytes, names
    found: float | None = snapshot.prepared.get(key)
    if found is None:
        columns = scan_columns(snapshot.described, names)
        found = sum(_width_bytes(column.arrow.type) for column in columns)
        snapshot.prepared.put(key, found, 1)
    return found


def _width_bytes(arrow: pa.DataType) -> float:
    try:
        return float(arrow.bit_width) / 8
    except ValueError:
        return _VARIABLE_BYTES
