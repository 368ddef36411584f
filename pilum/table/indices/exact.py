"""Exact search: the distances of all rows of a scan, window by window.

    windows of the column ──▶ one call of a kernel: the k nearest so far ──▶ the k nearest

Rows without a vector have no distance, and neither have those where it is not a number: a vector
with NaN and, for cosine, a vector of length 0 or with an infinite element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import join_arrays
from pilum.blocks import number_array, number_values
from pilum.format.meta_columns import ROW_ID
from pilum.format.rows import Addresses
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import Answer
from pilum.index.vector.vectors import Matrix, VectorType, matrix, unnested
from pilum.kernels import nearest_flat
from pilum.table.indices.index_use import ANY_INDEX, IndexUse
from pilum.table.indices.multi_vectors import list_distances
from pilum.table.indices.ranking import Nearest
from pilum.table.indices.use import with_selection
from pilum.table.read.columns import ScanColumn
from pilum.table.read.plain_values import plain_values
from pilum.table.read.scan import ScanOptions, scan_tables
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import take_addresses

__all__ = ["ExactQuery", "VectorColumn", "nearest_by_scan", "refined"]

_Part: TypeAlias = tuple[Matrix, Addresses, NDArray[np.bool_] | None, None]
"""Vectors, the ids of their rows, and which of them exist; all queries are compared with them."""


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

    def only(self, number: int) -> ExactQuery:
        """Return the search for one of the queries."""
        return replace(self, queries=self.queries[number : number + 1])

    def nearest(self, vectors: pa.ChunkedArray, ids: Addresses) -> list[Nearest]:
        """Return the nearest of some rows, for each query.

        Args:
            vectors: The column of the rows.
            ids: Their ids.
        """
        return _ranked(self.search(vectors, ids))

    def search(
        self, vectors: pa.ChunkedArray, ids: Addresses, earlier: Answer | None = None
    ) -> Answer:
        """Return the nearest of some rows and of those found before, for each query.

        Args:
            vectors: The column of the rows.
            ids: Their ids.
            earlier: The nearest of other rows; None for none.
        """
        ids = np.ascontiguousarray(ids)
        starts = np.cumsum([0, *(len(chunk) for chunk in vectors.chunks)]).tolist()
        chunks = [
            (chunk, ids[start : start + len(chunk)])
            for chunk, start in zip(vectors.chunks, starts, strict=False)
            if len(chunk)
        ]
        if self.queries.ndim == 3:
            return self._of_lists(chunks, earlier)
        return nearest_flat(
            [_part(*chunk) for chunk in chunks],
            self.queries,
            self.metric.value,
            self.k,
            lower=self.lower,
            upper=self.upper,
            earlier=earlier,
        )

    def _of_lists(
        self, chunks: Sequence[tuple[pa.Array, Addresses]], earlier: Answer | None
    ) -> Answer:
        """Return the nearest lists of vectors; see `multi_vectors.py`."""
        found: list[list[Nearest]] = [[] for _ in self.queries]
        if earlier is not None:
            for own, one in zip(found, _ranked(earlier), strict=True):
                own.append(one)
        for chunk, ids in chunks:
            lists = chunk.storage if isinstance(chunk, pa.ExtensionArray) else chunk
            flat, rows = unnested(lists)
            vectors, valid = matrix(flat)
            if valid is not None:
                vectors, rows = vectors[valid], rows[valid]
            for own, query in zip(found, self.queries, strict=True):
                places, distances = list_distances(vectors, rows, query, self.metric)
                is_kept = ~np.isnan(distances)
                one = Nearest(ids[places[is_kept]], distances[is_kept])
                one = one.within(self.lower, self.upper)
                own.append(Nearest.ordered(one.ids, one.distances, self.k))
        return _joined([Nearest.of(own, self.k) for own in found])


def _part(chunk: pa.Array, ids: Addresses) -> _Part:
    """Return vectors as the kernel searches them."""
    vectors, valid = matrix(chunk)
    return vectors, ids, valid, None


def _ranked(answer: Answer) -> list[Nearest]:
    """Return the rows of each query of an answer."""
    bounds, ids, distances = answer
    return [
        Nearest(ids[start:stop], distances[start:stop]) for start, stop in pairwise(bounds.tolist())
    ]


def _joined(parts: Sequence[Nearest]) -> Answer:
    """Return the rows of several queries as one answer."""
    bounds = np.cumsum([0, *(len(one) for one in parts)], dtype=np.int64)
    if len(parts) == 1:
        return bounds, parts[0].ids, parts[0].distances
    ids = np.concatenate([one.ids for one in parts])
    return bounds, ids, np.concatenate([one.distances for one in parts])


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
    best = _joined([Nearest.of((), query.k) for _ in query.queries])
    for table in scan_tables(snapshot, with_selection(snapshot, asked, use)):
        best = query.search(
            table.column(0), number_values(join_arrays(table.column(ROW_ID).chunks, ROW_ID)), best
        )
    return _ranked(best)


def refined(
    snapshot: Snapshot,
    column: VectorColumn,
    query: ExactQuery,
    candidates: Sequence[Nearest],
    addresses: Sequence[Addresses],
) -> list[Nearest]:
    """Return the nearest of some candidates for each query, by their exact distances.

    Args:
        snapshot: The version.
        column: The column of vectors.
        query: The queries.
        candidates: The rows for each query.
        addresses: Their addresses; the rows are live.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    if len(candidates) == 1 and query.queries.ndim == 2:
        return _refined_one(snapshot, column, query, candidates[0], addresses[0])
    rows = np.unique(addresses[0] if len(addresses) == 1 else np.concatenate(addresses))
    places = [rows.searchsorted(own) for own in addresses]
    if query.queries.ndim == 3:
        lists = _taken(snapshot, column, rows)
        return [
            one
            for number, (own, place) in enumerate(zip(candidates, places, strict=True))
            for one in query.only(number).nearest(lists.take(number_array(place)), own.ids)
        ]
    vectors, valid = _vectors(snapshot, column, rows)
    parts = [
        (
            vectors[place],
            np.ascontiguousarray(own.ids),
            None if valid is None else valid[place],
            np.array([number], np.uint32),
        )
        for number, (own, place) in enumerate(zip(candidates, places, strict=True))
    ]
    answer = nearest_flat(
        parts, query.queries, query.metric.value, query.k, lower=query.lower, upper=query.upper
    )
    return _ranked(answer)


def _refined_one(
    snapshot: Snapshot,
    column: VectorColumn,
    query: ExactQuery,
    candidates: Nearest,
    addresses: Addresses,
) -> list[Nearest]:
    """Return the nearest of the candidates for one query; see `refined`."""
    order = addresses.argsort()
    vectors, valid = _vectors(snapshot, column, addresses[order])
    parts = [(vectors, candidates.ids[order], valid, None)]
    _, ids, distances = nearest_flat(
        parts, query.queries, query.metric.value, query.k, lower=query.lower, upper=query.upper
    )
    return [Nearest(ids, distances)]


def _vectors(
    snapshot: Snapshot, column: VectorColumn, rows: Addresses
) -> tuple[Matrix, NDArray[np.bool_] | None]:
    """Return the vectors of rows, ascending and distinct, and which of them exist."""
    plain = plain_values(snapshot, rows, column.path)
    kind = column.type
    if plain is not None and plain.shape[1] == kind.dimension * kind.dtype.itemsize:
        return plain.view(kind.dtype), None
    return matrix(_taken(snapshot, column, rows))


def _taken(snapshot: Snapshot, column: VectorColumn, rows: Addresses) -> pa.ChunkedArray:
    table = take_addresses(snapshot, rows, [column.path])
    return ScanColumn(snapshot.described, column.path).pick(table.column(0))
