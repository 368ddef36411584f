"""Columns to search: partitions of indices, and rows that no index covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.cache import Cache
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.inverted.partition import Partition
from pilum.index.inverted.tokens import Analyzer
from pilum.index.inverted.words import Scope
from pilum.lazy import cached_property

__all__ = ["SearchPart", "TextColumn"]

_KEPT_CLAUSES_BYTES = 32 << 20


@dataclass(frozen=True, eq=False)
class SearchPart:
    """A partition to search.

    Attributes:
        partition: The partition.
        allowed: The rows that may be found, as the partition refers to them; None for all.
        locate: Converts its row references to those of the result; None if they are the same.
    """

    partition: Partition
    allowed: RowSet | None = None
    locate: Callable[[Addresses], Addresses] | None = None

    def references(self, numbers: NDArray[np.integer[Any]] | None = None) -> Addresses:
        """Return row references of the result, of some documents or of all."""
        references = self.partition.documents.references
        own = references if numbers is None else references[numbers]
        return own if self.locate is None else self.locate(own)

    def may_be_found(self, numbers: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
        """Return which of some documents may be found."""
        if self.allowed is None:
            return np.ones(len(numbers), np.bool_)
        references = self.partition.documents.references[numbers]
        return np.isin(references, self.allowed.listed, invert=self.allowed.is_complement)

    def within(self, rows: RowSet) -> SearchPart:
        """Return the partition with fewer rows, given by the references of the result."""
        own = rows
        if self.locate is not None:
            kept = np.isin(self.references(), rows.listed, invert=rows.is_complement)
            own = RowSet.of(self.partition.documents.references[kept])
        return replace(self, allowed=own if self.allowed is None else self.allowed & own)


@dataclass(frozen=True, eq=False)
class TextColumn:
    """A column to search.

    Attributes:
        analyzer: Its text analysis.
        parts: The partitions of all segments of its index.
        flat: Rows that no segment covers, in memory; None if there are none.
    """

    analyzer: Analyzer
    parts: Sequence[SearchPart] = ()
    flat: SearchPart | None = None

    @cached_property
    def clauses(self) -> Cache:
        """Clauses of queries in each partition; see `search`."""
        return Cache(_KEPT_CLAUSES_BYTES)

    @property
    def partitions(self) -> list[Partition]:
        """All partitions."""
        flat = [] if self.flat is None else [self.flat.partition]
        return [*(part.partition for part in self.parts), *flat]

    @cached_property
    def scopes(self) -> list[tuple[Scope, Sequence[SearchPart]]]:
        """Return what is searched together."""
        indexed = [part.partition for part in self.parts]
        found: list[tuple[Scope, Sequence[SearchPart]]] = []
        if indexed:
            found.append((Scope.of(indexed, indexed), self.parts))
        if self.flat is not None:
            flat = self.flat.partition
            found.append((Scope.of([flat], [*indexed, flat]), [self.flat]))
        return found

    def within(self, rows: RowSet) -> TextColumn:
        """Return the column with fewer rows, which are given by the references of the result."""
        parts = [part.within(rows) for part in self.parts]
        flat = None if self.flat is None else self.flat.within(rows)
        return replace(self, parts=parts, flat=flat)
