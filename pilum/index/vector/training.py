"""The models of an index, trained on a sample of the rows.

    sample   random rows, without those that no index contains; of length 1 for cosine
    IVF      k-means: centroids in the element type; for dot of length 1, for hamming bits
    PQ       k-means of each sub-vector of the differences to the centroids; for dot of the vectors;
             codewords in the order of `codeword_order.py`
    SQ       the smallest and the largest element

Random numbers come from a fixed seed, so the same rows have the same models.

Source: docs/format/vector-indices.md, "Partitions" and "Quantizers".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.index.vector.codeword_order import ordered
from pilum.index.vector.kmeans import (
    Nearest,
    bits,
    directions,
    k_means,
    many_clusters,
    nearest,
    nearest_by_pool,
)
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import Matrix, VectorType, matrix, normalized, unnested, usable
from pilum.parallel import submit

__all__ = ["indexed_vectors", "sample_of", "train_bounds", "train_centroids", "train_codebook"]

_SEED = 42
_TOLERANCE_OF_CODEBOOKS = 5e-4
_PROJECTIONS = {Metric.DOT: directions, Metric.HAMMING: bits}


def indexed_vectors(
    array: pa.Array, vectors: VectorType, metric: Metric
) -> tuple[Matrix, NDArray[np.int64] | None]:
    """Return the vectors of rows that an index contains.

    Args:
        array: Values of the column.
        vectors: Its type.
        metric: Metric of the index.

    Returns:
        The vectors, of length 1 for cosine; and the row of each, None if there is one for each row.
    """
    rows = None
    if vectors.is_multi:
        array, rows = unnested(array)
    found, valid = matrix(array)
    kept = usable(found, valid, metric)
    if kept is not None:
        rows = np.flatnonzero(kept) if rows is None else rows[kept]
        found = found[kept]
    return (normalized(found) if metric is Metric.COSINE else found), rows


def sample_of(
    sample: Callable[[int], pa.Array],
    num_rows: int,
    wanted: int,
    most: int,
    vectors: VectorType,
    metric: Metric,
) -> Matrix:
    """Return random vectors of rows that an index contains.

    Args:
        sample: From `IndexRows`.
        num_rows: Number of rows of the table.
        wanted: The number that is useful.
        most: The largest number of rows to read.
        vectors: Type of the column.
        metric: Metric of the index.
    """
    count = min(wanted, most, num_rows)
    found, _ = indexed_vectors(sample(count), vectors, metric)
    if len(found) < min(wanted, most) // 2 and count < min(most, num_rows):  # many rows are null
        more = min(most, num_rows, 2 * count * wanted // max(len(found), 1))
        found, _ = indexed_vectors(sample(more), vectors, metric)
    return found[:wanted]


def train_centroids(
    sample: Matrix,
    count: int,
    metric: Metric,
    max_iterations: int,
    seed: int = _SEED,
    find: Nearest | None = None,
) -> Matrix:
    """Return the centroids of partitions, in the element type of the sample.

    Args:
        sample: Shape (n, D); for cosine, of length 1.
        count: Number of partitions, at most n.
        metric: Metric of the index.
        max_iterations: Most updates of the centroids.
        seed: Of the random numbers.
        find: Finds the nearest centroids; None for the processors.
    """
    elements: Matrix = np.unpackbits(sample, axis=1) if metric is Metric.HAMMING else sample
    rows: NDArray[np.float32] = elements.astype(np.float32)
    middle = _centred(rows) if metric in (Metric.L2, Metric.COSINE) else None
    centroids = many_clusters(
        rows,
        count,
        np.random.default_rng(seed),
        projection=_PROJECTIONS.get(metric),
        max_iterations=max_iterations,
        find=find or nearest_by_pool,
    )
    if middle is not None:
        centroids = centroids + middle
    if metric is Metric.HAMMING:
        return np.packbits(centroids.astype(np.uint8), axis=1)
    return centroids.astype(sample.dtype)


def train_codebook(
    vectors: Matrix,
    num_sub_vectors: int,
    num_bits: int,
    max_iterations: int,
    seed: int = _SEED,
    find: Nearest | None = None,
) -> Matrix:
    """Return the codebook of a product quantizer, in the element type of the vectors.

    Args:
        vectors: What is encoded, of shape (n, D): at least `2**num_bits`.
        num_sub_vectors: Number of sub-vectors, m.
        num_bits: Bits of a code.
        max_iterations: Most updates of the codewords.
        seed: Of the random numbers.
        find: Finds the nearest codewords, for one sub-vector after another; None for the
            processors, which train several at once.

    Returns:
        Shape (m, 2**num_bits, D / m).
    """
    width = vectors.shape[1] // num_sub_vectors

    def train(number: int) -> NDArray[np.float32]:
        part = vectors[:, number * width : (number + 1) * width].astype(np.float32)
        middle = _centred(part)
        generator = np.random.default_rng((seed, number))
        found = k_means(
            part,
            2**num_bits,
            generator,
            max_iterations=max_iterations,
            tolerance=_TOLERANCE_OF_CODEBOOKS,
            find=find or nearest,
            few_first=True,
        )
        return found.centroids + middle

    if find is not None:
        found = [train(number) for number in range(num_sub_vectors)]
        return ordered(np.stack(found)).astype(vectors.dtype)
    tasks = [submit(partial(train, number)) for number in range(num_sub_vectors)]
    try:
        return ordered(np.stack([task.result() for task in tasks])).astype(vectors.dtype)
    finally:
        for task in tasks:
            task.cancel()


def train_bounds(sample: Matrix) -> tuple[float, float]:
    """Return the smallest and the largest element of vectors."""
    return float(sample.min()), float(sample.max())


def _centred(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Subtract the mean of rows in place, which saves digits, and return it."""
    middle: NDArray[np.float32] = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    np.subtract(rows, middle, out=rows)
    return middle
