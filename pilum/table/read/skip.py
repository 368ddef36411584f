"""Data skipping: finds the rows of a fragment that a filter has to test, with zone maps.

batches of a legacy file   | x in [1, 9] | x in [5, 12] | x unknown |
filter x > 10              |             |##############|###########|     rows that are read

Zones of row ids, addresses and versions are always known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pilum.blocks import integers
from pilum.expressions.filter import BoundFilter
from pilum.expressions.prune import Zones
from pilum.format.meta_columns import CREATED_AT_VERSION, ROW_ADDRESS, ROW_ID, UPDATED_AT_VERSION
from pilum.format.row_address import first_address
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.table.model.row_id_sequence import Piece
from pilum.table.model.version_sequence import VersionSequence
from pilum.table.read.columns import scan_columns
from pilum.table.read.fragment_files import FragmentReader

__all__ = ["rows_to_test"]

_ZONE_ROWS = 1 << 16


def rows_to_test(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter, start: int, stop: int
) -> RowRanges:
    """Return the rows of a fragment in [start, stop) that may match; no other row can match.

    Raises:
        CorruptFileError: If the statistics of a file are damaged.
    """
    whole = RowRanges.of((start, stop))
    # Zones of ids are more selective, and need no open file.
    zones = (
        _zones_of_ids(fragment, schema, filter)
        or _zones_of_versions(fragment, schema, filter)
        or _zones(fragment, schema, filter)
    )
    if not zones or not len(whole.bounds):
        return whole
    bounds = next(iter(zones.values())).row_bounds
    keep = np.flatnonzero(filter.may_match(zones, len(bounds) - 1))
    return _clipped(_ranges(bounds, keep), start, stop)


def _zones(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of the filter's columns; of different divisions, the first one is used."""
    found: dict[tuple[str, ...], Zones] = {}
    for column in scan_columns(schema, filter.columns):
        if column.field is None:
            continue
        top = column.field.name
        members = () if column.name == top else tuple(column.name.split(".")[1:])
        own = fragment.field(column.field).zones(members)
        first = next(iter(found.values()), own)
        if own and first and np.array_equal(own.row_bounds, first.row_bounds):
            found[(top, *members)] = own
    return found


def _zones_of_ids(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of row ids or row addresses, if the filter reads them."""
    names = {ROW_ID, ROW_ADDRESS}.intersection(filter.columns).difference(schema.names)
    if not names:
        return {}
    if ROW_ID in names and fragment.fragment.row_ids is not None:
        return {(ROW_ID,): _zones_of_pieces(fragment.row_ids.pieces)}
    first = first_address(fragment.id)
    zones = _zones_of_pieces([range(first, first + fragment.num_rows)])
    return {(name,): zones for name in names}


def _zones_of_versions(
    fragment: FragmentReader, schema: Schema, filter: BoundFilter
) -> dict[tuple[str, ...], Zones]:
    """Return the zones of the versions that created or changed rows, if the filter reads them."""
    names = set(filter.columns).difference(schema.names)
    known: dict[str, VersionSequence] = {}
    if CREATED_AT_VERSION in names:
        known[CREATED_AT_VERSION] = fragment.created_at
    if UPDATED_AT_VERSION in names:
        known[UPDATED_AT_VERSION] = fragment.updated_at
    if not known:
        return {}
    bounds = np.unique(np.concatenate([sequence.bounds() for sequence in known.values()]))
    num_zones = len(bounds) - 1
    found: dict[tuple[str, ...], Zones] = {}
    for name, sequence in known.items():
        versions = integers(sequence.at(bounds[:-1]))
        nothing, anything = np.zeros(num_zones, np.bool_), np.ones(num_zones, np.bool_)
        found[(name,)] = Zones(bounds, versions, versions, nothing, anything)
    return found


def _zones_of_pieces(pieces: Sequence[Piece]) -> Zones:
    parts = [
        piece[start : start + _ZONE_ROWS]
        for piece in pieces
        for start in range(0, len(piece), _ZONE_ROWS)
    ]
    return Zones(
        np.cumsum([0, *map(len, parts)], dtype=np.int64),
        integers(np.array([_least(part) for part in parts], dtype=np.uint64)),
        integers(np.array([_most(part) for part in parts], dtype=np.uint64)),
        may_be_null=np.zeros(len(parts), np.bool_),
        may_have_value=np.ones(len(parts), np.bool_),
    )


def _least(piece: Piece) -> int:
    return piece[0] if isinstance(piece, range) else int(piece.min())


def _most(piece: Piece) -> int:
    return piece[-1] if isinstance(piece, range) else int(piece.max())


def _ranges(bounds: NDArray[np.int64], keep: NDArray[np.int64]) -> RowRanges:
    """Return the rows of zones; adjacent zones become one range."""
    runs = RowRanges.of_rows(keep)
    pairs = np.stack([bounds[runs.starts], bounds[runs.stops]], axis=1)
    return RowRanges(np.ascontiguousarray(pairs[pairs[:, 0] < pairs[:, 1]]))


def _clipped(rows: RowRanges, start: int, stop: int) -> RowRanges:
    return RowRanges(rows.within(start, stop).bounds + start) if len(rows.bounds) else rows
