"""Scans that return only the first rows of an order: most other rows are excluded by a filter.

    order by x, limit 3     1. a sample of the rows: the third smallest x in it is 17
                            2. x of the rows with x <= 17, by zone maps and encoded pages
                            3. these are sorted, and the other columns of three rows are read

At least as many rows as are requested have a value up to the bound, so that no other row can be
among them. Rows with equal values are kept. The sample is taken at several places of the table,
both ends included, because many tables are stored in the order of a column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from pyroaring import BitMap

from pilum.expressions.filter import BoundFilter, SqlFilter
from pilum.expressions.nodes import And, Column, Compare, Constant, Expression, IsNull, Or
from pilum.format.meta_columns import META_COLUMNS, ROW_ADDRESS
from pilum.format.rows import addresses_of_rows
from pilum.index.answers import RowSet
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import ScanColumn
from pilum.table.read.ordering import ColumnOrdering, ordered
from pilum.table.read.scan import ScanOptions, column_names, scan, scan_schema
from pilum.table.read.selection import Selection
from pilum.table.read.snapshot import Snapshot

__all__ = ["only_first", "with_bound"]

_SAMPLES = 16
_SAMPLE_ROWS = 1024
_SHARE = 4
"""The table must have this many times the rows of the sample, and the sample this many times the
requested ones; otherwise the bound is not worth its price."""


def with_bound(
    snapshot: Snapshot, options: ScanOptions, keys: Sequence[ColumnOrdering], num_rows: int
) -> ScanOptions | None:
    """Return options that leave out most rows that are not among the first ones of an order.

    Args:
        snapshot: The version.
        options: What is scanned, without a limit.
        keys: The sort keys, at least one.
        num_rows: How many of the first rows are needed.

    Returns:
        Options with a stronger filter; None if no bound is known.

    Raises:
        CorruptFileError: If a file is damaged.
        FilterError: If the filter fails on a value.
    """
    [first, *_] = keys
    if options.row_range is not None or not 0 < num_rows * _SHARE <= _SAMPLES * _SAMPLE_ROWS:
        return None
    if not isinstance(options.filter, SqlFilter | None) or options.with_payloads:
        return None
    column = ScanColumn(snapshot.schema, first.column_name)
    if column.leaf is None or not _is_comparable(column.arrow.type):
        return None
    fragments = _fragments(snapshot, options)
    total = sum(fragment.physical_rows for fragment in fragments)
    if total < _SHARE * _SAMPLES * _SAMPLE_ROWS:
        return None
    name = first.column_name
    found = scan(snapshot, _sample(options, fragments, name))
    last = ordered(found, pa.schema([column.arrow]), [first], num_rows - 1, 1)
    if not last.num_rows:
        return None
    path = Column((name,) if column.leaf is column.field else tuple(name.split(".")))
    bound = _bound(path, first, last.column(0)[0])
    return None if bound is None else options.with_filter(_both(options.filter, name, bound))


def only_first(
    snapshot: Snapshot, options: ScanOptions, keys: Sequence[ColumnOrdering], num_rows: int
) -> ScanOptions:
    """Return options that select exactly the first rows of an order; only the keys are read.

    Args:
        snapshot: The version, whose fragments have distinct ids.
        options: What is scanned, without a limit.
        keys: The sort keys, columns of files.
        num_rows: How many rows to select at most.

    Raises:
        CorruptFileError: If a file is damaged.
        FilterError: If the filter fails on a value.
    """
    names = tuple(dict.fromkeys(key.column_name for key in keys))
    others = {*column_names(snapshot, options)} - {*names}
    if not others or {*names} & {*META_COLUMNS}:
        return options
    asked = replace(options, columns=names, with_row_id=False, with_row_address=True)
    found = ordered(scan(snapshot, asked), scan_schema(snapshot, asked), keys, 0, num_rows)
    addresses = np.sort(found.column(ROW_ADDRESS).to_numpy())
    covered = BitMap(fragment.id for fragment in _fragments(snapshot, options))
    return options.with_selection(Selection(covered, RowSet(addresses), is_exact=True))


def _is_comparable(kind: pa.DataType) -> bool:
    """Return whether filters order values of a type as sorting does."""
    return bool(
        pt.is_integer(kind)
        or pt.is_float32(kind)
        or pt.is_float64(kind)
        or pt.is_decimal(kind)
        or pt.is_date(kind)
        or pt.is_timestamp(kind)
        or pt.is_string(kind)
        or pt.is_large_string(kind)
    )


def _fragments(snapshot: Snapshot, options: ScanOptions) -> list[Fragment]:
    """Return the scanned fragments; none if an id is not distinct or does not exist."""
    every, numbers = snapshot.manifest.fragments, options.fragment_ids
    listed = list(every) if numbers is None else [every.find(number) for number in numbers]
    found = [fragment for fragment in listed if fragment is not None]
    return found if len({fragment.id for fragment in found}) == len(listed) else []


def _sample(options: ScanOptions, fragments: Sequence[Fragment], name: str) -> ScanOptions:
    """Return options that read a column at several places, spread evenly over physical rows."""
    ends = np.cumsum([fragment.physical_rows for fragment in fragments])
    starts = np.linspace(0, ends[-1] - _SAMPLE_ROWS, _SAMPLES).astype(np.int64)
    places = (starts[:, None] + np.arange(_SAMPLE_ROWS)).ravel()
    owners = ends.searchsorted(places, side="right")
    firsts = ends - [fragment.physical_rows for fragment in fragments]
    ids = np.array([fragment.id for fragment in fragments])
    rows = RowSet.of(addresses_of_rows(ids[owners], places - firsts[owners]))
    sampled = tuple(ids[np.unique(owners)].tolist())
    selection = Selection(BitMap(sampled), rows, is_exact=options.filter is None)
    return replace(
        options,
        columns=(name,),
        with_row_id=False,
        with_row_address=False,
        fragment_ids=sampled,
        selection=selection,
    )


def _bound(column: Column, key: ColumnOrdering, value: pa.Scalar) -> Expression | None:
    """Return what holds for all rows up to one with a value; None if that is unknown."""
    if not value.is_valid:
        return IsNull(column) if key.nulls_first else None
    if pt.is_floating(value.type) and np.isnan(value.as_py()):
        return None
    compared = Compare("<=" if key.ascending else ">=", column, Constant(value))
    return Or((IsNull(column), compared)) if key.nulls_first else compared


def _both(filter: BoundFilter | None, name: str, bound: Expression) -> SqlFilter:
    """Return a filter for the rows that match another one and keep a bound."""
    if filter is None:
        return SqlFilter((name,), bound)
    assert isinstance(filter, SqlFilter)
    columns = tuple(dict.fromkeys((*filter.columns, name)))
    return replace(filter, columns=columns, node=And((filter.node, bound)))
