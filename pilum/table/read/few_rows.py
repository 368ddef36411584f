"""Few rows of local files, by their addresses.

    addresses ──▶ rows of each fragment ──▶ known pages ──▶ one kernel call ──▶ the given order

This is what searches and lookups end with, so it takes as few steps as possible. Columns with
members, small files in memory and pages that are not known yet are read as `take` reads them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import has_dictionaries, join_arrays, taken
from pilum.blocks import NUMBERS, fixed_bytes, integers
from pilum.container.assemble import assemble_leaf
from pilum.container.fields import LeafFieldReader
from pilum.container.segments import FieldReader
from pilum.encodings.structural.known_pages import KnownPage, read_known
from pilum.errors import CorruptFileError
from pilum.format.rows import Addresses, RowRanges
from pilum.table.read.columns import ReadColumns
from pilum.table.read.snapshot import Snapshot

__all__ = ["FEW_ROWS", "few_rows", "reordered"]

FEW_ROWS = 16
"""Maximum number of rows that are read this way."""

_ROW = (1 << 32) - 1


def few_rows(snapshot: Snapshot, addresses: Addresses, wanted: ReadColumns) -> pa.Table | None:
    """Return the rows at addresses, in their order; None if they have to be read another way.

    Args:
        snapshot: The version, whose fragments have different ids.
        addresses: Addresses of rows, at most `FEW_ROWS`, which may repeat.
        wanted: The columns.
    """
    if not wanted.fields or len(wanted.fields) != len(wanted.columns):  # some are in no file
        return None
    listed: list[int] = addresses.tolist()
    order = sorted(range(len(listed)), key=listed.__getitem__)
    distinct: list[int] = []
    back = np.empty(len(listed), np.int64)
    for place in order:
        if not distinct or listed[place] != distinct[-1]:
            distinct.append(listed[place])
        back[place] = len(distinct) - 1
    fragments = list(_fragments(snapshot, distinct, wanted))
    if sum(len(rows) for _, rows in fragments) < len(distinct):
        return None  # some rows do not exist
    pages: list[tuple[KnownPage, NDArray[np.int64]]] = []
    runs: list[list[_Run]] = [[] for _ in wanted.fields]
    for fields, rows in fragments:
        for own, field in zip(runs, fields, strict=True):
            known = _pages(field, rows)
            if known is None:
                return None
            for page, ranges in known:
                if not own or own[-1].form != page.form:
                    own.append(_Run(page.form))
                own[-1].add(len(pages), ranges.num_rows)
                pages.append((page, ranges.bounds))
    try:
        arrays = _arrays(wanted, pages, runs) if pages else None
    except CorruptFileError:
        return None  # to be located
    if arrays is None:
        return None
    table = pa.Table.from_arrays(arrays, schema=wanted.schema)
    is_in_order = len(distinct) == len(listed) and order == list(range(len(listed)))
    return table if is_in_order else reordered(table, back)


class _Run:
    """Pages of a column whose rows become one array.

    Attributes:
        form: What they have in common.
        places: Their places among all pages.
        num_rows: The number of rows to read of them.
    """

    __slots__ = ("form", "num_rows", "places")

    def __init__(self, form: Hashable) -> None:
        self.form = form
        self.places: list[int] = []
        self.num_rows = 0

    def add(self, place: int, num_rows: int) -> None:
        """Add a page."""
        self.places.append(place)
        self.num_rows += num_rows


def _arrays(
    wanted: ReadColumns,
    pages: Sequence[tuple[KnownPage, NDArray[np.int64]]],
    runs: Sequence[Sequence[_Run]],
) -> list[pa.Array] | None:
    """Return the columns; None if the chunks of a page are not known yet."""
    found = read_known(pages, [run.places for own in runs for run in own])
    if found is None:
        return None
    decoded = iter(found)
    arrays = []
    for column, field, own in zip(wanted.columns, wanted.fields, runs, strict=True):
        pieces = [assemble_leaf(field, next(decoded), run.num_rows) for run in own]
        arrays.append(column.pick(join_arrays(pieces, f"column {column.name!r}")))
    return arrays


def reordered(table: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Return the rows at some places."""
    places = integers(order)
    columns = [
        _picked(column.chunk(0), order)
        if column.num_chunks == 1 and column.type.id in NUMBERS and not column.null_count
        else taken(join_arrays(column.chunks, f"column {name!r}"), places)
        if column.num_chunks > 1 and has_dictionaries(column.type)
        else taken(column, places)
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _picked(numbers: pa.Array, order: NDArray[np.int64]) -> pa.Array:
    """Return the numbers at some places; for few of them several times as fast as Arrow."""
    values = fixed_bytes(numbers).view(f"u{numbers.type.bit_width // 8}")[order]
    buffers = [None, pa.py_buffer(values)]
    return pa.Array.from_buffers(numbers.type, len(values), buffers, 0)


def _fragments(
    snapshot: Snapshot, addresses: Sequence[int], wanted: ReadColumns
) -> Iterator[tuple[list[FieldReader], list[int]]]:
    """Yield the fields of each fragment with its rows; nothing more if a row does not exist."""
    first, count = 0, len(addresses)
    while first < count:
        number = addresses[first] >> 32
        last = bisect_left(addresses, (number + 1) << 32, first)
        rows = [address & _ROW for address in addresses[first:last]]
        fragment = snapshot.manifest.fragments.find(number)
        if fragment is None or rows[-1] >= fragment.physical_rows:
            return
        yield snapshot.reader(fragment).fields(wanted.fields), rows
        first = last


def _pages(field: FieldReader, rows: list[int]) -> list[tuple[KnownPage, RowRanges]] | None:
    """Return the pages of a field with rows of its fragment; None if they are not known."""
    if not isinstance(field, LeafFieldReader):
        return None
    found = []
    cuts: list[int] = field.page_cuts
    first, count = 0, len(rows)
    while first < count:
        number = bisect_right(cuts, rows[first]) - 1
        page = field.known_page(number)
        if page is None:
            return None
        last = count if cuts[number + 1] > rows[-1] else bisect_left(rows, cuts[number + 1], first)
        start = cuts[number]
        own = rows[first:last] if start == 0 else [row - start for row in rows[first:last]]
        found.append((page, RowRanges.of_few(own)))
        first = last
    return found
