"""Join a table with a source: find the pairs of rows with equal keys.

    keys of the source, a block of them      a hash table, within a limit of memory
                    ▲
    keys of the table, window by window      one scan of these columns for each block

Arrow joins the windows with several threads. Each further block takes another scan of the key
columns. They are a small part of a table, and scanning them is fast. So neither side has to be
partitioned by hashes, which Arrow does not offer for all types, and written to disk.

Where keys of the table ascend, as ids mostly do, and those of the source are few, they are looked
up by binary search instead. This avoids the cost of a hash join for each row of the table:

    keys of the source, sorted          3   5 | 40   41   55 | 90
    a batch of the table, ascending           | 12 … 40 … 77 |       only 40, 41 and 55 can be in it

A single key column with an index is looked up in it if the keys of the source are few, so that only
fragments that the index does not cover are scanned.

Keys are equal as in the reference: floats if all their bits are, so that a NaN equals a NaN of the
same bits and 0.0 does not equal -0.0; and no null equals anything.

The source is read more than once: by its keys, then by the numbers of the rows that a change takes.
A `Spool` therefore has all its rows, in memory or in a temporary file. The file is an Arrow IPC
stream that is mapped into memory. Batches look the same in both cases, and the system reclaims
pages of the file when memory is short. The file is unlinked as soon as it is complete, so that it
disappears however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.arrays import from_zero, join_arrays, taken
from pilum.errors import InvalidInputError
from pilum.expressions.compare import bits
from pilum.format.meta_columns import ROW_ADDRESS
from pilum.kernels import sort_pairs
from pilum.lazy import cached_property
from pilum.table.indices.key_lookup import look_up
from pilum.table.read.scan import ScanOptions, scan
from pilum.table.read.snapshot import Snapshot

__all__ = ["FewKeys", "Matches", "Spool", "join_keys", "require_joinable"]

_ROWS_PER_KEY = 8
"""Minimum rows per key; with more keys, a hash join is as fast."""

Pairs: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.int64]]
BLOCK_BYTES = 64 << 20
"""Approximate limit of source keys in memory; their hash table takes more."""
_WINDOW_BYTES = 64 << 20
_SLICE_ROWS = 1 << 20
_BATCH_ROWS = 1 << 16
_ROW = "row"
_ADDRESS = "address"


class FewKeys:
    """Keys of the source, prepared for lookups in batches of the table.

    They are one or more key columns without nulls, and int64 numbers of the rows.
    """

    def __init__(self, keys: pa.Table) -> None:
        self._keys = keys

    @staticmethod
    def are_in(keys: pa.Table, num_rows: int) -> bool:
        """Return whether keys are few enough for `num_rows` rows of a table, and comparable."""
        is_one = keys.num_columns == 2 and pt.is_integer(keys.column(0).type)
        return bool(is_one and keys.num_rows * _ROWS_PER_KEY <= num_rows)

    def pairs(self, rows: pa.RecordBatch) -> Pairs | None:
        """Find the keys in rows of the table: a key column without nulls, and uint64 addresses.

        Return the addresses, in the order of the rows, and for each a row of the source; None if
        the keys do not ascend, are too many here, or a key repeats in the source.
        """
        column, numbers = (one.to_numpy() for one in rows.columns)
        if not len(column) or not (column[1:] >= column[:-1]).all() or self._sorted is None:
            return None
        keys, own = self._sorted
        low = int(keys.searchsorted(column[0]))
        high = int(keys.searchsorted(column[-1], "right"))
        if (high - low) * _ROWS_PER_KEY > len(column):
            return None
        first = column.searchsorted(keys[low:high])  # not past the end: the last one is greatest
        found = column[first] == keys[low:high]
        first = first[found]
        counts = column.searchsorted(keys[low:high][found], "right") - first
        places = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        return numbers[places], np.repeat(own[low:high][found], counts)

    @cached_property
    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.int64]] | None:
        keys, rows = (np.asarray(column.to_numpy()) for column in self._keys.columns)
        if not (keys[1:] > keys[:-1]).all():
            order = np.argsort(keys)
            keys, rows = keys[order], rows[order]
        return None if (keys[1:] == keys[:-1]).any() else (keys, rows)


@dataclass(frozen=True)
class Matches:
    """Pairs of rows with equal keys, in ascending order of addresses.

    Attributes:
        addresses: uint64, shape (n,): rows of the table.
        rows: int64, shape (n,): rows of the source.
    """

    addresses: NDArray[np.uint64]
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def concatenate(cls, parts: Iterable[Matches]) -> Matches:
        """Return the pairs of all parts, one part after the other."""
        found = list(parts)
        return cls(
            np.concatenate([np.empty(0, np.uint64), *(part.addresses for part in found)]),
            np.concatenate([np.empty(0, np.int64), *(part.rows for part in found)]),
        )

    def in_order(self) -> Matches:
        """Return the same pairs, sorted by addresses, and those of one address by rows."""
        addresses, rows = sort_pairs(self.addresses, self.rows.view(np.uint64))
        found = Matches(addresses, rows.view(np.int64))
        if (addresses[1:] > addresses[:-1]).all() or (self.rows[1:] >= self.rows[:-1]).all():
            return found
        rows, addresses = sort_pairs(rows, addresses)
        return Matches(addresses, rows.view(np.int64)).in_order()


def require_joinable(schema: pa.Schema) -> None:
    """Raise InvalidInputError if values of a key type cannot be compared."""
    for field in schema:
        values = field.type.value_type if pt.is_dictionary(field.type) else field.type
        if pt.is_nested(values):
            raise InvalidInputError(f"column {field.name!r} of type {values} cannot be a key")


def join_keys(
    snapshot: Snapshot,
    names: list[str],
    source: Iterable[pa.RecordBatch],
    fragment_ids: tuple[int, ...] | None = None,
    uses_index: bool = False,
) -> Matches:
    """Find all pairs, in all fragments or in some.

    `source` has the key columns, with the types of the table.
    """
    wanted = ScanOptions((*names, ROW_ADDRESS), batch_size=_BATCH_ROWS, fragment_ids=fragment_ids)
    blocks = _windows(_source_keys(source), BLOCK_BYTES)
    may_look_up = uses_index and len(names) == 1 and fragment_ids is None
    find = _looked_up if may_look_up and snapshot.manifest.index_section else _pairs
    parts = [find(snapshot, wanted, block) for block in blocks]
    return parts[0] if len(parts) == 1 else Matches.concatenate(parts).in_order()


def _source_keys(source: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield source keys without nulls, with the numbers of their rows."""
    first = 0
    for whole in source:
        # A single batch may be the whole source.
        for start in range(0, whole.num_rows, _SLICE_ROWS):
            batch = whole.slice(start, _SLICE_ROWS)
            numbers = pa.array(np.arange(first, first + batch.num_rows))
            first += batch.num_rows
            yield _keys(batch.columns, numbers, _ROW)


def _looked_up(snapshot: Snapshot, wanted: ScanOptions, block: pa.Table) -> Matches:
    """Find the pairs of a block by an index; in fragments that it does not cover, by a join."""
    assert wanted.columns is not None
    name = wanted.columns[0]
    keys = block.column(0).combine_chunks()
    arrow = snapshot.schema.by_name[name].arrow_type
    is_viewed = pt.is_temporal(arrow) or pt.is_floating(arrow) or pt.is_decimal(arrow)
    keys = keys.view(arrow) if is_viewed else keys
    found = look_up(snapshot, name, keys) if keys.type == arrow else None
    if found is None:
        return _pairs(snapshot, wanted, block)
    rows = block.column(1).to_numpy()[found.places]
    matches = Matches(found.addresses, rows).in_order()
    ids = snapshot.manifest.fragments.ids.tolist()
    rest = tuple(number for number in ids if number not in found.covered)
    if not rest:
        return matches
    others = _pairs(snapshot, replace(wanted, fragment_ids=rest), block)
    return Matches.concatenate([matches, others]).in_order()


def _pairs(snapshot: Snapshot, wanted: ScanOptions, block: pa.Table) -> Matches:
    num_rows = sum(fragment.num_rows for fragment in snapshot.manifest.fragments)
    few = FewKeys(block) if FewKeys.are_in(block, num_rows) else None
    found: list[Matches] = []

    def rest() -> Iterator[pa.RecordBatch]:
        for batch in scan(snapshot, wanted):
            rows = _keys(batch.columns[:-1], batch.columns[-1], _ADDRESS)
            pairs = few.pairs(rows) if few else None
            if pairs is None:
                yield rows
            else:
                found.append(Matches(*pairs))

    # Arrow builds the hash table again for each window, so windows grow with the table.
    windows = _windows(rest(), max(_WINDOW_BYTES, block.nbytes))
    joined = [_joined(window, block) for window in windows]
    matches = Matches.concatenate([*joined, *found])
    return matches.in_order() if joined and found else matches


def _joined(window: pa.Table, block: pa.Table) -> Matches:
    joined = window.join(block, block.column_names[:-1], join_type="inner")
    pairs = Matches(joined.column(_ADDRESS).to_numpy(), joined.column(_ROW).to_numpy())
    return pairs.in_order()


def _windows(batches: Iterable[pa.RecordBatch], full_bytes: int) -> Iterator[pa.Table]:
    """Yield batches combined into tables, each complete when it has this size."""
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        held.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= full_bytes:
            yield pa.Table.from_batches(held)
            held, size_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _keys(columns: list[pa.Array], numbers: pa.Array, name: str) -> pa.RecordBatch:
    """Return keys that can be compared bit by bit, with their row numbers."""
    keys = [_comparable(column) for column in columns]
    names = [*(f"key {index}" for index in range(len(keys))), name]
    batch = pa.RecordBatch.from_arrays([*keys, numbers], names)
    nullable = [key.is_valid() for key in keys if key.null_count]
    return batch.filter(reduce(pc.and_, nullable)) if nullable else batch


def _comparable(column: pa.Array) -> pa.Array:
    """Return values for which equal bits mean equal keys, of a type that Arrow joins."""
    if pt.is_dictionary(column.type):
        column = column.dictionary_decode()
    arrow = column.type
    if pt.is_floating(arrow):
        return bits(column)
    if pt.is_boolean(arrow):
        return column.cast(pa.uint8())
    if pt.is_null(arrow):
        return pa.nulls(len(column), pa.uint8())
    if pt.is_decimal(arrow):
        return column.view(pa.binary(arrow.byte_width))
    if pt.is_temporal(arrow):
        return column.view(pa.int32() if arrow.bit_width == 32 else pa.int64())
    return column


MEMORY_BYTES = 128 << 20
"""Size limit of a stream in memory; a larger stream goes to a file as a whole."""


class Spool:
    """Rows that can be read again, in order or by number, with their schema."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Read a stream to its end."""
        self.schema: pa.Schema = reader.schema
        self._file: pa.MemoryMappedFile | None = None
        self.batches = self._collected(map(from_zero, reader))
        self._bounds = np.cumsum([0, *(batch.num_rows for batch in self.batches)], dtype=np.int64)
        self.num_rows = int(self._bounds[-1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.batches = []
        if self._file is not None:
            self._file.close()

    def take(self, rows: NDArray[np.int64], names: list[str]) -> pa.RecordBatch:
        """Return some columns of rows by their numbers, in any order and with repetitions."""
        if len(self.batches) == 1:
            return taken(self.batches[0].select(names), pa.array(rows))
        order = np.argsort(rows, kind="stable")
        numbers = rows[order]
        cuts = numbers.searchsorted(self._bounds)
        parts = [
            taken(batch.select(names), pa.array(numbers[low:high] - first))
            for batch, first, low, high in zip(
                self.batches, self._bounds[:-1], cuts[:-1], cuts[1:], strict=True
            )
            if low < high
        ]
        back = np.empty(len(rows), dtype=np.int64)
        back[order] = np.arange(len(rows))
        schema = pa.schema([self.schema.field(name) for name in names])
        columns = [
            join_arrays([part.column(index) for part in parts], f"column {name!r}")
            for index, name in enumerate(names)
        ]
        return taken(pa.RecordBatch.from_arrays(columns, schema=schema), pa.array(back))

    def _collected(self, batches: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        held: deque[pa.RecordBatch] = deque()
        size_bytes = 0
        for batch in batches:
            held.append(batch)
            size_bytes += batch.nbytes
            if size_bytes > MEMORY_BYTES:
                return self._stored(chain(_taken_from(held), batches))
        return list(held)

    def _stored(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch]:
        handle, path = tempfile.mkstemp(suffix=".arrows", prefix="pilum-")
        try:
            with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, self.schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            self._file = pa.memory_map(path)
            return list(pa.ipc.open_stream(self._file))
        finally:
            with suppress(OSError):  # on systems where open files cannot be unlinked
                os.unlink(path)


def _taken_from(held: deque[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    while held:
        yield held.popleft()
