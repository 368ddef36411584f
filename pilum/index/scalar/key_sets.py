"""Sets of rows by key: collected from rows, and united from several sources.

    rows (key, reference) ──▶ runs of up to 64 MiB, by key ──▶ sorted by key ──┐
    segments, by key                                                         ──┴──▶ united, by key

Blocks of a source are in ascending order of keys, and no key occurs twice; the null key is first,
in a block of its own. Only if rows have too many different keys for one run, runs are written to
temporary files. Source: docs/format/indices.md, "Bitmaps".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.base import REFERENCE, VALUE
from pilum.index.scalar.keys import (
    Keys,
    differences,
    joined_keys,
    keys_at,
    keys_of,
    numbers_of,
    stable_order,
    strings_of,
    values_of_numbers,
    values_of_strings,
)
from pilum.index.scalar.spilled import spilled
from pilum.kernels import NumberRows, StringRows, unite_grouped_row_maps

__all__ = ["SetBlock", "sets_of_rows", "united"]

_RUN_BYTES = 64 << 20
_BLOCK_BYTES = 512 << 10
_SETS = "sets"


@dataclass(frozen=True, slots=True)
class SetBlock:
    """Some keys, and the set of rows of each.

    Attributes:
        values: The keys.
        data: uint8: the sets as bytes, one after the other; see `row_maps.py`.
        ends: int64, shape (keys + 1,): where each set begins in `data`, and the end.
    """

    values: pa.Array
    data: NDArray[np.uint8]
    ends: NDArray[np.int64]

    def slice(self, start: int, stop: int) -> SetBlock:
        """Return the keys from `start` to before `stop`."""
        first, last = int(self.ends[start]), int(self.ends[stop])
        values = self.values.slice(start, stop - start)
        return SetBlock(values, self.data[first:last], self.ends[start : stop + 1] - first)


def sets_of_rows(
    batches: Iterable[pa.RecordBatch], kind: pa.DataType, run_bytes: int = _RUN_BYTES
) -> Iterator[SetBlock]:
    """Collect the rows of each key.

    Args:
        batches: Batches of the columns `VALUE` and `REFERENCE`.
        kind: Type of the values.
        run_bytes: Collect so many bytes in memory; more are spilled.

    Yields:
        Blocks in order.
    """
    runs: list[Iterator[SetBlock]] = []
    run = _Run(kind)
    for batch in batches:
        run.add(batch.column(VALUE), batch.column(REFERENCE).to_numpy())
        if run.size_bytes > run_bytes:
            runs.append(_spilled(kind, run.blocks()))
            run = _Run(kind)
    yield from united([*runs, run.blocks()])


class _Run:
    """Rows by key, in memory."""

    def __init__(self, kind: pa.DataType) -> None:
        self._kind = kind
        self._rows = (
            StringRows() if numbers_of(keys_of(pa.nulls(0, kind))) is None else NumberRows()
        )

    @property
    def size_bytes(self) -> int:
        return self._rows.size_bytes

    def add(self, values: pa.Array, references: Addresses) -> None:
        if values.null_count:
            is_valid = values.is_valid().to_numpy(zero_copy_only=False)
            self._rows.add_nulls(references[~is_valid])
            values, references = values.drop_null(), references[is_valid]
        keys = keys_of(values)
        if isinstance(self._rows, StringRows):
            self._rows.add(*strings_of(keys), references)
        else:
            numbers = numbers_of(keys)
            assert numbers is not None
            self._rows.add(numbers, references)

    def blocks(self) -> Iterator[SetBlock]:
        """Yield all keys; nothing can be added after it."""
        self._rows.sort()
        if nulls := self._rows.take_nulls():
            yield SetBlock(pa.nulls(1, self._kind), *nulls)
        while len((block := self._next()).values):
            yield block

    def _next(self) -> SetBlock:
        if isinstance(self._rows, NumberRows):
            numbers, data, ends = self._rows.take(_BLOCK_BYTES)
            return SetBlock(values_of_numbers(numbers, self._kind), data, ends)
        offsets, strings, data, ends = self._rows.take(_BLOCK_BYTES)
        return SetBlock(values_of_strings(offsets, strings, self._kind), data, ends)


def united(sources: Sequence[Iterator[SetBlock]]) -> Iterator[SetBlock]:
    """Unite the sets of equal keys of several sources."""
    if len(sources) == 1:
        yield from sources[0]
        return
    cursors = [_Cursor(source) for source in sources]
    if nulls := [block for cursor in cursors for block in cursor.nulls()]:
        yield _united(nulls, np.arange(len(nulls)), np.array([0, len(nulls)]))
    while cursors := [cursor for cursor in cursors if cursor.load()]:
        bound = min(cursor.keys[-1] for cursor in cursors)
        taken = [cursor.take(int(cursor.keys.searchsorted(bound, "right"))) for cursor in cursors]
        keys = joined_keys([keys for _, keys in taken])
        order = stable_order(keys)
        starts = np.flatnonzero(differences(keys_at(keys, order))) + 1
        groups = np.concatenate(([0], starts, [len(order)]))
        yield _united([block for block, _ in taken], order, groups)


def _united(
    blocks: Sequence[SetBlock], order: NDArray[np.int64], groups: NDArray[np.int64]
) -> SetBlock:
    """Unite the sets of groups of keys, whose places in all blocks are given."""
    values = pa.concat_arrays([block.values for block in blocks])
    sizes = np.concatenate([np.diff(block.ends) for block in blocks])
    bounds = np.concatenate(([0], np.cumsum(sizes)))
    data = np.concatenate([block.data for block in blocks])
    firsts = pa.array(order[groups[:-1]])
    return SetBlock(values.take(firsts), *unite_grouped_row_maps(data, bounds, order, groups))


class _Cursor:
    """The position in a source, after its null key.

    Attributes:
        block: The keys that are next.
        keys: The same in the form that is compared.
    """

    block: SetBlock
    keys: Keys

    def __init__(self, source: Iterator[SetBlock]) -> None:
        self._source = source
        self.keys = np.empty(0, np.uint64)
        self._ahead = next(source, None)

    def nulls(self) -> Iterator[SetBlock]:
        """Yield the set of the null key, if there is one."""
        if self._ahead is not None and self._ahead.values.null_count:
            yield self._ahead
            self._ahead = next(self._source, None)

    def load(self) -> bool:
        """Go to the next block if this one is used up; return whether there are keys."""
        while not len(self.keys) and self._ahead is not None:
            self.block = self._ahead
            self.keys = keys_of(self.block.values)
            self._ahead = next(self._source, None)
        return len(self.keys) > 0

    def take(self, num_keys: int) -> tuple[SetBlock, Keys]:
        """Return the next keys and go past them."""
        taken = self.block.slice(0, num_keys), self.keys[:num_keys]
        self.block = self.block.slice(num_keys, len(self.block.values))
        self.keys = self.keys[num_keys:]
        return taken


def _spilled(kind: pa.DataType, blocks: Iterable[SetBlock]) -> Iterator[SetBlock]:
    schema = pa.schema({VALUE: kind, _SETS: pa.large_binary()})
    stored = spilled(schema, (_stored(block, schema) for block in blocks))
    return (_loaded(batch) for batch in stored)


def _stored(block: SetBlock, schema: pa.Schema) -> pa.RecordBatch:
    buffers = [None, pa.py_buffer(block.ends), pa.py_buffer(block.data)]
    sets = pa.Array.from_buffers(pa.large_binary(), len(block.values), buffers)
    return pa.RecordBatch.from_arrays([block.values, sets], schema=schema)


def _loaded(batch: pa.RecordBatch) -> SetBlock:
    _, ends, data = batch.column(_SETS).buffers()
    return SetBlock(
        batch.column(VALUE), np.frombuffer(data, np.uint8), np.frombuffer(ends, np.int64)
    )
