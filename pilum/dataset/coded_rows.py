"""The live rows of a partition of a vector index, with their decoded vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pilum.dataset.near_pairs import Vectors
from pilum.format.rows import Addresses
from pilum.index.vector.row_masks import RowMask
from pilum.index.vector.segment import VectorIndex
from pilum.lazy import cached_property
from pilum.table.indices.live import live_rows
from pilum.table.indices.open_segments import OpenSegment

__all__ = ["CodedRows", "CodedSegment"]


@dataclass(frozen=True, eq=False)
class CodedRows:
    """The live rows of a partition.

    Attributes:
        ids: Their ids.
        vectors: Their decoded vectors.
    """

    ids: Addresses
    vectors: Vectors


@dataclass(frozen=True)
class CodedSegment:
    """A segment of a vector index, of which whole partitions are read.

    Attributes:
        segment: The segment.
        index: Its content.
    """

    segment: OpenSegment
    index: VectorIndex

    @property
    def uuid(self) -> str:
        """The uuid of the segment."""
        return self.segment.segment.entry.uuid

    @property
    def num_partitions(self) -> int:
        """The number of partitions."""
        return len(self.index.partitions.lengths)

    @cached_property
    def _live(self) -> RowMask | None:
        # All rows are read, also those of fragments that other segments cover since.
        live = live_rows(self.segment, self.index.references, has_others=True)
        return None if live is None else RowMask(live)

    def read(self, number: int) -> CodedRows:
        """Return the live rows of a partition.

        Raises:
            CorruptFileError: If a file of the index is damaged.
        """
        references, columns = self.index.read(number)
        if self._live is not None:
            kept = self._live.of(references)
            references = references[kept]
            columns = {name: column[kept] for name, column in columns.items()}
        partitions = np.full(len(references), number, np.uint32)
        model = self.index.model
        stored = self.index.quantizer.decoded(columns, partitions, model.centroids)
        has_ids = self.segment.has_ids
        ids = references if has_ids else self.segment.addresses(references)[0]
        return CodedRows(ids, Vectors.of(stored, model.metric))
