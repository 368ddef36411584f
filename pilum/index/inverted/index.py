"""An open segment of a full-text index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pilum.cache import Cache
from pilum.format.rows import Addresses
from pilum.index.answers import Answer, RowSet
from pilum.index.base import Index
from pilum.index.inverted.columns import SearchPart
from pilum.index.inverted.parameters import InvertedParameters
from pilum.index.inverted.partition import Partition
from pilum.index.inverted.tokens import Analyzer
from pilum.index.queries import HasWords, Query
from pilum.kernels import Clause
from pilum.lazy import cached_property

__all__ = ["InvertedIndex"]

_KEPT_COLUMNS = 8


class InvertedIndex(Index):
    """A segment of a full-text index.

    Attributes:
        parameters: Its parameters.
        partitions: Its partitions.
        columns: What searches derive from it and from others, by version: `TextColumn`s.
    """

    def __init__(self, parameters: InvertedParameters, partitions: Sequence[Partition]) -> None:
        self.parameters = parameters
        self.partitions = tuple(partitions)
        self.columns = Cache(_KEPT_COLUMNS)

    @cached_property
    def analyzer(self) -> Analyzer:
        """Return its text analysis.

        Raises:
            MissingDependencyError: If it needs a package that is not installed.
            InvalidInputError: If it needs a dictionary that this machine does not have.
        """
        return Analyzer(self.parameters)

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
        """Return the rows that may contain words, which are cut as in `contains_tokens`."""
        wanted = self._wanted(query)
        if wanted is None:
            return None
        found = [_rows_with(partition, wanted) for partition in self.partitions]
        references = np.concatenate([np.empty(0, np.uint64), *found])
        return Answer(RowSet.of(references), is_exact=False)

    def estimate(self, query: Query) -> int | None:
        """Return the number of rows with the rarest word."""
        wanted = self._wanted(query)
        if wanted is None:
            return None
        return sum(min(part.frequencies(part.ids(wanted))) for part in self.partitions)

    def _wanted(self, query: Query) -> list[str] | None:
        """Return the tokens of all rows that contain words; None if this is not known.

        The base tokenizer `simple` cuts texts as filters do, and filters change one token at a
        time, so what becomes of a word does not depend on the text around it.
        """
        parameters = self.parameters
        is_plain = parameters.lance_tokenizer == "text" and not parameters.list_elements
        if not (isinstance(query, HasWords) and parameters.base_tokenizer == "simple" and is_plain):
            return None
        words = self.analyzer.words(" ".join(query.words))
        return list(dict.fromkeys(word for word, _ in words)) or None

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

    def parts(
        self,
        allowed: RowSet | None = None,
        locate: Callable[[Addresses], Addresses] | None = None,
    ) -> list[SearchPart]:
        """Return what is searched.

        Args:
            allowed: The rows that may be found, as the segment refers to them; None for all.
            locate: Converts row references to those of the result; None if they are the same.
        """
        return [SearchPart(partition, allowed, locate) for partition in self.partitions]


def _rows_with(partition: Partition, tokens: list[str]) -> Addresses:
    """Return the row references of the documents that contain all tokens."""
    ids = partition.ids(tokens)
    if min(ids) < 0:
        return np.empty(0, np.uint64)
    statistics = partition.statistics
    postings = partition.postings(ids, statistics)
    clauses = [Clause.token(posting, 1.0) for posting in postings]
    clause = Clause.all(clauses) if len(clauses) > 1 else clauses[0]
    numbers, _ = clause.search(partition.norms(statistics), None, None, -np.inf)
    return partition.documents.references[numbers]
