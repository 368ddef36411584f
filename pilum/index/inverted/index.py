"""An open segment of a full-text index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pilum.format.row_address import Addresses
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index
from pilum.index.inverted.columns import SearchPart
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import Partition
from pilum.index.inverted.tokens import Analyzer
from pilum.index.queries import Query

__all__ = ["InvertedIndex"]


class InvertedIndex(Index):
    """A segment of a full-text index.

    Attributes:
        parameters: Its parameters.
        partitions: Its partitions.
        analyzer: Its text analysis.
    """

    def __init__(self, parameters: InvertedParameters, partitions: Sequence[Partition]) -> None:
        self.parameters = parameters
        self.partitions = tuple(partitions)
        self.analyzer = Analyzer(parameters)

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        return sum(partition.size_bytes for partition in self.partitions)

    @property
    def references(self) -> Addresses:
        """The row references of all documents, in their order."""
        parts = [partition.documents.references for partition in self.partitions]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def search(self, query: Query) -> Answer | None:
        """Return None: conditions on texts are tested by reading them."""
        del query
        return None

    def estimate(self, query: Query) -> int | None:
        """Return None: conditions on texts are tested by reading them."""
        del query
        return None

    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` for this segment, by the reference's names."""
        return {
            "params": self.parameters.stored(),
            "num_tokens": sum(len(partition.tokens) for partition in self.partitions),
            "num_docs": sum(len(partition.documents) for partition in self.partitions),
        }

    def prewarm(self) -> None:
        """Load everything into memory."""
        for partition in self.partitions:
            partition.prewarm()

    def parts(self, allowed: RowSet | None = None) -> list[SearchPart]:
        """Return what is searched.

        Args:
            allowed: The rows that may be found, as the segment refers to them; None for all.
        """
        return [SearchPart(partition, allowed) for partition in self.partitions]
