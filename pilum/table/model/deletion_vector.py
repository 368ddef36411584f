"""The deleted rows of one fragment: in memory, and as the bytes of a deletion file.

    physical rows    0  1  2  3  4  5  6  7
    deleted             x     x  x
    positions        0     1        2  3  4      of the remaining rows

A position is converted to a physical row by counting. `offsets[i] - i` remaining rows lie before
deleted row `offsets[i]`, so a binary search in these numbers gives the number of deleted rows to
skip.

A deletion file stores the rows in one of two formats:

    .arrow    an Arrow IPC file: one column `row_id`, uint32 without nulls (int32 is read too), in
              any order; the body may be compressed, and is written with ZSTD
    .bin      a Roaring bitmap of 32-bit numbers in the portable serialization

Fewer than 5,000 rows are written as Arrow. More rows, or rows that were stored as a bitmap before,
are written as a bitmap. Source: docs/format/table.md, "Deleted rows".
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.bitmap import roaring
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.lazy import cached_property
from pilum.storage.base import Ranges, Store
from pilum.storage.local import pending_of
from pilum.storage.pending import PendingFiles
from pilum.table.model.base_paths import deletion_file_place
from pilum.table.model.fragment import DeletionFile, DeletionFileType, Fragment

__all__ = ["DeletionVector", "bit_mask", "load_deletions", "store_deletions"]

_BITMAP_ROWS = 5000
_SPARE_BYTES = 16 * 1024
"""Bytes that a file may contain in addition to 4 bytes per row."""

_COLUMN = "row_id"
_SCHEMA = pa.schema([pa.field(_COLUMN, pa.uint32(), nullable=False)])

_Number = TypeVar("_Number", bound=np.generic)


@dataclass(frozen=True, eq=False)
class DeletionVector:
    """The deleted rows of a fragment: physical rows, uint32, ascending and distinct."""

    offsets: NDArray[np.uint32]

    @classmethod
    def of(cls, rows: NDArray[np.generic]) -> DeletionVector:
        """Build a deletion vector from rows in any order; rows may repeat."""
        return cls(_distinct(np.sort(rows)).astype(np.uint32, copy=False))

    def __len__(self) -> int:
        return len(self.offsets)

    def count(self, start: int, stop: int) -> int:
        """Count the deleted rows among the physical rows from `start` to before `stop`."""
        return self._before(stop) - self._before(start)

    def kept(self, rows: RowRanges) -> pa.BooleanArray | None:
        """Return a mask of the rows that are not deleted; None if no row is."""
        start, stop = int(rows.starts[0]), int(rows.stops[-1])
        first, last = self._before(start), self._before(stop)
        if first == last:
            return None
        mask = np.ones(stop - start, dtype=np.bool_)
        mask[self.offsets[first:last].astype(np.int64) - start] = False
        return bit_mask(mask if len(rows.bounds) == 1 else mask[rows.rows() - start])

    def contains(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return, for each physical row, whether it is deleted."""
        places = self.offsets.searchsorted(rows)
        inside = places < len(self.offsets)
        found = np.zeros(len(rows), dtype=np.bool_)
        found[inside] = self.offsets[places[inside]] == rows[inside]
        return found

    def position(self, row: int) -> int:
        """Count the remaining rows before a physical row."""
        return row - self._before(row)

    def positions(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the remaining rows before each physical row."""
        return rows - self.offsets.searchsorted(rows)

    def physical(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the physical rows at positions among the remaining rows; int64 in and out."""
        return positions + self._left_before.searchsorted(positions, side="right")

    def union(self, other: DeletionVector) -> DeletionVector:
        """Return the rows of both vectors."""
        both = np.concatenate((self.offsets, other.offsets))
        both.sort(kind="stable")  # a stable sort merges sorted runs
        return DeletionVector(_distinct(both))

    def without(self, other: DeletionVector) -> DeletionVector:
        """Return the rows that are not in the other vector."""
        return DeletionVector(np.setdiff1d(self.offsets, other.offsets, assume_unique=True))

    def meets(self, other: DeletionVector) -> bool:
        """Return whether a row is in both vectors."""
        return bool(self.contains(other.offsets.astype(np.int64)).any())

    @cached_property
    def _left_before(self) -> NDArray[np.int64]:
        """Return the number of remaining rows before each deleted row."""
        return self.offsets.astype(np.int64) - np.arange(len(self.offsets))

    def _before(self, row: int) -> int:
        # With a number of another type, NumPy would convert all offsets.
        return int(self.offsets.searchsorted(np.uint32(row)))


def _distinct(rows: NDArray[_Number]) -> NDArray[_Number]:
    """Return sorted rows without duplicates; much faster than `np.unique`, which hashes them."""
    is_first = np.ones(len(rows), dtype=np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=is_first[1:])
    return rows[is_first]


def bit_mask(mask: NDArray[np.bool_]) -> pa.BooleanArray:
    """Convert a boolean mask to an Arrow array."""
    bits = np.packbits(mask, bitorder="little")
    return pa.BooleanArray.from_buffers(pa.bool_(), len(mask), [None, pa.py_buffer(bits)])


def load_deletions(store: Store, fragment: Fragment) -> DeletionVector | None:
    """Read the deleted rows of a fragment with known `physical_rows`; None if there are none."""
    file, place = fragment.deletion_file, deletion_file_place(store, fragment)
    if file is None or place is None:
        return None
    store, path = place
    try:
        vector = _parse(store, path, fragment.physical_rows, file)
    except CorruptFileError as error:
        raise error.at(f"fragment {fragment.id}").at(f"{store.uri}/{path}") from error.__cause__
    return vector


def store_deletions(
    store: Store,
    parts: Iterable[tuple[Fragment, DeletionVector]],
    read_version: int,
    *,
    as_bitmap: bool = False,
) -> tuple[Fragment, ...]:
    """Write new deletion files, and return the fragments with them; on any error, no file is left.

    Each part has all deleted rows of a fragment: at least one, but not every row. `read_version` is
    the one in which they were selected; `as_bitmap` requests bitmaps even for few rows.
    """
    written: list[Fragment] = []
    pending = PendingFiles(later=pending_of(store))
    try:
        for fragment, vector in parts:
            file_type, data = _encoded(fragment, vector, as_bitmap=as_bitmap)
            file = DeletionFile(file_type, read_version, secrets.randbits(64), len(vector))
            written.append(fragment.with_deletions(file))
            sink = pending.sink(store.sink(file.path(fragment.id)))
            sink.write(data)
            sink.finish()
        pending.wait()
    except BaseException:
        pending.settle()
        for fragment in written:
            if fragment.deletion_file:
                with suppress(OSError):
                    store.delete(fragment.deletion_file.path(fragment.id))
        raise
    return tuple(written)


def _encoded(
    fragment: Fragment, vector: DeletionVector, *, as_bitmap: bool
) -> tuple[DeletionFileType, bytes]:
    old = fragment.deletion_file
    is_bitmap = as_bitmap or len(vector) >= _BITMAP_ROWS
    if is_bitmap or (old and old.file_type is DeletionFileType.BITMAP):
        return DeletionFileType.BITMAP, _to_bitmap(vector)
    return DeletionFileType.ARROW, _to_arrow(vector)


def _read(store: Store, path: str, num_rows: int) -> bytes:
    """Read the whole file; raise if it is larger than any list of the fragment's rows can be."""
    source = store.source(path)
    try:
        if source.size > 4 * num_rows + _SPARE_BYTES:
            raise CorruptFileError(f"{source.size} bytes list the deleted rows of {num_rows}")
        return source.read(Ranges.of((0, source.size)))[0].tobytes()
    finally:
        source.close()


def _parse(store: Store, path: str, num_rows: int, file: DeletionFile) -> DeletionVector:
    data = _read(store, path, num_rows)
    if file.file_type is DeletionFileType.ARROW:
        vector = _from_arrow(data, num_rows)
    else:
        vector = _from_bitmap(data, num_rows)
    if file.num_deleted_rows not in {0, len(vector)}:
        raise CorruptFileError(
            f"deleted rows: the manifest says {file.num_deleted_rows}, the file {len(vector)}"
        )
    return vector


def _from_arrow(data: bytes, num_rows: int) -> DeletionVector:
    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        raise CorruptFileError(f"not an Arrow file: {error}") from error
    if names != [_COLUMN] or table.schema.types[0] not in (pa.uint32(), pa.int32()):
        raise CorruptFileError(f"expected a column {_COLUMN}: uint32, found {table.schema}")
    column = table.column(0)
    if column.null_count:
        raise CorruptFileError(f"{column.null_count} deleted rows are null")
    rows = column.to_numpy().astype(np.int64)
    _require_row(int(rows.min(initial=0)), num_rows)
    _require_row(int(rows.max(initial=0)), num_rows)
    return DeletionVector.of(rows)


def _to_arrow(vector: DeletionVector) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
        writer.write_batch(pa.record_batch([pa.array(vector.offsets)], schema=_SCHEMA))
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _from_bitmap(data: bytes, num_rows: int) -> DeletionVector:
    try:
        bitmap = BitMap.deserialize(data)
    except (ValueError, IndexError) as error:
        raise CorruptFileError(f"not a Roaring bitmap: {error}") from error
    if bitmap:  # Check the count before expanding: a few bytes can claim very many rows.
        _require_row(bitmap.max(), num_rows)
    return DeletionVector(np.frombuffer(bitmap.to_array(), dtype=np.uint32))


def _to_bitmap(vector: DeletionVector) -> bytes:
    # Run containers would be smaller, but the reference writes none.
    data: bytes = roaring(vector.offsets).serialize()
    return data


def _require_row(row: int, num_rows: int) -> None:
    if not 0 <= row < num_rows:
        raise CorruptFileError(f"row {row} of {num_rows} is deleted")
