"""Few rows of local files, by their addresses.

    addresses ──▶ rows of each fragment ──▶ known pages ──▶ one kernel call ──▶ the given order
                                        ──▶ plain pages ──▶ the bytes of the rows
                                        ──▶ constant pages ──▶ their value

This is what searches and lookups end with, so it takes as few steps as possible. Structs whose
members are values count as several columns, unless they have nulls. Other columns with members,
small files in memory and pages that are not known yet are read as `take` reads them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import has_dictionaries, join_arrays, taken
from pilum.blocks import NUMBERS, fixed_bytes, number_array
from pilum.container.assemble import assemble_leaf, assemble_member
from pilum.container.fields import LeafFieldReader
from pilum.container.plain_rows import PlainRows
from pilum.container.segments import FieldReader
from pilum.encodings.base import Decoded, Layer
from pilum.encodings.structural.constant import ConstantRows
from pilum.encodings.structural.known_pages import KnownPage, read_known
from pilum.errors import CorruptFileError
from pilum.format.fields import Field
from pilum.format.rows import Addresses
from pilum.storage.base import Fetched
from pilum.table.read.columns import MetaColumns, ReadColumns
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.snapshot import Snapshot

__all__ = ["FEW_ADDRESSES", "FEW_ROWS", "few_rows", "few_rows_of", "reordered"]

FEW_ROWS = 1024
"""Maximum number of rows of fragments that are read this way; of more, decoding costs most."""

FEW_ADDRESSES = 128
"""Maximum number of addresses in any order that are sorted without NumPy."""

_FEW_PLAIN = 128
"""Of more wide values that are stored as they are, adjacent ones are worth returning uncopied."""

_ROW = (1 << 32) - 1

_Rows: TypeAlias = NDArray[np.int64]
"""Rows of a fragment, ascending and distinct."""

_Made: TypeAlias = dict[tuple[int, int, int], _Rows]
"""Rows within a page, by its first row and the rows of a fragment, from and to, in it."""


def few_rows(
    snapshot: Snapshot, addresses: Addresses, wanted: ReadColumns
) -> list[pa.Array] | None:
    """Return columns of the rows at addresses, in their order; None if they are read another way.

    Args:
        snapshot: The version, whose fragments have different ids.
        addresses: Addresses of rows, at most `FEW_ADDRESSES`, which may repeat.
        wanted: The columns.
    """
    if not wanted.fields or len(wanted.fields) != len(wanted.columns):  # some are in no file
        return None
    listed: list[int] = addresses.tolist()
    distinct = sorted(set(listed))
    fragments = list(_fragments(snapshot, distinct, wanted))
    if sum([len(rows) for _, rows in fragments]) < len(distinct):
        return None  # some rows do not exist
    arrays = _read(fragments, wanted)
    if arrays is None:
        return None
    if distinct != listed:
        place_of = dict(zip(distinct, range(len(distinct)), strict=True))
        order = np.array([place_of[address] for address in listed], np.int64)
        arrays = [_in_order(array, order) for array in arrays]
    return arrays


def few_rows_of(
    parts: Sequence[tuple[FragmentReader, NDArray[np.int64]]],
    wanted: ReadColumns,
    meta: MetaColumns,
) -> pa.Table | None:
    """Return rows of fragments, in their order; None if they have to be read another way.

    Args:
        parts: Fragments, and some of their physical rows, ascending and distinct; at most
            `FEW_ROWS` in all.
        wanted: The columns.
        meta: The columns that are in no file.
    """
    if not wanted.fields or not parts:
        return None
    fragments = [(reader.fields(wanted.fields), rows) for reader, rows in parts]
    arrays = _read(fragments, wanted)
    if arrays is None:
        return None
    if len(arrays) < len(wanted.columns):
        read = iter(arrays)
        arrays = [
            pa.concat_arrays([meta.values(reader, column.name, rows) for reader, rows in parts])
            if column.field is None
            else next(read)
            for column in wanted.columns
        ]
    return pa.Table.from_arrays(arrays, schema=wanted.schema)


def _leaves_of(fields: Sequence[FieldReader]) -> list[list[LeafFieldReader]]:
    """Return the leaves of each field; nothing if one has pages that are read another way."""
    found = []
    for field in fields:
        leaves = field.members if isinstance(field, LeafFieldReader) else []
        if not leaves:
            return []
        for leaf in leaves:
            if leaf.has_other_pages:
                return []
        found.append(leaves)
    return found


def _read(
    fragments: Sequence[tuple[list[FieldReader], _Rows]], wanted: ReadColumns
) -> list[pa.Array] | None:
    """Read rows of the fields of fragments; None if they have to be read another way."""
    pages: list[tuple[KnownPage, _Rows]] = []
    runs: list[list[list[_AnyRun]]] = []
    try:
        for fields, rows in fragments:
            made: _Made = {}
            columns = _leaves_of(fields)
            if not columns:
                return None
            if not runs:
                runs = [[[] for _ in leaves] for leaves in columns]
            for leaves, column in zip(columns, runs, strict=True):
                for leaf, own in zip(leaves, column, strict=True):
                    if not _add(leaf, rows, made, pages, own):
                        leaf.has_other_pages = True
                        return None
        if not runs:
            return None
        have_nulls: list[int] = []
        arrays = _arrays(wanted, pages, runs, have_nulls)
    except CorruptFileError:
        return None  # to be located
    if not have_nulls:
        return arrays
    for fields, _ in fragments:  # from now on, these structs are read another way
        for leaf in [leaf for place in have_nulls for leaf in _leaves_of([fields[place]])[0]]:
            leaf.has_other_pages = True
    return None


def _add(
    field: LeafFieldReader,
    rows: _Rows,
    made: _Made,
    pages: list[tuple[KnownPage, _Rows]],
    runs: list[_AnyRun],
) -> bool:
    """Add the pages of a field with rows of its fragment, or their places if pages are plain.

    Pages of other fields with the same rows share what is `made` of these.

    Returns:
        False if a page has another form.
    """
    known = _pages(field, rows, made)
    if known is None or (len(rows) > _FEW_PLAIN and known[0][0].layout.plain_bytes):
        plain = field.plain
        offsets = None if plain is None else plain.offsets(rows)
        if plain is not None and offsets is not None:
            runs.append(_PlainRun(plain, offsets))
            return True
        if known is None:
            if field.constant is None:
                return False
            runs.append(_ConstantRun(field.constant, len(rows)))
            return True
    for page, own in known:
        last = runs[-1] if runs else None
        if not isinstance(last, _Run) or last.form != page.form:
            runs.append(last := _Run(page.form))
        last.add(len(pages), len(own))
        pages.append((page, own))
    return True


class _ConstantRun(NamedTuple):
    """Rows that all have the one value of their page."""

    rows: ConstantRows
    num_rows: int


class _PlainRun(NamedTuple):
    """Rows that their pages store as they are, and where each begins in the file."""

    rows: PlainRows
    offsets: NDArray[np.int64]

    def read(self, field: Field, fetched: Fetched) -> pa.Array:
        """Return the rows of a field from their bytes."""
        kind, count, values = field.arrow_type, len(self.offsets), self.rows.values(fetched)
        if kind.id in NUMBERS:
            return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(values)], 0)
        layers = [Layer(count, None, 0, None)]
        decoded = Decoded(self.rows.encoding, [values.reshape(-1)], count, layers)
        return assemble_leaf(field, decoded, count)


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


_AnyRun: TypeAlias = "_Run | _PlainRun | _ConstantRun"


def _arrays(
    wanted: ReadColumns,
    pages: Sequence[tuple[KnownPage, _Rows]],
    runs: Sequence[Sequence[Sequence[_AnyRun]]],
    have_nulls: list[int],
) -> list[pa.Array]:
    """Return the columns that are in files; add the places of structs that have nulls."""
    every = [run for column in runs for own in column for run in own]
    groups = [run.places for run in every if isinstance(run, _Run)]
    plain = [run.rows.request(run.offsets) for run in every if type(run) is _PlainRun]
    known, others = read_known(pages, groups, plain)
    decoded, fetched = iter(known), iter(others)
    arrays = []
    stored = [column for column in wanted.columns if column.field is not None]
    for place, (column, field, own) in enumerate(zip(stored, wanted.fields, runs, strict=True)):
        if not field.children:
            pieces = _pieces(field, own[0], decoded, fetched, assemble_leaf)
            arrays.append(column.pick(_joined(pieces, column.name)))
            continue
        members = [
            _pieces(child, leaf, decoded, fetched, assemble_member)
            for child, leaf in zip(field.children, own, strict=True)
        ]
        if any(piece is None for pieces in members for piece in pieces):
            have_nulls.append(place)
            continue
        children = [_joined(pieces, column.name) for pieces in members]
        count = len(children[0])
        array = pa.Array.from_buffers(field.arrow_type, count, [None], 0, children=children)
        arrays.append(column.pick(array))
    return arrays


def _pieces(
    field: Field,
    runs: Sequence[_AnyRun],
    decoded: Iterator[Decoded],
    fetched: Iterator[Fetched],
    assembled: Callable[[Field, Decoded, int], pa.Array | None],
) -> list[pa.Array]:
    """Return the rows of a leaf, from the next of what was decoded and fetched."""
    return [
        assembled(field, next(decoded), run.num_rows)
        if isinstance(run, _Run)
        else run.read(field, next(fetched))
        if isinstance(run, _PlainRun)
        else assembled(field, run.rows.rows(run.num_rows), run.num_rows)
        for run in runs
    ]


def _joined(pieces: list[pa.Array], name: str) -> pa.Array:
    """Return the rows of a column; most have one piece, which begins at its first row."""
    return pieces[0] if len(pieces) == 1 else join_arrays(pieces, f"column {name!r}")


def reordered(table: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Return the rows at some places."""
    columns = [
        _in_order(column.chunk(0), order)
        if column.num_chunks == 1
        else taken(join_arrays(column.chunks, f"column {name!r}"), number_array(order))
        if column.num_chunks > 1 and has_dictionaries(column.type)
        else taken(column, number_array(order))
        for name, column in zip(table.column_names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _in_order(array: pa.Array, order: NDArray[np.int64]) -> pa.Array:
    """Return the values at some places."""
    if array.type.id in NUMBERS and not array.null_count:
        return _picked(array, order)
    return taken(array, number_array(order))


def _picked(numbers: pa.Array, order: NDArray[np.int64]) -> pa.Array:
    """Return the numbers at some places; for few of them several times as fast as Arrow."""
    values = fixed_bytes(numbers).view(f"u{numbers.type.bit_width // 8}")[order]
    buffers = [None, pa.py_buffer(values)]
    return pa.Array.from_buffers(numbers.type, len(values), buffers, 0)


def _fragments(
    snapshot: Snapshot, addresses: Sequence[int], wanted: ReadColumns
) -> Iterator[tuple[list[FieldReader], _Rows]]:
    """Yield the fields of each fragment with its rows; nothing more if a row does not exist."""
    first, count = 0, len(addresses)
    while first < count:
        number = addresses[first] >> 32
        last = bisect_left(addresses, (number + 1) << 32, first)
        rows = [address & _ROW for address in addresses[first:last]]
        fragment = snapshot.manifest.fragments.find(number)
        if fragment is None or rows[-1] >= fragment.physical_rows:
            return
        yield snapshot.reader(fragment).fields(wanted.fields), np.array(rows, np.int64)
        first = last


def _pages(
    field: LeafFieldReader, rows: _Rows, made: _Made
) -> list[tuple[KnownPage, _Rows]] | None:
    """Return the pages of a field with rows of its fragment; None if they are not known."""
    found = []
    cuts: list[int] = field.page_cuts
    first, count, end = 0, len(rows), int(rows[-1])
    while first < count:
        number = bisect_right(cuts, int(rows[first])) - 1
        page = field.known_page(number)
        if page is None:
            return None
        start, stop = cuts[number], cuts[number + 1]
        last = count if stop > end else int(rows.searchsorted(stop))
        own = made.get((start, first, last))
        if own is None:
            own = rows[first:last] - start if start else rows[first:last]
            made[start, first, last] = own
        found.append((page, own))
        first = last
    return found
