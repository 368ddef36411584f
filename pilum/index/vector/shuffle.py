"""Rows in the order of their partitions, with bounded memory.

    batches ──▶ memory, up to a limit ──▶ sorted by partition ──▶ one run in a temporary file
                                                                  and again
    partition 0 of run 0, of run 1, …, of memory ──▶ partition 1 …

A run consists of records: the row reference as uint64, then the columns, without gaps. Rows of a
partition keep their order. The temporary file has no name, so it vanishes with the process.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses

__all__ = ["Shuffle"]

_REFERENCE = "_rowid"
_ROWS_WRITTEN_TOGETHER = 65536


@dataclass(frozen=True)
class _Run:
    """Records that are sorted by partition.

    Attributes:
        bounds: The first record of each partition, and the end, of shape (P + 1,).
        offset: The first byte in the file.
    """

    bounds: NDArray[np.int64]
    offset: int


class Shuffle:
    """Rows that are added in any order of their partitions, and returned by partition.

    Args:
        num_partitions: Number of partitions.
        limit_bytes: Memory for rows; more of them go to a temporary file.

    Attributes:
        lengths: The number of rows of each partition so far, int64 of shape (P,).
    """

    def __init__(self, num_partitions: int, limit_bytes: int) -> None:
        self.lengths = np.zeros(num_partitions, np.int64)
        self._limit_bytes = limit_bytes
        self._dtype = np.dtype([(_REFERENCE, np.uint64)])
        self._batches: list[tuple[NDArray[np.uint32], NDArray[Any]]] = []
        self._size_bytes = 0
        self._runs: list[_Run] = []
        self._open_files = ExitStack()
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._batches = []
        self._open_files.close()

    def add(
        self,
        partitions: NDArray[np.uint32],
        references: Addresses,
        columns: Mapping[str, NDArray[Any]],
    ) -> None:
        """Add rows.

        Args:
            partitions: The partition of each row, of shape (n,).
            references: Row references, of shape (n,).
            columns: Further columns of shape (n,) or (n, width), always the same ones.
        """
        types = [(name, one.dtype, one.shape[1:]) for name, one in columns.items()]
        self._dtype = np.dtype([(_REFERENCE, np.uint64), *types])
        records = np.empty(len(references), self._dtype)
        records[_REFERENCE] = references
        for name, column in columns.items():
            records[name] = column
        self._batches.append((partitions, records))
        self._size_bytes += partitions.nbytes + records.nbytes
        self.lengths += np.bincount(partitions, minlength=len(self.lengths))
        if self._size_bytes > self._limit_bytes:
            self._spill()

    def partitions(self) -> Iterator[tuple[Addresses, dict[str, NDArray[Any]]]]:
        """Yield the references and the columns of each partition; no rows can be added then."""
        rest, bounds = self._sorted()
        for number in range(len(self.lengths)):
            records = rest[bounds[number] : bounds[number + 1]]
            if self._runs:
                records = self._with_stored(number, records)
            yield _split(records)

    def _with_stored(self, number: int, rest: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of a partition in the runs, and then the others."""
        records = np.empty(self.lengths[number], self._dtype)
        filled = 0
        for run in self._runs:
            start, end = run.bounds[number : number + 2].tolist()
            into = records[filled : filled + end - start]
            self._read(run.offset + start * self._dtype.itemsize, into)
            filled += len(into)
        records[filled:] = rest
        return records

    def _sorted(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the rows in memory, sorted by partition, and the bounds of the partitions."""
        batches, self._batches, self._size_bytes = self._batches, [], 0
        if not batches:
            return np.empty(0, self._dtype), np.zeros(len(self.lengths) + 1, np.int64)
        partitions = np.concatenate([one for one, _ in batches])
        small = partitions.astype(np.min_scalar_type(len(self.lengths)))  # sorted faster
        places = np.empty(len(small), np.int64)
        places[np.argsort(small, kind="stable")] = np.arange(len(small))
        ordered = np.empty(len(small), self._dtype)
        start = 0
        while batches:  # each batch is freed once it is copied
            records = batches.pop(0)[1]
            ordered[places[start : start + len(records)]] = records
            start += len(records)
        lengths = np.bincount(partitions, minlength=len(self.lengths))
        return ordered, np.append(0, np.cumsum(lengths))

    def _spill(self) -> None:
        if self._file is None:
            new = tempfile.TemporaryFile(prefix="pilum-shuffle-")  # noqa: SIM115 closed by the stack
            file = self._open_files.enter_context(new)
            self._file = cast("BinaryIO", file)
        records, bounds = self._sorted()
        self._file.seek(0, 2)
        self._runs.append(_Run(bounds, self._file.tell()))
        for start in range(0, len(records), _ROWS_WRITTEN_TOGETHER):
            part = records[start : start + _ROWS_WRITTEN_TOGETHER]
            self._file.write(part.view(np.uint8).data)

    def _read(self, offset: int, into: NDArray[Any]) -> None:
        assert self._file is not None  # there is a run
        if not len(into):
            return
        self._file.seek(offset)
        num_bytes = cast("Any", self._file).readinto(into.view(np.uint8).data)
        if num_bytes != into.nbytes:
            raise OSError(f"temporary file: {num_bytes} of {into.nbytes} bytes at {offset}")


def _split(records: NDArray[Any]) -> tuple[Addresses, dict[str, NDArray[Any]]]:
    names = records.dtype.names or ()
    columns = {name: np.ascontiguousarray(records[name]) for name in names}
    return columns.pop(_REFERENCE), columns
