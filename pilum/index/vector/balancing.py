"""Partitions of an index that outgrew its centroids: large ones are split, small ones dissolved.

    expected rows       90   2  410      target 100; found by a sample of the rows
    centroids            A   B    C
    new centroids        A       C1 C2 C3 C4

An index is balanced when new rows are added and a partition has more than four times the rows that
it should have. Rows with equal vectors do not count, as no centroids divide them. Partitions of
other indices are kept, however small they are: a small one costs a search next to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.index.base import IndexRows
from pilum.index.vector.building import sample_for
from pilum.index.vector.parameters import VectorParameters
from pilum.index.vector.segment import VectorIndex
from pilum.index.vector.training import train_centroids
from pilum.index.vector.vectors import Matrix

__all__ = ["balanced_centroids", "has_outgrown"]

_TOO_MANY = 4
"""A partition with more times the rows that it should have makes an index be balanced."""

_SPLIT_FROM = 2
_DISSOLVED_BELOW = 0.25
"""When an index is balanced, partitions are split and dissolved from these shares on."""

_SAMPLED_ROWS = 4096
"""So many rows of a partition are looked at to find equal ones."""

_FEWEST_ROWS = 8
"""A part of a partition needs so many rows of the sample."""


def has_outgrown(segments: Sequence[VectorIndex], num_new_rows: int, partition_size: int) -> bool:
    """Return whether a partition will have far more rows than it should have, and can be split.

    Args:
        segments: The segments of an index. New rows are assumed to be distributed as those of the
            segments with the centroids of the last one.
        num_new_rows: Number of rows to add.
        partition_size: Rows that a partition should have.

    Raises:
        CorruptFileError: If a file is damaged.
    """
    centroids = segments[-1].model.centroids
    alike = [one for one in segments if np.array_equal(one.model.centroids, centroids)]
    sizes = sum((one.partitions.lengths for one in alike), np.zeros(len(centroids), np.int64))
    num_rows = int(sizes.sum())
    if not num_rows:
        return False
    num_added = num_new_rows + sum(one.num_rows for one in segments) - num_rows
    expected = sizes * (1 + num_added / num_rows)
    limit = _TOO_MANY * partition_size
    return any(
        expected[number] * (1 - _share_of_equal(alike, number, int(sizes[number]))) > limit
        for number in np.flatnonzero(expected > limit).tolist()
    )


def _share_of_equal(segments: Sequence[VectorIndex], number: int, size: int) -> float:
    """Return the share of the most frequent code among the rows of a partition, by a sample."""
    step = -(-size // _SAMPLED_ROWS)
    column = segments[0].quantizer.fields[0].name
    codes = [one.read(number)[1][column] for one in segments if one.partitions.lengths[number]]
    sample = np.ascontiguousarray(np.concatenate([own[::step] for own in codes]))
    rows = sample.view(np.dtype((np.void, sample.itemsize * sample.shape[1])))
    _, counts = np.unique(rows, return_counts=True)
    return float(counts.max() / len(sample))


def balanced_centroids(index: VectorIndex, rows: IndexRows, parameters: VectorParameters) -> Matrix:
    """Return centroids of partitions that have about as many rows as they should have.

    Args:
        index: A segment with the centroids so far.
        rows: All rows, of which a sample is read.
        parameters: Parameters of the index.
    """
    size, centroids = parameters.partition_size, index.model.centroids
    num_vectors = rows.num_rows
    if parameters.vectors.is_multi:
        references = index.references()
        num_vectors = num_vectors * len(references) // max(len(np.unique(references)), 1)
    wanted = (len(centroids) + num_vectors // size) * parameters.sample_rate
    sample = sample_for(rows, parameters, wanted)
    if not len(sample):
        return centroids
    partitions, _ = index.model.assign(sample)
    counts = np.bincount(partitions, minlength=len(centroids))
    expected = counts * (num_vectors / len(sample))
    found = [
        _split(sample[partitions == number], parts, parameters)
        for number, parts in _parts(expected, counts, size)
    ]
    kept = (expected >= _DISSOLVED_BELOW * size) & (expected <= _SPLIT_FROM * size)
    balanced = np.concatenate([centroids[kept], *found])
    return balanced if len(balanced) else centroids


def _parts(expected: NDArray[Any], counts: NDArray[np.int64], size: int) -> list[tuple[int, int]]:
    """Return the partitions to split, and into how many parts."""
    large = np.flatnonzero(expected > _SPLIT_FROM * size)
    return [
        (number, max(1, min(round(expected[number] / size), int(counts[number]) // _FEWEST_ROWS)))
        for number in large.tolist()
    ]


def _split(sample: Matrix, count: int, parameters: VectorParameters) -> Matrix:
    return train_centroids(sample, count, parameters.metric, parameters.max_iterations)
