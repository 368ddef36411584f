"""Batches of other sizes: of a fixed number of rows, or of a maximum number of bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from pilum.table.read.windows import joined_batch

__all__ = ["of_bytes", "of_rows"]


def of_rows(batches: Iterator[pa.RecordBatch], num_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of `num_rows` rows; the last one may be shorter."""
    waiting: list[pa.RecordBatch] = []
    missing = num_rows
    for batch in batches:
        while batch.num_rows >= missing:
            yield _joined([*waiting, batch.slice(0, missing)])
            batch, waiting, missing = batch.slice(missing), [], num_rows
        if batch.num_rows:
            waiting.append(batch)
            missing -= batch.num_rows
    if waiting:
        yield _joined(waiting)


def of_bytes(batches: Iterator[pa.RecordBatch], num_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in batches of at most about `num_bytes`, with at least one row each."""
    for batch in batches:
        rows = max(num_bytes * batch.num_rows // max(batch.nbytes, 1), 1)
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else joined_batch(pa.Table.from_batches(batches))
