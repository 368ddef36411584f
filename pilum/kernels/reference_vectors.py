"""Naive twins of the kernels for vectors; see `pilum.kernels.reference`.

They have the names and the arguments of the kernels. A search goes through parts, for example
the probed partitions of an index, and returns the `k` nearest rows of each query:

    part      data      the vectors or codes of its rows; for product codes a pair of codes and the
                        centroid, float32 (D,), which is subtracted from the queries, or None
              rows      uint64 (n,), their references; or an int, the reference of the first row
              allowed   bool (n,), the rows that may be returned; None: all
              queries   uint32, the numbers of the queries that search this part; None: all

    answer    bounds    int64 (number of queries + 1,), where the rows of each query end
              rows      uint64, ordered by distance, then by reference
              distances float32

Distances are l2 (the squared one), dot (1 - product), cosine (1 - cosine) and hamming (differing
bits). Distances less than `lower`, or not less than `upper`, and NaN are never returned. `earlier`
is an answer that takes part in the selection, so that a search may be continued.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ProductCodebook",
    "VectorSieve",
    "cluster_sums",
    "distances",
    "encode_scalar_codes",
    "nearest_centroids",
    "nearest_flat",
    "nearest_scalar_codes",
]

Floats: TypeAlias = NDArray[np.float32]
Matrix: TypeAlias = NDArray[Any]
Answer: TypeAlias = tuple[NDArray[np.int64], NDArray[np.uint64], Floats]
Part: TypeAlias = tuple[
    Matrix, NDArray[np.uint64] | int, NDArray[np.bool_] | None, NDArray[np.uint32] | None
]
ProductPart: TypeAlias = tuple[
    tuple[Matrix, Floats | None],
    NDArray[np.uint64] | int,
    NDArray[np.bool_] | None,
    NDArray[np.uint32] | None,
]
Distances: TypeAlias = Callable[[int], Matrix]
"""The distances of the rows of a part from the query of that number."""


def distances(vectors: Matrix, queries: Matrix, metric: str) -> Floats:
    """Return the distance of each vector from each query: (number of queries, n)."""
    return np.array([_distances(vectors, query, metric) for query in queries], np.float32).reshape(
        len(queries), len(vectors)
    )


def _distances(vectors: Matrix, query: Matrix, metric: str) -> Matrix:
    if metric == "hamming":
        return np.asarray(np.bitwise_count(vectors ^ query).sum(axis=1, dtype=np.int64))
    rows, one = vectors.astype(np.float64), query.astype(np.float64)
    with np.errstate(all="ignore"):
        if metric == "l2":
            return np.asarray(((rows - one) ** 2).sum(axis=1))
        products = (rows * one).sum(axis=1)
        if metric == "dot":
            return np.asarray(1 - products)
        assert metric == "cosine"
        return np.asarray(1 - products / np.sqrt((rows**2).sum(axis=1) * (one**2).sum()))


class VectorSieve:
    """Codes that show which vectors are too far from a query; answers do not depend on them."""

    def __init__(self, vectors: Matrix, metric: str) -> None:
        self.vectors, self.metric = vectors, metric


def nearest_flat(
    parts: Sequence[Part],
    queries: Matrix,
    metric: str,
    k: int,
    *,
    lower: float | None = None,
    upper: float | None = None,
    earlier: Answer | None = None,
    sieves: Sequence[VectorSieve | None] | None = None,
) -> Answer:
    """Search vectors of float16, float32, float64, uint8 or int8: (n, D) of the same type."""
    del sieves
    found = [
        (part, lambda number, data=part[0]: _distances(data, queries[number], metric))
        for part in parts
    ]
    return _nearest(found, len(queries), k, lower, upper, earlier)


def encode_scalar_codes(vectors: Floats, start: float, end: float) -> NDArray[np.uint8]:
    """Return the scalar code of each component: 0 at `start`, 255 at `end`; (n, D)."""
    if start == end:
        return np.zeros(vectors.shape, np.uint8)
    scaled = (vectors.astype(np.float64) - start) * 255 / (end - start)
    return np.clip(scaled, 0, 255).astype(np.uint8)


def nearest_scalar_codes(
    parts: Sequence[Part],
    queries: Floats,
    start: float,
    end: float,
    metric: str,
    k: int,
    *,
    lower: float | None = None,
    upper: float | None = None,
    earlier: Answer | None = None,
    sieves: Sequence[VectorSieve | None] | None = None,
) -> Answer:
    """Search scalar codes, uint8 (n, D), by l2 of codes, or by dot with the plain query."""
    del sieves
    step = (end - start) / 255
    codes = encode_scalar_codes(queries, start, end)

    def of_part(data: Matrix) -> Distances:
        def one(number: int) -> Matrix:
            if metric == "dot":
                return _distances(start + data * step, queries[number], "dot")
            assert metric == "l2"
            return _distances(data, codes[number], "l2") * step**2

        return one

    found = [(part, of_part(part[0])) for part in parts]
    return _nearest(found, len(queries), k, lower, upper, earlier)


class ProductCodebook:
    """Codewords of product quantization: float32 (m, 16 or 256, D / m).

    Stored codes have 4 or 8 bits. Those of 4 bits are stored in pairs, the first one in the low
    half. `transposed` bytes are stored column by column.
    """

    def __init__(self, codewords: Floats) -> None:
        self.codewords = codewords
        self.num_sub_vectors, self.num_codes, self.width = codewords.shape

    def _cut(self, vectors: Matrix) -> Matrix:
        return vectors.reshape(len(vectors), self.num_sub_vectors, self.width)

    def encode(self, vectors: Floats) -> NDArray[np.uint8]:
        """Return the number of the nearest codeword (by l2) of each sub-vector: (n, m)."""
        cut = self._cut(vectors)
        codes = [
            ((cut[:, i, np.newaxis, :] - words) ** 2).sum(axis=2).argmin(axis=1)
            for i, words in enumerate(self.codewords)
        ]
        return np.stack(codes, axis=1).astype(np.uint8)

    def tables(self, queries: Floats, metric: str) -> Floats:
        """Return the distance of each codeword from its part of each query: (queries, m, C)."""
        cut = self._cut(queries)[:, :, np.newaxis, :]
        if metric == "dot":
            return np.asarray(1 - (cut * self.codewords).sum(axis=3))
        assert metric == "l2"
        return np.asarray(((cut - self.codewords) ** 2).sum(axis=3))

    def nearest(
        self,
        parts: Sequence[ProductPart],
        queries: Floats,
        metric: str,
        k: int,
        *,
        transposed: bool = True,
        lower: float | None = None,
        upper: float | None = None,
        earlier: Answer | None = None,
    ) -> Answer:
        """Search product codes as stored: uint8 (n, m) of 8 bits, (n, m / 2) of 4 bits."""

        def of_part(part: ProductPart) -> Distances:
            stored, centroid = part[0]
            codes = self._codes(stored, transposed)

            def one(number: int) -> Matrix:
                query = queries[number] if centroid is None else queries[number] - centroid
                table = self.tables(query[np.newaxis], metric)[0]
                total = np.zeros(len(codes), np.float32)
                for line, column in zip(table, codes.T, strict=True):
                    total += line[column]
                return total - np.float32(self.num_sub_vectors - 1 if metric == "dot" else 0)

            return one

        found = [((part[0][0], *part[1:]), of_part(part)) for part in parts]
        return _nearest(found, len(queries), k, lower, upper, earlier)

    def _codes(self, stored: NDArray[np.uint8], transposed: bool) -> NDArray[np.uint8]:
        plain = stored.reshape(stored.shape[::-1]).T if transposed else stored
        if self.num_codes == 256:
            return plain
        return np.stack([plain & 15, plain >> 4], axis=2).reshape(len(plain), self.num_sub_vectors)


def cluster_sums(
    vectors: Matrix, clusters: NDArray[np.uint32], num_clusters: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the sum of the vectors of each cluster, (C, D), and how many they are: (C,)."""
    sums = np.zeros((num_clusters, vectors.shape[1]))
    np.add.at(sums, clusters, vectors.astype(np.float64))
    return sums, np.bincount(clusters, minlength=num_clusters)


def nearest_centroids(
    vectors: Floats, centroids: Floats, offsets: Floats, factor: float
) -> tuple[NDArray[np.uint32], Floats]:
    """Return where `offsets - factor * centroids @ vector` is least, and that value, for vectors.

    With the squared lengths of the centroids as offsets and the factor 2, this is the nearest
    centroid by l2. With zeros and 1, it is the one with the greatest product. Of equal values the
    first one counts. NaN is never the least; if there is nothing else, the first centroid has the
    value infinity.
    """
    with np.errstate(all="ignore"):
        values = offsets - np.float32(factor) * (vectors @ centroids.T)
    values = np.where(np.isnan(values), np.float32(np.inf), values)
    places = values.argmin(axis=1)
    return places.astype(np.uint32), values[np.arange(len(values)), places]


def _nearest(
    parts: Sequence[tuple[Part, Distances]],
    num_queries: int,
    k: int,
    lower: float | None,
    upper: float | None,
    earlier: Answer | None,
) -> Answer:
    hits: list[list[tuple[float, int]]] = [[] for _ in range(num_queries)]
    if earlier is not None:
        bounds, rows, values = (array.tolist() for array in earlier)
        for number, some in enumerate(hits):
            own = slice(bounds[number], bounds[number + 1])
            pairs = zip(values[own], rows[own], strict=True)
            some += [pair for pair in pairs if _is_within(pair[0], lower, upper)]
    for (data, references, allowed, queries), distances_from in parts:
        if isinstance(references, int):
            references = np.arange(references, references + len(data), dtype=np.uint64)
        for number in range(num_queries) if queries is None else queries.tolist():
            values = distances_from(number).astype(np.float32) + np.float32(0)
            keep = ~np.isnan(values) if allowed is None else allowed & ~np.isnan(values)
            keep &= _is_within(values, lower, upper)
            hits[number] += zip(values[keep].tolist(), references[keep].tolist(), strict=True)
    best = [sorted(some)[:k] for some in hits]
    return (
        np.cumsum([0, *map(len, best)], dtype=np.int64),
        np.array([row for some in best for _, row in some], np.uint64),
        np.array([value for some in best for value, _ in some], np.float32),
    )


def _is_within(values: Any, lower: float | None, upper: float | None) -> Any:
    is_below = True if upper is None else values < np.float32(upper)
    return is_below & (values >= np.float32(-np.inf if lower is None else lower))
