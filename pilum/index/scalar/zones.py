"""Zones: ranges of rows of one fragment, of which an index keeps a summary each.

    fragment 0    rows 0 1 2 . . 5 6 | 7 8 9 10 11 | 12       rows 3 and 4 are deleted
    zones         (0, 7)               (7, 5)        (12, 1)   of up to 5 rows: first row, length

A zone has up to a fixed number of rows that are not deleted. It reaches from the first to the last
of them, so deleted rows lie in between. A zone never crosses the end of a fragment.

| column | type | |
|---|---|---|
| `fragment_id` | uint64 | |
| `zone_start` | uint64 | first row, counted in the fragment |
| `zone_length` | uint64 | number of rows, with deleted ones |

The addresses of all rows that are null are a global buffer, a set of rows. Its number is in the
metadata as `null_bitmap`. Source: docs/format/indices.md, "Zones".
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import join_arrays
from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.rows import Addresses, addresses_of_rows, fragment_ids_of, rows_of
from pilum.index.answers import Answer, RowSet
from pilum.index.base import (
    REFERENCE,
    VALUE,
    Index,
    IndexRows,
    IndexType,
    Moves,
    Part,
    References,
    Span,
)
from pilum.index.files import IndexFile, IndexFolderWriter
from pilum.index.queries import IsNull, Query
from pilum.index.row_maps import pack_rows, unpack_rows
from pilum.lazy import cached_property

__all__ = ["ZONE_FIELDS", "ZoneIndex", "ZoneIndexType", "ZoneRows", "Zones", "cut_zones"]

ZONE_FIELDS = tuple(
    pa.field(name, pa.uint64(), nullable=False)
    for name in ("fragment_id", "zone_start", "zone_length")
)
"""The columns that all files of zones have."""

_NULLS = "null_bitmap"
_MAX_ROWS = 1 << 32
"""More rows than a fragment can have."""
_ROWS_AT_ONCE = 1 << 16
_WRITTEN_BYTES = 1 << 20
"""Tables of zones are small: so many bytes of them are written together."""
_MAX_LISTED = 1 << 28
"""The most rows of an answer; a scan is better than to list more."""


@dataclass(frozen=True, slots=True)
class Zones:
    """The places of zones, in any order.

    Attributes:
        fragment_ids: int64, shape (zones,).
        starts: int64, same shape, first row of each zone in its fragment.
        lengths: int64, same shape, number of rows with deleted ones.
    """

    fragment_ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, rows: pa.Table, path: str) -> Zones:
        """Read the columns of zones.

        Raises:
            CorruptFileError: If a value is not possible.
        """
        columns = [rows[field.name].combine_chunks() for field in ZONE_FIELDS]
        for field, column in zip(ZONE_FIELDS, columns, strict=True):
            if not pa.types.is_unsigned_integer(column.type) or column.null_count:
                raise CorruptFileError(f"column {field.name!r}: {column.type}, with nulls", path)
        ids, starts, lengths = (column.cast(pa.uint64()).to_numpy() for column in columns)
        if len(ids) and not (ids.max() < _MAX_ROWS and (starts + lengths).max() <= _MAX_ROWS):
            raise CorruptFileError("a zone beyond the rows that a fragment can have", path)
        if len(ids) and max(starts.max(), lengths.max()) > _MAX_ROWS:
            raise CorruptFileError("a zone beyond the rows that a fragment can have", path)
        return cls(ids.astype(np.int64), starts.astype(np.int64), lengths.astype(np.int64))

    @property
    def first_addresses(self) -> Addresses:
        """The address of the first row of each zone."""
        return addresses_of_rows(self.fragment_ids, self.starts)

    def chosen(self, which: NDArray[np.bool_]) -> Zones:
        """Return some of the zones."""
        return Zones(self.fragment_ids[which], self.starts[which], self.lengths[which])

    def existing(self, moves: Moves | None) -> NDArray[np.bool_]:
        """Return which zones lie in fragments that still exist."""
        if moves is None:
            return np.ones(len(self.starts), dtype=np.bool_)
        return moves(self.first_addresses)[1]

    def num_rows(self, which: NDArray[np.bool_]) -> int:
        """Return the number of rows in some of the zones, with deleted ones."""
        return int(self.lengths[which].sum())

    def rows(self, which: NDArray[np.bool_]) -> RowSet:
        """Return all rows of some of the zones."""
        lengths = self.lengths[which]
        firsts = self.first_addresses[which]
        ends = np.cumsum(lengths)
        total = int(ends[-1]) if len(ends) else 0
        found = np.repeat(firsts - (ends - lengths).astype(np.uint64), lengths)
        found += np.arange(total, dtype=np.uint64)
        return RowSet.of(found)

    def columns(self) -> list[pa.Array]:
        """Return the columns `ZONE_FIELDS`."""
        return [
            pa.array(values.astype(np.uint64))
            for values in (self.fragment_ids, self.starts, self.lengths)
        ]


@dataclass(frozen=True, slots=True)
class ZoneRows:
    """The rows of some adjacent zones.

    Attributes:
        values: The values.
        addresses: Function that returns the addresses of the values at some places.
        bounds: int64, shape (zones + 1,): the first value of each zone, and the end.
    """

    values: pa.Array
    addresses: Callable[[NDArray[np.int64]], Addresses]
    bounds: NDArray[np.int64]

    @property
    def zones(self) -> Zones:
        """The places of the zones."""
        firsts, lasts = self.addresses(self.bounds[:-1]), self.addresses(self.bounds[1:] - 1)
        starts = rows_of(firsts)
        return Zones(fragment_ids_of(firsts), starts, rows_of(lasts) - starts + 1)

    @property
    def null_addresses(self) -> Addresses:
        """The addresses of null values."""
        if not self.values.null_count:
            return np.empty(0, np.uint64)
        is_null: NDArray[np.bool_] = self.values.is_null().to_numpy(zero_copy_only=False)
        return self.addresses(np.flatnonzero(is_null))


def cut_zones(rows: IndexRows, zone_rows: int) -> Iterator[ZoneRows]:
    """Cut rows into zones of up to `zone_rows` rows, some batches at a time.

    Values are not copied if zones begin where batches do, which is usual without deleted rows. Of
    adjacent rows, few addresses are computed.
    """
    values: list[pa.Array] = []
    addresses: list[Addresses] = []
    num_rows = 0
    for own, found in rows.spans or _spans(rows.batches):
        if isinstance(found, int):
            whole = 0 if num_rows else len(own) - len(own) % zone_rows
            if whole:
                yield _cut_adjacent(own[:whole], found, zone_rows)
            own = own[whole:]
            found = np.arange(found + whole, found + whole + len(own), dtype=np.uint64)
        if not len(own):
            continue
        values.append(own)
        addresses.append(found)
        num_rows += len(own)
        if num_rows < _ROWS_AT_ONCE:
            continue
        joined = _joined(addresses)
        cut = _cut(join_arrays(values, VALUE), joined, zone_rows)
        last, stop = cut.bounds[-2:].tolist()
        if stop - last == zone_rows:
            yield cut
            values, addresses, num_rows = [], [], 0
            continue
        if last:
            yield ZoneRows(cut.values[:last], cut.addresses, cut.bounds[:-1])
        values, addresses = [cut.values[last:]], [joined[last:]]
        num_rows = stop - last
    if num_rows:
        yield _cut(join_arrays(values, VALUE), _joined(addresses), zone_rows)


def _spans(batches: Iterator[pa.RecordBatch]) -> Iterator[Span]:
    for batch in batches:
        yield batch.column(VALUE), batch.column(REFERENCE).to_numpy()


def _joined(addresses: list[Addresses]) -> Addresses:
    return addresses[0] if len(addresses) == 1 else np.concatenate(addresses)


def _cut(values: pa.Array, addresses: Addresses, zone_rows: int) -> ZoneRows:
    """Cut rows into zones, the first of which begins with the first row."""
    num_rows = len(addresses)
    ends = fragment_ids_of(addresses[[0, -1]])
    if ends[0] == ends[1]:  # rows of a fragment are adjacent
        bounds = np.append(np.arange(0, num_rows, zone_rows), num_rows)
        return ZoneRows(values, addresses.__getitem__, bounds)
    starts = np.append(0, np.flatnonzero(np.diff(fragment_ids_of(addresses))) + 1)
    stops = np.append(starts[1:], num_rows)
    firsts = [np.arange(*ends, zone_rows) for ends in zip(starts, stops, strict=True)]
    return ZoneRows(values, addresses.__getitem__, np.concatenate([*firsts, [num_rows]]))


def _cut_adjacent(values: pa.Array, first: int, zone_rows: int) -> ZoneRows:
    """Cut adjacent rows of a fragment, whose first address is given, into whole zones."""

    def addresses(places: NDArray[np.int64]) -> Addresses:
        return places.astype(np.uint64) + np.uint64(first)

    return ZoneRows(values, addresses, np.arange(0, len(values) + 1, zone_rows))


class ZoneIndex(Index):
    """An open segment whose file has one row for each zone.

    Attributes:
        columns: Names of the columns, in the order of the file.
        file: The file.
        rows: All of its rows.
        zones: The places of the zones.
    """

    columns: ClassVar[tuple[str, ...]]

    def __init__(self, file: IndexFile) -> None:
        self.file = file
        self.rows = file.read(self.columns)
        self.zones = Zones.of(self.rows, file.path)

    @property
    def size_bytes(self) -> int:
        """See `Index.size_bytes`; the null rows are few or take one bit of 64."""
        return 2 * int(self.rows.nbytes)

    @cached_property
    def nulls(self) -> RowSet | None:
        """The rows that are null; None if the file does not store them.

        Raises:
            CorruptFileError: If they are damaged.
        """
        number = self.file.metadata.get(_NULLS)
        if number is None:
            return None
        if not number.isdecimal():
            raise CorruptFileError(f"{_NULLS}: {number!r:.40} is not a number", self.file.path)
        return RowSet(unpack_rows(self.file.global_buffer(int(number)), self.file.path))

    @abstractmethod
    def may_match(self, query: Query) -> NDArray[np.bool_] | None:
        """Return which zones may contain a match; None if the zones say nothing."""

    def search(self, query: Query) -> Answer | None:
        """See `Index.search`. Only the rows that are null are known exactly."""
        if isinstance(query, IsNull) and self.nulls is not None:
            return Answer(self.nulls)
        which = self.may_match(query)
        if which is None or self.zones.num_rows(which) > _MAX_LISTED:
            return None
        return Answer(self.zones.rows(which), is_exact=False)

    def estimate(self, query: Query) -> int | None:
        """See `Index.estimate`."""
        if isinstance(query, IsNull) and self.nulls is not None:
            return len(self.nulls.listed)
        which = self.may_match(query)
        return None if which is None else self.zones.num_rows(which)

    def prewarm(self) -> None:
        """See `Index.prewarm`."""
        self.nulls  # noqa: B018 - read once, and kept


This = TypeVar("This", bound=ZoneIndex)


class ZoneIndexType(IndexType[This]):
    """A type of index whose file has one row for each zone.

    Attributes:
        file_name: Name of the only file.
    """

    references = References.ZONES
    file_name: ClassVar[str]

    @abstractmethod
    def columns(self, rows: ZoneRows, parameters: Any) -> list[pa.Array]:
        """Return the columns of the file for some zones."""

    @abstractmethod
    def schema(self, type: pa.DataType) -> pa.Schema:
        """Return the schema of the file."""

    @abstractmethod
    def metadata(self, parameters: Any) -> dict[str, str]:
        """Return the metadata of the file."""

    @abstractmethod
    def details(self, parameters: Any) -> bytes:
        """Return the index details."""

    @abstractmethod
    def zone_rows(self, parameters: Any) -> int:
        """Return the number of rows of a zone."""

    @abstractmethod
    def parameters_of(self, index: This) -> Any:
        """Return the parameters of a segment."""

    def train(self, rows: IndexRows, parameters: Any, folder: IndexFolderWriter) -> bytes:
        """See `IndexType.train`."""
        return self._write(folder, self.schema(rows.type), parameters, (), rows)

    def merge(
        self, parts: Sequence[Part[This]], rows: IndexRows | None, folder: IndexFolderWriter
    ) -> bytes:
        """See `IndexType.merge`. Zones are copied; those of lost fragments are left out."""
        last = parts[-1].index
        schema = last.rows.schema.remove_metadata()
        return self._write(folder, schema, self.parameters_of(last), parts, rows)

    def _write(
        self,
        folder: IndexFolderWriter,
        schema: pa.Schema,
        parameters: Any,
        parts: Sequence[Part[This]],
        rows: IndexRows | None,
    ) -> bytes:
        nulls = [np.empty(0, dtype=np.uint64)]
        with folder.file(self.file_name, schema) as file:
            for part in parts:
                index, moves = part.index, part.moves
                if index.nulls is None:
                    raise UnsupportedFeatureError(
                        f"{index.file.path} does not store which rows are null: it cannot be "
                        "merged; create the index again"
                    )
                found = index.nulls.listed
                nulls.append(found if moves is None else found[moves(found)[1]])
                file.write(index.rows.filter(pa.array(index.zones.existing(moves))))
            waiting: list[pa.Table] = []
            size_bytes = 0
            for zones in cut_zones(rows, self.zone_rows(parameters)) if rows else ():
                nulls.append(zones.null_addresses)
                columns = self.columns(zones, parameters)
                waiting.append(pa.Table.from_arrays(columns, schema=schema))
                size_bytes += waiting[-1].nbytes
                if size_bytes >= _WRITTEN_BYTES:
                    file.write(pa.concat_tables(waiting).combine_chunks())
                    waiting, size_bytes = [], 0
            if waiting:
                file.write(pa.concat_tables(waiting).combine_chunks())
            number = file.add_global_buffer(pack_rows(np.unique(np.concatenate(nulls))))
            file.add_metadata({**self.metadata(parameters), _NULLS: str(number)})
        return self.details(parameters)
