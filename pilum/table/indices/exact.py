"""Exact search: the distances of all rows of a scan, window by window.

    windows of the column ──▶ distances ──▶ the k nearest of each window ──▶ the k nearest

Rows without a vector have no distance, and neither have those where it is not a number: a vector
with NaN and, for cosine, a vector of length 0 or with an infinite element.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.meta_columns import ROW_ID
from pilum.format.row_address import Addresses
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import Matrix, VectorType, matrix, unnested
from pilum.table.indices.distances import distances_of
from pilum.table.indices.index_use import ANY_INDEX, IndexUse
from pilum.table.indices.multi_vectors import list_distances
from pilum.table.indices.ranking import Nearest
from pilum.table.indices.use import with_selection
from pilum.table.read.columns import ScanColumn
from pilum.table.read.scan import ScanOptions, scan_tables
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses

__all__ = ["ExactQuery", "VectorColumn", "nearest_by_scan", "refined"]


@dataclass(frozen=True)
class VectorColumn:
    """A column of vectors of a version.

    Attributes:
        path: Name of the column, or dotted path of a member of a struct.
        type: Its type.
    """

    path: str
    type: VectorType

    @classmethod
    def of(cls, snapshot: Snapshot, path: str) -> VectorColumn:
        """Return the column of a path.

        Raises:
            ColumnNotFoundError: If it does not exist.
            UnsupportedTypeError: If it is not a column of vectors.
        """
        column = ScanColumn(snapshot.described, path)
        return cls(path, VectorType.of(path, column.arrow.type))


@dataclass(frozen=True, eq=False)
class ExactQuery:
    """A checked search without an index.

    Attributes:
        queries: The queries, in the element type of the column: shape (b, D) or, for columns of
            lists of vectors, (b, t, D): then each query consists of t vectors.
        metric: The distance.
        k: Maximum number of rows for each query.
        lower: Least distance; None for no limit.
        upper: The distance below which all are; None for no limit.
    """

    queries: Matrix
    metric: Metric
    k: int
    lower: float | None = None
    upper: float | None = None

    def nearest(self, vectors: pa.ChunkedArray, ids: Addresses) -> list[Nearest]:
        """Return the nearest of some rows, for each query.

        Args:
            vectors: The column of the rows.
            ids: Their ids.
        """
        is_multi = self.queries.ndim == 3
        parts: list[list[Nearest]] = [[] for _ in self.queries]
        first = 0
        for chunk in vectors.chunks:
            own = ids[first : first + len(chunk)]
            first += len(chunk)
            compute = self._of_lists if is_multi else self._of_vectors
            for part, found in zip(parts, compute(chunk, own), strict=True):
                part.append(found)
        return [Nearest.of(part, self.k) for part in parts]

    def _of_vectors(self, chunk: pa.Array, ids: Addresses) -> Iterator[Nearest]:
        vectors, valid = matrix(chunk)
        for query in self.queries:
            yield self._kept(ids, distances_of(vectors, query, self.metric), valid)

    def _of_lists(self, chunk: pa.Array, ids: Addresses) -> Iterator[Nearest]:
        """Yield the nearest lists of vectors; see `multi_vectors.py`."""
        if isinstance(chunk, pa.ExtensionArray):
            chunk = chunk.storage
        flat, rows = unnested(chunk)
        vectors, valid = matrix(flat)
        if valid is not None:
            vectors, rows = vectors[valid], rows[valid]
        for query in self.queries:
            found, distances = list_distances(vectors, rows, query, self.metric)
            yield self._kept(ids[found], distances, None)

    def _kept(
        self, ids: Addresses, distances: NDArray[np.float32], valid: NDArray[np.bool_] | None
    ) -> Nearest:
        is_kept = ~np.isnan(distances)
        if valid is not None:
            is_kept &= valid
        if not is_kept.all():
            ids, distances = ids[is_kept], distances[is_kept]
        found = Nearest(ids, distances).within(self.lower, self.upper)
        return Nearest.ordered(found.ids, found.distances, self.k)


def nearest_by_scan(
    snapshot: Snapshot,
    column: VectorColumn,
    query: ExactQuery,
    options: ScanOptions,
    use: IndexUse = ANY_INDEX,
) -> list[Nearest]:
    """Return the nearest rows of a scan, for each query.

    Args:
        snapshot: The version.
        column: The column of vectors.
        query: The queries.
        options: Filter and fragments apply.
        use: Which indices may be used for the filter.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    asked = ScanOptions(
        columns=(column.path,),
        with_row_id=True,
        filter=options.filter,
        fragment_ids=options.fragment_ids,
    )
    best = [Nearest.of((), query.k) for _ in query.queries]
    for table in scan_tables(snapshot, with_selection(snapshot, asked, use)):
        ids = table.column(ROW_ID).to_numpy()
        found = query.nearest(table.column(0), ids)
        best = [Nearest.of(pair, query.k) for pair in zip(best, found, strict=True)]
    return best


def refined(
    snapshot: Snapshot, column: VectorColumn, query: ExactQuery, candidates: Sequence[Addresses]
) -> list[Nearest]:
    """Return the nearest of some candidates for each query, by their exact distances.

    Args:
        snapshot: The version.
        column: The column of vectors.
        query: The queries.
        candidates: Addresses of live rows for each query, in any order.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    rows = np.unique(np.concatenate(candidates))
    has_ids = snapshot.has_stable_row_ids
    table = take_addresses(snapshot, rows, [column.path, ROW_ID] if has_ids else [column.path])
    vectors = ScanColumn(snapshot.described, column.path).pick(table.column(0))
    ids = table.column(1).to_numpy() if has_ids else rows
    if len(candidates) == 1:
        return query.nearest(vectors, ids)
    found = []
    for number, own in enumerate(candidates):
        places = rows.searchsorted(own)
        one = replace(query, queries=query.queries[number : number + 1])
        found += one.nearest(vectors.take(pa.array(places)), ids[places])
    return found
