"""Random access: rows by position, id or address, in the requested order, possibly repeated.

positions ──▶ skip deleted rows ──▶ addresses ──▶ per fragment: sorted, distinct rows ──▶
one round of requests for all columns ──▶ decode only these values ──▶ restore the order
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby, pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import has_dictionaries, join_arrays
from pilum.container.segments import FieldReader, Segment, read_columns, read_segments
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.meta_columns import META_COLUMNS, ROW_ADDRESS
from pilum.format.rows import (
    RowRanges,
    addresses_of_rows,
    fragment_id_of,
    fragment_ids_of,
    rows_of,
)
from pilum.format.schema import Schema
from pilum.format.types import width_bits
from pilum.parallel import num_threads, submit
from pilum.storage.base import run_all
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import MetaColumns, ReadColumns
from pilum.table.read.few_rows import (
    FEW_ADDRESSES,
    FEW_ROWS,
    few_rows,
    few_rows_of,
    reordered,
)
from pilum.table.read.fragment_files import FragmentReader
from pilum.table.read.row_id_index import row_id_index
from pilum.table.read.snapshot import Snapshot

__all__ = [
    "Part",
    "addresses_of",
    "addresses_of_ids",
    "are_present",
    "columns_at",
    "count_at",
    "parts_at",
    "physical_rows",
    "read_parts",
    "take",
    "take_addresses",
    "take_row_ids",
]

_SMALL_BYTES = 64 * 1024
_TOGETHER = 256
"""Maximum number of adjacent small fragments that are read together."""
_FEW_VALUES = 16_384
"""Maximum number of rows x columns that are decoded together, each column into one array."""
_FEW_EACH = 32
"""The same per fragment, if there are many: a call for each costs more than it saves."""
_LARGE_BYTES = 256 * 1024
"""Pieces of a column of this mean size stay chunks: joining them would copy them once more."""
_MANY_VALUES = 32_768
"""Minimum number of rows x columns for which decoding uses more than one thread."""
_EFFORT_OF_VALUE = 4.0
"""What a value takes, whatever its size, as so many bytes of numbers."""
_EFFORT_OF_TEXT = 4.0
"""What a byte of texts takes, whose chunks are decoded whole, as so many bytes of numbers."""


Part = tuple[FragmentReader, NDArray[np.int64]]
"""A fragment, and some of its physical rows, ascending and distinct."""
_Find = Callable[[int], Fragment | None]
_Places: TypeAlias = "NDArray[Any]"
"""Rows of the only fragment, or keys: their fragment in the upper half, their row in the lower."""
_Split = Callable[[_Places], list[Part]]


def take(
    snapshot: Snapshot, rows: NDArray[np.int64], columns: Iterable[str] | None = None
) -> pa.Table:
    """Read rows by their position in scan order.

    Args:
        snapshot: The version.
        rows: int64, shape (n,), in any order; rows may repeat.
        columns: Names or dotted paths (a struct keeps only its named members), or names of
            `pilum.format.meta_columns`; None for all columns.

    Returns:
        n rows, in the order of `rows`.

    Raises:
        InvalidInputError: If a position does not exist.
        ColumnNotFoundError: If a column does not exist.
        CorruptFileError: If a file is damaged.
    """
    fragments = snapshot.manifest.fragments
    if len(fragments) == 1:  # the common case of small tables, whose rows need no addresses
        fragment = fragments[0]
        own = physical_rows(snapshot, fragment, _checked(rows, int(fragments.bounds[-1])))
        return _take(snapshot, own, columns, partial(_of_fragment, snapshot, fragment))
    number, physical = _located(snapshot, rows)
    places = addresses_of_rows(number, physical)
    split = partial(_by_fragment, snapshot, find=fragments.__getitem__)
    return _take(snapshot, places, columns, split)


def _of_fragment(snapshot: Snapshot, fragment: Fragment, rows: NDArray[np.int64]) -> list[Part]:
    """Return the one part with rows of a table that has one fragment."""
    if not len(rows):
        return []
    _require_row(snapshot, 0, fragment, int(rows[-1]))
    return [(snapshot.reader(fragment), rows)]


def _checked(rows: NDArray[np.int64], num_rows: int) -> NDArray[np.int64]:
    """Return positions as numbers of 64 bits; raise InvalidInputError if one does not exist."""
    rows = np.asarray(rows, dtype=np.int64)
    # As unsigned numbers, negative ones exceed the size of any table.
    if len(rows) and int(rows.view(np.uint64).max()) >= num_rows:
        wrong = (rows < 0) | (rows >= num_rows)
        raise InvalidInputError(f"row {int(rows[wrong.argmax()])} of a table with {num_rows} rows")
    return rows


def addresses_of(snapshot: Snapshot, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the addresses of rows, given their positions in scan order."""
    number, physical = _located(snapshot, rows)
    return addresses_of_rows(snapshot.manifest.fragments.ids[number], physical)


def _located(
    snapshot: Snapshot, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the place of the fragment and the physical row of each position in scan order."""
    fragments = snapshot.manifest.fragments
    bounds = fragments.bounds
    rows = _checked(rows, int(bounds[-1]))
    if len(fragments) == 1:
        return np.zeros_like(rows), physical_rows(snapshot, fragments[0], rows)
    number = np.searchsorted(bounds, rows, side="right") - 1
    physical = rows - bounds[number]
    touched = [n for n in np.unique(number).tolist() if fragments[n].deletion_file]
    found = _deletions(snapshot, [fragments[n] for n in touched])
    for n, deleted in zip(touched, found, strict=True):
        here = number == n
        physical[here] = physical[here] if deleted is None else deleted.physical(physical[here])
    return number, physical


def physical_rows(
    snapshot: Snapshot, fragment: Fragment, positions: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the physical rows at positions among the rows of a fragment that are not deleted."""
    deleted = snapshot.deletions(fragment)
    return positions if deleted is None else deleted.physical(positions)


def take_addresses(
    snapshot: Snapshot, addresses: NDArray[np.uint64], columns: Iterable[str] | None = None
) -> pa.Table:
    """Read rows by their address, in any order and with repetitions; deleted rows are omitted.

    InvalidInputError is raised if a fragment or row does not exist; the rest is as `take`.
    """
    found = _columns_at(snapshot, addresses, columns)
    return found if isinstance(found, pa.Table) else pa.Table.from_arrays(found[1], schema=found[0])


def columns_at(
    snapshot: Snapshot, addresses: NDArray[np.uint64], columns: Iterable[str]
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Read columns of rows by their address, by the names of the result of `take_addresses`."""
    found = _columns_at(snapshot, addresses, columns)
    if isinstance(found, pa.Table):
        return dict(zip(found.column_names, found.columns, strict=True))
    return dict(zip(found[0].names, found[1], strict=True))


def _columns_at(
    snapshot: Snapshot, addresses: NDArray[np.uint64], columns: Iterable[str] | None
) -> pa.Table | tuple[pa.Schema, list[pa.Array]]:
    """Return the rows of `take_addresses`: few of them as a schema and arrays."""
    places = np.asarray(addresses, dtype=np.uint64)
    if snapshot.manifest.fragments.have_deletions:
        places = places[are_present(snapshot, places)]
    find = _finder(snapshot)
    if len(places) <= FEW_ADDRESSES and not snapshot.store.is_remote:
        wanted = _columns(snapshot, columns)
        found = few_rows(snapshot, places, wanted)
        if found is not None:
            return wanted.schema, found
    return _take(snapshot, places, columns, partial(_by_fragment, snapshot, find=find))


def take_row_ids(
    snapshot: Snapshot, ids: NDArray[np.uint64], columns: Iterable[str] | None = None
) -> pa.Table:
    """Read rows by their id, wherever they are now; ids of no row are omitted; else as `take`.

    In tables without stable row ids, ids are addresses.
    """
    places, is_there = addresses_of_ids(snapshot, ids)
    split = partial(_by_fragment, snapshot, find=_finder(snapshot))
    return _take(snapshot, places[is_there], columns, split)


def parts_at(snapshot: Snapshot, addresses: NDArray[np.uint64]) -> list[Part]:
    """Return the parts with the rows at ascending, distinct addresses; deleted rows are omitted.

    InvalidInputError is raised if a fragment or row does not exist.
    """
    present = addresses
    if snapshot.manifest.fragments.have_deletions:
        present = addresses[are_present(snapshot, addresses)]
    return _by_fragment(snapshot, present, _finder(snapshot))


def count_at(snapshot: Snapshot, addresses: NDArray[np.uint64]) -> int:
    """Return how many rows at ascending, distinct addresses are not deleted.

    InvalidInputError is raised if a fragment or row does not exist.
    """
    present = addresses
    if snapshot.manifest.fragments.have_deletions:
        present = addresses[are_present(snapshot, addresses)]
    return sum([len(rows) for _, rows in _located_rows(snapshot, present, _finder(snapshot))])


def addresses_of_ids(
    snapshot: Snapshot, ids: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return the address of the row with each given id, and whether it exists."""
    wanted = np.asarray(ids, dtype=np.uint64)
    if snapshot.has_stable_row_ids:
        return row_id_index(snapshot).find(wanted)
    return wanted, are_present(snapshot, wanted)


def are_present(snapshot: Snapshot, addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return whether the row at each address exists and is not deleted."""
    present = np.ones(len(addresses), dtype=np.bool_)
    places = snapshot.manifest.fragments
    if not places.have_deletions:
        return present
    ids = fragment_ids_of(addresses)
    known = filter(None, map(places.find, np.unique(ids).tolist()))
    shrunken = [fragment for fragment in known if fragment.deletion_file]
    for fragment, deleted in zip(shrunken, _deletions(snapshot, shrunken), strict=True):
        here = ids == fragment.id
        present[here] = ~deleted.contains(rows_of(addresses[here])) if deleted else True
    return present


def _deletions(snapshot: Snapshot, fragments: Sequence[Fragment]) -> list[DeletionVector | None]:
    """Return the deleted rows of some fragments."""
    return run_all(snapshot.store, [partial(snapshot.deletions, one) for one in fragments])


def _finder(snapshot: Snapshot) -> _Find:
    """Return a lookup of fragments by id; ids are unique except in some tables of release 0.16."""
    places = snapshot.manifest.fragments
    if not places.are_distinct:
        raise CorruptFileError(
            "two fragments have one id, so that rows have no address; read them by position, or "
            "write the rows to a table of its own",
            f"{snapshot.store.uri}, version {snapshot.manifest.version}",
        )
    return places.find


def _take(
    snapshot: Snapshot, places: _Places, columns: Iterable[str] | None, split: _Split
) -> pa.Table:
    """Read rows at places, given a function that splits ascending, distinct places into parts."""
    wanted = _columns(snapshot, columns)
    if not wanted.columns:  # a table without columns loses its rows in Arrow
        return _take(snapshot, places, [ROW_ADDRESS], split).select([])
    in_order = len(places) < 2 or bool((places[:-1] < places[1:]).all())
    distinct, back = (places, None) if in_order else _sorted(places)
    table = read_parts(snapshot, split(distinct), wanted)
    return table if back is None else reordered(table, back)


def _sorted(places: _Places) -> tuple[_Places, NDArray[np.int64]]:
    """Return the distinct places in order, and where each of the given places is among them."""
    order = places.argsort()
    found = places[order]
    if not (found[:-1] < found[1:]).all():
        return np.unique(places, return_inverse=True)
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return found, back


def _columns(snapshot: Snapshot, columns: Iterable[str] | None) -> ReadColumns:
    """Return the columns of a take; paths into one struct become one column with their members."""
    wanted = None if columns is None else tuple(columns)
    key = take, wanted
    found: ReadColumns | None = snapshot.prepared.get(key)
    if found is None:
        made = ReadColumns.of(*_projection(snapshot, wanted))
        found = snapshot.prepared.put_if_absent(key, made, 1)
    return found


def _projection(
    snapshot: Snapshot, columns: tuple[str, ...] | None
) -> tuple[Schema, Iterable[str]]:
    """Return the schema to read, and the names of the columns of the result."""
    if columns is None:
        return snapshot.described, snapshot.described.names
    meta = set(META_COLUMNS).difference(snapshot.schema.names)
    schema = snapshot.described.project([name for name in columns if name not in meta])
    tops = set(schema.names)
    names = dict.fromkeys(
        name if name in meta or name in tops else name.split(".")[0] for name in columns
    )
    return schema, names


def _by_fragment(snapshot: Snapshot, addresses: _Places, find: _Find) -> list[Part]:
    """Return the requested rows of each fragment, both in ascending order."""
    located = _located_rows(snapshot, addresses, find)
    return [(snapshot.reader(fragment), rows) for fragment, rows in located]


def _located_rows(
    snapshot: Snapshot, addresses: NDArray[np.uint64], find: _Find
) -> list[tuple[Fragment, NDArray[np.int64]]]:
    """Return the fragments of ascending addresses, and the rows in each."""
    if not len(addresses):
        return []
    rows = rows_of(addresses)
    number = fragment_id_of(addresses[0])
    if fragment_id_of(addresses[-1]) == number:  # the common case of few rows
        return [(_require_row(snapshot, number, find(number), int(rows[-1])), rows)]
    ids = fragment_ids_of(addresses)
    ends = [0, *((ids[1:] != ids[:-1]).nonzero()[0] + 1).tolist(), len(ids)]
    found = []
    for start, end in pairwise(ends):
        number, own = int(ids[start]), rows[start:end]
        fragment = find(number)
        found.append((_require_row(snapshot, number, fragment, int(own[-1])), own))
    return found


def _require_row(snapshot: Snapshot, number: int, fragment: Fragment | None, row: int) -> Fragment:
    """Return a fragment; raise InvalidInputError if there is none, or it has not the row."""
    if fragment is None or row >= fragment.physical_rows:
        raise InvalidInputError(
            f"no row {row} in fragment {number} of version {snapshot.manifest.version}"
        )
    return fragment


def read_parts(snapshot: Snapshot, parts: list[Part], wanted: ReadColumns) -> pa.Table:
    """Read rows of fragments, in the order of the parts.

    Parts with few rows in local files share chunks, and so do adjacent small fragments.
    """
    num_rows = len(parts[0][1]) if len(parts) == 1 else sum([len(rows) for _, rows in parts])
    meta = MetaColumns(snapshot)
    if num_rows <= FEW_ROWS and not snapshot.store.is_remote:
        found = few_rows_of(parts, wanted, meta)
        if found is not None:
            return found
    if len(parts) == 1:
        return _rows_of(parts, wanted, meta)
    are_few = _are_few(parts, wanted) and not snapshot.store.is_remote
    tables: list[pa.Table] = []
    for is_joint, group in groupby(parts, lambda part: are_few or _is_small(part[0])):
        adjacent = list(group)
        if is_joint:
            steps = range(0, len(adjacent), _TOGETHER)
            pieces = (adjacent[start : start + _TOGETHER] for start in steps)
            tables += [_rows_of(piece, wanted, meta) for piece in pieces]
        else:
            reads = [partial(_rows_of, [part], wanted, meta) for part in adjacent]
            tables += run_all(snapshot.store, reads)
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(tables) if tables else wanted.schema.empty_table()


def _are_few(parts: Sequence[Part], wanted: ReadColumns) -> bool:
    """Return whether the rows of all parts are decoded together."""
    num_values = sum([len(rows) for _, rows in parts]) * len(wanted.fields)
    return num_values <= _most_together(len(parts))


def _most_together(num_fragments: int) -> int:
    return max(_FEW_VALUES, _FEW_EACH * num_fragments)


def _is_small(reader: FragmentReader) -> bool:
    """Return whether all files of a fragment are small and local, so that they are in memory."""
    if reader.store.is_remote:
        return False
    sizes = [file.size_bytes for file in reader.fragment.files]
    return bool(sizes) and all(size is not None and size <= _SMALL_BYTES for size in sizes)


def _rows_of(parts: Sequence[Part], wanted: ReadColumns, meta: MetaColumns) -> pa.Table:
    """Return rows of some fragments, whose pages are decoded together."""
    fields: list[FieldReader] = []
    segments: list[list[Segment]] = [[] for _ in wanted.fields]
    for reader, rows in parts:
        ranges = RowRanges.of_rows(rows)
        fields = reader.fields(wanted.fields)
        for own, field in zip(segments, fields, strict=True):
            own.extend(field.segments(ranges))
    num_rows = sum([len(rows) for _, rows in parts])
    are_few = _are_few(parts, wanted) and not parts[0][0].store.is_remote
    read = zip(_read_columns(segments, fields, num_rows, are_few), fields, strict=True)
    made = []
    for column in wanted.columns:
        if column.field is None:
            values = [meta.values(reader, column.name, rows) for reader, rows in parts]
            made.append(pa.concat_arrays(values))
        else:
            pieces, field = next(read)
            picked = [column.pick(piece) for piece in pieces or [field.empty()]]
            made.append(_column(picked, f"column {column.name!r}"))
    return pa.Table.from_arrays(made, schema=wanted.schema)


def _column(pieces: list[pa.Array], what: str) -> pa.Array | pa.ChunkedArray:
    """Return one column, given the rows of its pages; `what` names it in errors."""
    if len(pieces) > 1 and not has_dictionaries(pieces[0].type):
        size_bytes = sum([piece.nbytes for piece in pieces])
        if size_bytes >= _LARGE_BYTES * len(pieces):
            return pa.chunked_array(pieces)
    return join_arrays(pieces, what)


def _read_columns(
    segments: list[list[Segment]], fields: list[FieldReader], num_rows: int, are_few: bool
) -> list[list[pa.Array]]:
    """Return arrays with the rows of the segments of each column."""
    if are_few:
        return read_columns(segments)
    if num_rows * len(segments) >= _MANY_VALUES:
        return _read_in_threads(segments, [_effort(field) for field in fields])
    arrays = iter(read_segments([segment for column in segments for segment in column]))
    return [[next(arrays) for _ in column] for column in segments]


def _read_in_threads(segments: list[list[Segment]], efforts: list[float]) -> list[list[pa.Array]]:
    """Read groups of fields, one per thread with this one, each with one round of requests."""
    groups = _even_groups(efforts, min(num_threads(), len(segments)))
    flat = [[segment for place in group for segment in segments[place]] for group in groups]
    futures = [submit(partial(read_segments, part)) for part in flat[1:]]
    results = [iter(read_segments(flat[0])), *(iter(future.result()) for future in futures)]
    read: list[list[pa.Array]] = [[] for _ in segments]
    for group, arrays in zip(groups, results, strict=True):
        for place in group:
            read[place] = [next(arrays) for _ in segments[place]]
    return read


def _effort(field: FieldReader) -> float:
    """Estimate how long a row of a field takes, in any unit."""
    kind = field.field.arrow_type
    size = field.bytes_per_row
    return _EFFORT_OF_VALUE + size * (_EFFORT_OF_TEXT if width_bits(kind) is None else 1)


def _even_groups(efforts: list[float], count: int) -> list[list[int]]:
    """Split the places of efforts into groups of about the same sum: each to the least so far."""
    groups: list[list[int]] = [[] for _ in range(count)]
    sums = [0.0] * count
    for place in sorted(range(len(efforts)), key=efforts.__getitem__, reverse=True):
        least = sums.index(min(sums))
        groups[least].append(place)
        sums[least] += efforts[place]
    return groups
