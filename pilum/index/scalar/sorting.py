"""Sort rows by value in bounded memory, and merge rows that are sorted.

    rows ──▶ runs of 16 MiB ──▶ sorted, each in a temporary file ──▶ merged block by block

Nulls come first, then values in the order of their keys; rows of equal values keep their order. A
block is merged up to the least of the last keys of all runs: no row that is read later can come
before these. Rows that equal this key wait if an earlier run may have more of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pilum.arrays import join_arrays
from pilum.format.rows import Addresses
from pilum.index.base import REFERENCE, VALUE, Moves
from pilum.index.scalar.keys import (
    Keys,
    joined_keys,
    keys_of,
    numbers_of,
    stable_order,
    values_of_numbers,
)
from pilum.index.scalar.spilled import spilled
from pilum.kernels import sort_pairs

__all__ = ["Block", "merged", "sorted_rows"]

_RUN_BYTES = 16 << 20
_BLOCK_BYTES = 512 << 10
_BLOCK_ROWS = 16384


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows, sorted by value.

    Attributes:
        values: The values, nulls first.
        references: uint64, as long as the values.
    """

    values: pa.Array
    references: Addresses

    def __len__(self) -> int:
        return len(self.references)

    def moved(self, moves: Moves | None) -> Iterator[Block]:
        """Yield the rows that still exist, with the references that they have now, if any do."""
        if moves is None:
            yield self
            return
        references, exist = moves(self.references)
        if exist.all():
            yield Block(self.values, references)
        elif exist.any():
            yield Block(self.values.filter(pa.array(exist)), references[exist])

    def slice(self, start: int, stop: int) -> Block:
        """Return the rows from `start` to before `stop`."""
        return Block(self.values.slice(start, stop - start), self.references[start:stop])


def sorted_rows(batches: Iterable[pa.RecordBatch], run_bytes: int = _RUN_BYTES) -> Iterator[Block]:
    """Sort rows.

    Args:
        batches: Batches of the columns `VALUE` and `REFERENCE`.
        run_bytes: Sort so many bytes in memory; more are spilled.

    Yields:
        All rows in order.
    """
    runs: list[Iterator[Block]] = []
    waiting: list[pa.RecordBatch] = []
    waiting_bytes = 0
    for batch in batches:
        if waiting and waiting_bytes + batch.nbytes > run_bytes:
            runs.append(_spilled(_sorted(waiting)))
            waiting, waiting_bytes = [], 0
        if batch.num_rows:
            waiting.append(batch)
            waiting_bytes += batch.nbytes
    if waiting:
        last = _sorted(waiting)
        waiting.clear()
        runs.append(iter([last]) if not runs else _spilled(last))
    return merged(runs)


def merged(runs: Sequence[Iterator[Block]]) -> Iterator[Block]:
    """Merge sorted rows; equal values in the order of the runs."""
    cursors = []
    for run in runs:
        cursor = _Cursor(run)
        yield from cursor.nulls()
        cursors.append(cursor)
    while cursors := [cursor for cursor in cursors if cursor.load()]:
        if len(cursors) == 1:
            yield cursors[0].take(len(cursors[0].keys))
        else:
            yield _merged_block(cursors)


class _Cursor:
    """The position in a sorted run, after its nulls.

    Attributes:
        block: The rows that are next.
        keys: Their keys.
    """

    block: Block
    keys: Keys

    def __init__(self, run: Iterator[Block]) -> None:
        self._run = run
        self._ahead = next(run, None)
        self.block = Block(pa.nulls(0), np.empty(0, np.uint64))
        self.keys = np.empty(0, np.uint64)

    def nulls(self) -> Iterator[Block]:
        """Yield the rows without a value, which are the first ones."""
        while self._ahead is not None and (num_nulls := self._ahead.values.null_count):
            block = self._ahead
            yield block.slice(0, num_nulls)
            self._ahead = (
                next(self._run, None)
                if num_nulls == len(block)
                else block.slice(num_nulls, len(block))
            )

    def load(self) -> bool:
        """Go to the next block if this one is used up; return whether there are rows."""
        while not len(self.keys) and self._ahead is not None:
            self.block = self._ahead
            self.keys = keys_of(self.block.values)
            self._ahead = next(self._run, None)
        return len(self.keys) > 0

    @property
    def has_more(self) -> bool:
        """Whether there are rows after the block."""
        return self._ahead is not None

    def take(self, num_rows: int) -> Block:
        """Return the next rows and go past them."""
        taken = self.block.slice(0, num_rows)
        self.block = self.block.slice(num_rows, len(self.block))
        self.keys = self.keys[num_rows:]
        return taken


def _merged_block(cursors: list[_Cursor]) -> Block:
    bound = min(cursor.keys[-1] for cursor in cursors)
    waits = False
    parts: list[tuple[Block, Keys]] = []
    for cursor in cursors:
        keys = cursor.keys
        stop = int(keys.searchsorted(bound, "left" if waits else "right"))
        waits = waits or (cursor.has_more and bool(keys[-1] == bound))
        if stop:
            parts.append((cursor.take(stop), keys[:stop]))
    if len(parts) == 1:
        return parts[0][0]
    values = join_arrays([block.values for block, _ in parts], "values to index")
    references = np.concatenate([block.references for block, _ in parts])
    return _sorted_block(values, joined_keys([keys for _, keys in parts]), references)


def _sorted(batches: Sequence[pa.RecordBatch]) -> Block:
    values = join_arrays([batch.column(VALUE) for batch in batches], "values to index")
    references = np.concatenate([_references(batch) for batch in batches])
    if not values.null_count:
        return _sorted_block(values, keys_of(values), references)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    valid = values.drop_null()
    found = _sorted_block(valid, keys_of(valid), references[is_valid])
    nulls = pa.nulls(values.null_count, values.type)
    return Block(
        pa.concat_arrays([nulls, found.values]),
        np.concatenate((references[~is_valid], found.references)),
    )


def _sorted_block(values: pa.Array, keys: Keys, references: Addresses) -> Block:
    """Return values that are not null in the order of their keys."""
    numbers = numbers_of(keys)
    if numbers is None:
        order = stable_order(keys)
        return Block(values.take(pa.array(order)), references[order])
    numbers, references = sort_pairs(numbers, references)
    return Block(values_of_numbers(numbers, values.type), references)


def _spilled(block: Block) -> Iterator[Block]:
    """Write rows to a temporary file, which disappears when the result is dropped."""
    schema = pa.schema({VALUE: block.values.type, REFERENCE: pa.uint64()})
    row_bytes = max((block.values.nbytes + block.references.nbytes) // len(block), 1)
    rows = min(max(_BLOCK_BYTES // row_bytes, 1), _BLOCK_ROWS)
    parts = (block.slice(at, min(at + rows, len(block))) for at in range(0, len(block), rows))
    columns = ([part.values, pa.array(part.references)] for part in parts)
    stored = spilled(schema, (pa.RecordBatch.from_arrays(one, schema=schema) for one in columns))
    return (Block(batch.column(VALUE), _references(batch)) for batch in stored)


def _references(batch: pa.RecordBatch) -> Addresses:
    references: Addresses = batch.column(REFERENCE).to_numpy()
    return references
