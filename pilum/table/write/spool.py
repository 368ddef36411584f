"""A spool: the rows of a stream that are read more than once, in memory or in a temporary file.

The file is an Arrow IPC stream that is mapped into memory. Batches look the same in both cases, and
the system reclaims pages of the file when memory is short. The file is unlinked as soon as it is
complete, so that it disappears however the process ends.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import from_zero, join_arrays, taken

__all__ = ["Spool"]

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
