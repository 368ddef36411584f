"""K-means: centroids such that the sum of squared distances of rows to the nearest one is small.

    centroids   rows, in eight rounds: drawn in proportion to the distance to those before
    repeat      each row goes to its nearest centroid
                each centroid moves to the mean of its rows, and at first as far again by half
                an empty cluster begins again at a row, which is drawn in proportion to its distance
    until       the loss, that is the sum, shrinks by less than a tolerance

Squared distances are |x|² + |c|² - 2 x·c; for the nearest centroid, |x|² does not matter. A step
after which the loss is larger is taken back; the last steps lead to the means themselves. Centroids
can be bound to a form by a projection: to length 1 (then the nearest one has the largest inner
product), or to bits (then the distance is that of Hamming).

Few clusters are found several times, from different rows, as losses vary by some percent; the best
ones count. Very many clusters are found in steps: first 16, then the largest is divided into at
most 16, and so on; at last, all centroids are updated as often as is affordable.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from pilum.index.vector.vectors import normalized
from pilum.kernels import cluster_sums, nearest_centroids
from pilum.parallel import num_threads, submit

__all__ = [
    "Clusters",
    "Nearest",
    "Projection",
    "bits",
    "directions",
    "k_means",
    "many_clusters",
    "nearest",
    "nearest_by_pool",
]

Nearest = Callable[
    [NDArray[np.float32], NDArray[np.float32]], tuple[NDArray[np.uint32], NDArray[np.float32]]
]
"""Function that returns what `nearest` does."""

Projection = Callable[[NDArray[np.float32]], NDArray[np.float32]]
"""Function that returns the centroids that are permitted and nearest to means."""

_TOLERANCE = 1e-4
_LONG_STEP = 1.5
"""How far centroids move at first, in distances to the means: half as many updates are needed."""

_MOST_AT_ONCE = 256
_BRANCHES = 16
_ROUNDS = 8
_MOST_ROWS_OF_CLUSTER = 512
_FEW_ROWS_OF_CLUSTER, _MANY_TIMES = 32, 4
"""So many rows of a cluster are enough to begin with, if there are several times as many."""

_ROUGH = 3e-3
"""The tolerance for few rows. With codebooks, a third of the time is saved at an equal loss."""

_FEW_PRODUCTS = 2**22
"""Multiplications that are not worth a second thread."""

_MOST_PRODUCTS = 4e11
"""Multiplications that are worth spending on updates of all centroids."""

_FEWEST_UPDATES = 8

_MOST_TRIES, _CHEAP_PRODUCTS = 4, 2**28
"""So often, small k-means begin again; the clusters with the smallest loss are the result."""


@dataclass(frozen=True)
class Clusters:
    """The result of k-means.

    Attributes:
        centroids: Shape (k, D).
        numbers: The cluster of each row, of shape (n,).
        loss: Sum of the squared distances of the rows to their centroids.
    """

    centroids: NDArray[np.float32]
    numbers: NDArray[np.uint32]
    loss: float


def directions(means: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return means with length 1; those of length 0 stay."""
    found = normalized(means)
    return np.where(np.isnan(found), means, found)


def bits(means: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the bits, as 0 and 1, that most rows have."""
    return (means > np.float32(0.5)).astype(np.float32)


def nearest(
    rows: NDArray[np.float32], centroids: NDArray[np.float32]
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return the number of the centroid nearest to each row, and the squared distance to it.

    Args:
        rows: Shape (n, D).
        centroids: Shape (k, D).
    """
    offsets = np.einsum("ij,ij->i", centroids, centroids)
    numbers, distances = nearest_centroids(rows, centroids, offsets, 2.0)
    with np.errstate(over="ignore", invalid="ignore"):  # squares of long vectors are infinite
        distances += np.einsum("ij,ij->i", rows, rows)
    return numbers, np.maximum(distances, 0, out=distances)


def nearest_by_pool(
    rows: NDArray[np.float32], centroids: NDArray[np.float32]
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return what `nearest` does, by the pool for computing; not for tasks of that pool."""
    count = num_threads() if len(rows) * centroids.size > _FEW_PRODUCTS else 1
    if count == 1:
        return nearest(rows, centroids)
    first, *others = np.array_split(rows, count)
    tasks = [submit(partial(nearest, part, centroids)) for part in others]
    found = [nearest(first, centroids), *(task.result() for task in tasks)]
    numbers, distances = zip(*found, strict=True)
    return np.concatenate(numbers), np.concatenate(distances)


def k_means(
    rows: NDArray[np.float32],
    count: int,
    generator: np.random.Generator,
    *,
    projection: Projection | None = None,
    max_iterations: int = 50,
    tolerance: float = _TOLERANCE,
    find: Nearest = nearest,
    few_first: bool = False,
) -> Clusters:
    """Find clusters.

    Args:
        rows: Finite vectors, of shape (n, D).
        count: Number of clusters, at most n.
        generator: Source of random numbers.
        projection: Binds centroids to a form; None for none.
        max_iterations: Most updates of the centroids; as many with few rows, before.
        tolerance: If the loss shrinks by a smaller part, no further updates follow.
        find: Finds the nearest centroids.
        few_first: Whether few rows of a cluster are used at first: it takes less time, but
            separate groups of rows are found less well.
    """
    project = projection or _unchanged
    few = rows
    if few_first and len(rows) >= _MANY_TIMES * _FEW_ROWS_OF_CLUSTER * count:
        few = _some(rows, _FEW_ROWS_OF_CLUSTER * count, generator)
    centroids = project(few[_first_rows(few, count, generator, find)])
    if few is not rows:
        rough = _improved(few, centroids, generator, project, max_iterations, find, _ROUGH)
        centroids = rough.centroids
    return _improved(rows, centroids, generator, project, max_iterations, find, tolerance)


def many_clusters(
    rows: NDArray[np.float32],
    count: int,
    generator: np.random.Generator,
    *,
    projection: Projection | None = None,
    max_iterations: int = 50,
    find: Nearest = nearest_by_pool,
) -> NDArray[np.float32]:
    """Return the centroids of clusters, of which there can be thousands.

    There are fewer than requested if there are too few different rows. The arguments are those of
    `k_means`.
    """
    project = projection or _unchanged
    some = _some(rows, _MOST_ROWS_OF_CLUSTER * count, generator)
    affordable = min(int(_MOST_PRODUCTS / (some.size * count)), max_iterations)
    if count <= _MOST_AT_ONCE or affordable >= min(_FEWEST_UPDATES, max_iterations):
        updates = max_iterations if count <= _MOST_AT_ONCE else affordable
        tries = (
            k_means(
                some,
                count,
                generator,
                projection=projection,
                max_iterations=updates,
                find=find,
            )
            for _ in range(max(1, min(_MOST_TRIES, _CHEAP_PRODUCTS // (some.size * count))))
        )
        return min(tries, key=lambda one: one.loss).centroids
    centroids = _divided(rows, count, generator, project, max_iterations, find)
    return _improved(rows, centroids, generator, project, affordable, find).centroids


def _first_rows(
    rows: NDArray[np.float32], count: int, generator: np.random.Generator, find: Nearest
) -> NDArray[np.intp]:
    """Return different rows that are far from each other; random ones if few rows differ."""
    chosen = generator.choice(len(rows), -(-count // _ROUNDS), replace=False)
    distances = find(rows, rows[chosen])[1]
    while len(chosen) < count and distances.any():
        size = min(-(-count // _ROUNDS), count - len(chosen))
        new = np.setdiff1d(_far_rows(distances, size, generator), chosen)
        if not len(new):
            break
        chosen = np.append(chosen, new)
        np.minimum(distances, find(rows, rows[new])[1], out=distances)
    others = np.setdiff1d(np.arange(len(rows)), chosen)
    more = generator.choice(others, count - len(chosen), replace=False)
    return np.append(chosen, more)


def _improved(
    rows: NDArray[np.float32],
    centroids: NDArray[np.float32],
    generator: np.random.Generator,
    project: Projection,
    max_iterations: int,
    find: Nearest,
    tolerance: float = _TOLERANCE,
) -> Clusters:
    numbers, distances = find(rows, centroids)
    best = Clusters(centroids, numbers, _loss(distances))
    step = np.float32(_LONG_STEP if project is _unchanged else 1)
    for _ in range(max_iterations):
        means = _means(rows, best.centroids, best.numbers)
        centroids = project(
            means if step == 1 else best.centroids + step * (means - best.centroids)
        )
        empty = np.flatnonzero(np.bincount(best.numbers, minlength=len(centroids)) == 0)
        if len(empty) and best.loss > 0:
            chosen = _far_rows(distances, len(empty), generator)
            centroids[empty[: len(chosen)]] = project(rows[chosen])
        numbers, distances = find(rows, centroids)
        gain = best.loss - _loss(distances)
        if gain > 0:
            best = Clusters(centroids, numbers, _loss(distances))
        if gain <= tolerance * best.loss:
            if step == 1:
                break
            step = np.float32(1)
    return best


def _unchanged(means: NDArray[np.float32]) -> NDArray[np.float32]:
    return means


def _loss(distances: NDArray[np.float32]) -> float:
    return float(distances.sum(dtype=np.float64))


def _means(
    rows: NDArray[np.float32], centroids: NDArray[np.float32], numbers: NDArray[np.uint32]
) -> NDArray[np.float32]:
    """Return the mean of the rows of each cluster; centroids of empty clusters stay."""
    sums, counts = cluster_sums(rows, numbers, len(centroids))
    filled = counts > 0
    means = centroids.copy()
    means[filled] = sums[filled] / counts[filled, None]
    return means


def _far_rows(
    distances: NDArray[np.float32], count: int, generator: np.random.Generator
) -> NDArray[np.intp]:
    """Return rows, each drawn in proportion to its distance; fewer if few have a distance."""
    sums = np.cumsum(distances, dtype=np.float64)
    drawn = np.searchsorted(sums, generator.random(count) * sums[-1], side="right")
    return np.unique(np.minimum(drawn, len(distances) - 1))


def _some(
    rows: NDArray[np.float32], most: int, generator: np.random.Generator
) -> NDArray[np.float32]:
    """Return random rows, at most so many, in their order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(generator.choice(len(rows), most, replace=False))]


def _divided(
    rows: NDArray[np.float32],
    count: int,
    generator: np.random.Generator,
    project: Projection,
    max_iterations: int,
    find: Nearest,
) -> NDArray[np.float32]:
    """Return centroids of clusters that were found by dividing the largest one repeatedly."""
    everything = np.arange(len(rows))
    largest: list[tuple[int, int, NDArray[np.intp]]] = [(-len(rows), 0, everything)]
    final: list[NDArray[np.float32]] = []
    centroids = {0: project(rows.mean(axis=0, keepdims=True))[0]}
    next_number = 1
    while largest and len(largest) + len(final) < count:
        size, number, members = heapq.heappop(largest)
        missing = count - len(largest) - len(final)
        ways = max(2, min(-size // _BRANCHES, missing, _BRANCHES))
        parts = _parts(rows, members, ways, generator, project, max_iterations, find)
        if len(parts) < 2:
            final.append(centroids.pop(number))
            continue
        del centroids[number]
        for centroid, own in parts:
            centroids[next_number] = centroid
            heapq.heappush(largest, (-len(own), next_number, own))
            next_number += 1
    return np.stack([*final, *centroids.values()])


def _parts(
    rows: NDArray[np.float32],
    members: NDArray[np.intp],
    ways: int,
    generator: np.random.Generator,
    project: Projection,
    max_iterations: int,
    find: Nearest,
) -> list[tuple[NDArray[np.float32], NDArray[np.intp]]]:
    """Divide a cluster into at most `ways`; return their centroids and rows."""
    if len(members) < ways:
        return []
    own = rows[members]
    found = k_means(
        _some(own, _MOST_ROWS_OF_CLUSTER * ways, generator),
        ways,
        generator,
        projection=project,
        max_iterations=max_iterations,
        find=find,
    )
    numbers, _ = find(own, found.centroids)
    groups = [members[numbers == part] for part in range(ways)]
    return [
        (centroid, group)
        for centroid, group in zip(found.centroids, groups, strict=True)
        if len(group)
    ]
