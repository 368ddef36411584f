"""The index that answers a search of nearest vectors: its segments, and the candidates in them.

    the first entry of the manifest for the column ──▶ all segments of its name ──▶ candidates

Other indices of the column are never used. Rows of a segment that were deleted or updated are left
out, and those that moved are found at their new place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeGuard

import numpy as np
from pyroaring import BitMap

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.rows import MAX_ROWS, Addresses, first_address, fragment_ids_of, rows_of
from pilum.index.answers import RowSet
from pilum.index.base import Counted, Index
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Candidates, NearestQuery
from pilum.index.vector.vectors import Matrix
from pilum.lazy import cached_property
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.live import allowed_rows, is_plain, live_rows
from pilum.table.indices.multi_vectors import fused
from pilum.table.indices.open_segments import OpenSegment, are_all_open, no_such_rows, open_segments
from pilum.table.indices.ranking import Nearest
from pilum.table.read.snapshot import Snapshot

__all__ = ["SearchedIndex", "VectorSegments", "are_kept", "vector_segments"]

_MORE_OF_LISTS = 10
"""How many times more rows are searched for each vector of a query for lists of vectors."""


class SearchedIndex(Counted, Protocol):
    """The interface of an open segment of an index of vectors."""

    @property
    def model(self) -> IvfModel:
        """The centroids, and the metric of the index."""

    def references(self) -> Addresses:
        """Return all rows that it refers to; they may repeat."""

    def nearest_batch(
        self, vectors: Matrix, query: NearestQuery, allowed: RowSet | None = None
    ) -> list[Candidates]:
        """Return the rows nearest to each of several queries, as the index refers to them.

        Args:
            vectors: The queries, shape (b, D).
            query: Everything else about them; its vector is not used.
            allowed: The rows that may be returned; None for all.
        """


@dataclass(frozen=True, eq=False)
class VectorSegments:
    """The open segments of one index of vectors; at least one.

    Attributes:
        segments: The segments with their content.
        fragments: The existing fragments that they cover.
    """

    segments: tuple[tuple[OpenSegment, SearchedIndex], ...]
    fragments: BitMap

    @property
    def name(self) -> str:
        """The name of the index."""
        return self.segments[0][0].name

    @cached_property
    def uuids(self) -> tuple[str, ...]:
        """The uuids of the segments."""
        return tuple(segment.segment.entry.uuid for segment, _ in self.segments)

    @property
    def metric(self) -> Metric:
        """The metric of the index."""
        return self.segments[0][1].model.metric

    def allowed(self, matching: RowSet | None) -> list[RowSet | None]:
        """Return for each segment the rows that may be returned; None for all.

        Args:
            matching: Addresses of the rows to search; None for all.
        """
        return [
            allowed_rows(segment, index.references, matching) for segment, index in self.segments
        ]

    def nearest(
        self, vectors: Matrix, query: NearestQuery, allowed: Sequence[RowSet | None]
    ) -> list[Nearest]:
        """Return the `query.k` nearest rows of all segments, for each query.

        Args:
            vectors: The queries, shape (b, D).
            query: Everything else about them.
            allowed: From `allowed`.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        found = self._nearest(vectors, query, allowed)
        for one in found:
            ids = one.ids.tolist()
            if len(set(ids)) < len(ids):
                raise CorruptFileError("the index names a row twice", f"index {self.name!r}")
        return found

    def _nearest(
        self, vectors: Matrix, query: NearestQuery, allowed: Sequence[RowSet | None]
    ) -> list[Nearest]:
        """Return the nearest rows as `nearest`; rows of lists of vectors may repeat."""
        searched = [
            _searched(segment, index, vectors, query, rows)
            for (segment, index), rows in zip(self.segments, allowed, strict=True)
        ]
        if len(searched) == 1:
            return searched[0]
        parts = zip(*searched, strict=True)
        return [Nearest.of(part, query.k) for part in parts]

    def nearest_lists(
        self, vectors: Matrix, query: NearestQuery, allowed: Sequence[RowSet | None]
    ) -> Nearest:
        """Return the nearest lists of vectors, by the estimate of `fused`, at any distance.

        Args:
            vectors: The vectors of the query, shape (t, D).
            query: The limits.
            allowed: From `allowed`.
        """
        more = replace(query, k=query.k * _MORE_OF_LISTS, lower=None, upper=None)
        return fused(self._nearest(vectors, more, allowed), query.k)


def vector_segments(snapshot: Snapshot, path: str, use: IndexUse) -> VectorSegments | None:
    """Return the segments that answer searches of a column; None if it has no usable index.

    The version remembers them, if all of them could be opened.

    Args:
        snapshot: The version.
        path: The column.
        use: Which segments may be used.

    Raises:
        InvalidInputError: If a segment that is named does not belong to the column.
        CorruptFileError: If an entry of the manifest is damaged.
    """
    key = vector_segments, path, use.segments
    known: VectorSegments | None = snapshot.prepared.get(key)
    if known is not None:
        return known
    found = list(_opened(snapshot, path))
    found = [one for one in found if one[0].name == found[0][0].name]
    if use.segments is not None:
        uuids = {segment.segment.entry.uuid for segment, _ in found}
        if not use.segments or use.segments - uuids:
            raise InvalidInputError(
                f"index_segments: expected uuids of segments of the vector index of column "
                f"{path!r}, which has {sorted(uuids)}; found {sorted(use.segments)}"
            )
        found = [one for one in found if one[0].segment.entry.uuid in use.segments]
    if not found:
        return None
    fragments = BitMap().union(*(segment.fragments for segment, _ in found))
    known = VectorSegments(tuple(found), fragments)
    if are_all_open(snapshot, path):
        snapshot.prepared.put(key, known, 1)
    return known


def are_kept(snapshot: Snapshot, path: str, use: IndexUse, segments: VectorSegments) -> bool:
    """Return whether the version remembers these segments of a column; see `vector_segments`."""
    return snapshot.prepared.get((vector_segments, path, use.segments)) is segments


def _opened(snapshot: Snapshot, path: str) -> Iterator[tuple[OpenSegment, SearchedIndex]]:
    if not snapshot.manifest.index_section:
        return
    for segment in open_segments(snapshot, path):
        if _is_searched(index := segment.index):
            yield segment, index


def _is_searched(index: Index) -> TypeGuard[SearchedIndex]:
    """Return whether an index is one of vectors; a check of the whole interface takes 50 us."""
    return hasattr(index, "nearest_batch")


def _searched(
    segment: OpenSegment,
    index: SearchedIndex,
    vectors: Matrix,
    query: NearestQuery,
    allowed: RowSet | None,
) -> list[Nearest]:
    """Return the nearest rows of a segment, for each query."""
    found = index.nearest_batch(vectors, query, allowed)
    segment.count_grown(index)
    if not is_plain(segment):
        return [Nearest(_ids(segment, one.references), one.distances) for one in found]
    references = [one.references for one in found]
    if not _are_covered(segment, references[0] if len(found) == 1 else np.concatenate(references)):
        live = live_rows(segment, index.references, has_others=True)
        both = live if allowed is None or live is None else allowed & live
        found = index.nearest_batch(vectors, query, both)
    return [Nearest(one.references, one.distances) for one in found]


def _ids(segment: OpenSegment, references: Addresses) -> Addresses:
    """Return the ids of rows, given how a segment refers to them."""
    if segment.has_ids:
        return references
    assert segment.moved is not None
    addresses = segment.moved(references)[0]
    if not _are_covered(segment, addresses):
        raise no_such_rows(segment.segment)
    return addresses


def _are_covered(segment: OpenSegment, addresses: Addresses) -> bool:
    """Return whether rows are in covered fragments.

    Others are in fragments that were covered, but have other values since.

    Raises:
        CorruptFileError: If a covered fragment has no such row, or no fragment ever had the id.
    """
    if not len(addresses):
        return True
    sizes = segment.segment.sizes_by_fragment
    if len(sizes) == 1:
        [(number, size)] = sizes.items()
        first, all = first_address(number), addresses.tolist()
        if first <= min(all) and max(all) < first + size:
            return True
    numbers, rows = fragment_ids_of(addresses).tolist(), rows_of(addresses).tolist()
    beyond = [row >= sizes.get(number, MAX_ROWS) for number, row in zip(numbers, rows, strict=True)]
    highest = segment.snapshot.manifest.highest_possible_fragment_id
    if any(beyond) or max(numbers) > highest:
        raise no_such_rows(segment.segment)
    return sizes.keys() >= set(numbers)
