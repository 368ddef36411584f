"""The version that created, or last updated, each physical row of a fragment.

    runs        3 rows of version 1, 2 rows of version 4
    offsets     0 1 2 3 4        versions  1 1 1 4 4

In the message, a segment of row ids gives the length of each run. Only the number of its ids
matters: after a compaction, the ids themselves are leftovers of older segments. Source:
docs/format/table.md, "Row ids".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.format.messages import parse_message
from pilum.format.pb import row_ids_pb2
from pilum.format.rows import MAX_ROWS
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.row_id_sequence import segment_length

__all__ = ["VersionSequence"]


@dataclass(frozen=True, eq=False)
class VersionSequence:
    """A run-length encoded sequence of versions in row order.

    Attributes:
        lengths: int64, shape (n,): number of rows of each run, never 0.
        versions: uint64, shape (n,): the version of each run.
    """

    lengths: NDArray[np.int64]
    versions: NDArray[np.uint64]

    @classmethod
    def uniform(cls, num_rows: int, version: int) -> VersionSequence:
        """Build a sequence with one version for all rows."""
        return cls._of_runs(np.array([num_rows], np.int64), np.array([version], np.uint64))

    @classmethod
    def of(cls, versions: NDArray[np.uint64]) -> VersionSequence:
        """Build a sequence from one version per row; uint64, shape (number of rows,)."""
        return cls._of_runs(np.ones(len(versions), dtype=np.int64), versions)

    @classmethod
    def concatenate(cls, sequences: Iterable[VersionSequence]) -> VersionSequence:
        """Concatenate sequences."""
        listed = list(sequences)
        return cls._of_runs(
            np.concatenate([np.empty(0, np.int64), *(one.lengths for one in listed)]),
            np.concatenate([np.empty(0, np.uint64), *(one.versions for one in listed)]),
        )

    @classmethod
    def _of_runs(cls, lengths: NDArray[np.int64], versions: NDArray[np.uint64]) -> VersionSequence:
        """Build a sequence from runs that may be empty or have the version of the previous run."""
        lengths, versions = lengths[lengths > 0], versions[lengths > 0]
        if not len(lengths):
            return cls(lengths, versions)
        firsts = np.flatnonzero(np.append(True, versions[1:] != versions[:-1]))
        return cls(np.add.reduceat(lengths, firsts), versions[firsts])

    @classmethod
    def from_bytes(cls, data: bytes, max_rows: int) -> VersionSequence:
        """Parse a `RowDatasetVersionSequence` message of a fragment with at most this many rows."""
        kind = row_ids_pb2.RowDatasetVersionSequence
        runs = parse_message(kind, data, what="versions of rows").runs
        lengths, left = [], min(max_rows, MAX_ROWS)
        for run in runs:
            lengths.append(segment_length(run.span))
            left -= lengths[-1]
            if left < 0:
                raise CorruptFileError(f"versions of more than {max_rows} rows")
        versions = np.array([run.version for run in runs], dtype=np.uint64)
        return cls._of_runs(np.array(lengths, dtype=np.int64), versions)

    def to_bytes(self) -> bytes:
        """Return the message; the segment of each run is the range of its row offsets."""
        message = row_ids_pb2.RowDatasetVersionSequence()
        start = 0
        for length, version in zip(self.lengths.tolist(), self.versions.tolist(), strict=True):
            run = message.runs.add(version=version)
            run.span.range.start, run.span.range.end = start, start + length
            start += length
        data: bytes = message.SerializeToString()
        return data

    def __len__(self) -> int:
        return int(self.lengths.sum())

    @property
    def size_bytes(self) -> int:
        """The approximate memory size of the sequence."""
        return self.lengths.nbytes + self.versions.nbytes

    def bounds(self) -> NDArray[np.int64]:
        """Return the first offset of each run, followed by the number of rows."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    def values(self) -> NDArray[np.uint64]:
        """Return the version of every row, uint64, shape (number of rows,)."""
        return np.repeat(self.versions, self.lengths)

    def at(self, offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the versions at offsets, all of which must exist."""
        if len(self.versions) == 1:
            return np.full(len(offsets), self.versions[0], dtype=np.uint64)
        return self.versions[np.cumsum(self.lengths).searchsorted(offsets, side="right")]

    def slice(self, start: int, stop: int) -> VersionSequence:
        """Return the versions at the offsets from `start` up to, but excluding, `stop`."""
        stops = np.cumsum(self.lengths)
        cut = np.minimum(stops, stop) - np.maximum(stops - self.lengths, start)
        return self._of_runs(np.maximum(cut, 0), self.versions)

    def without(self, deleted: DeletionVector | None) -> VersionSequence:
        """Return the versions of the rows that are not deleted."""
        if deleted is None or not len(deleted):
            return self
        gone = np.diff(deleted.offsets.astype(np.int64).searchsorted(self.bounds()))
        return self._of_runs(self.lengths - gone, self.versions)

    def replaced(self, offsets: NDArray[np.int64], version: int) -> VersionSequence:
        """Return the sequence with another version at some offsets, in any order."""
        values = self.values()
        values[offsets] = version
        return self.of(values)
