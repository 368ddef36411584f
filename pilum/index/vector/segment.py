"""An open segment of a vector index.

    query ──▶ distances of the centroids ──▶ the first partitions ──▶ one call of a kernel
          ──▶ fewer than k rows: further partitions, until there are k

Source: docs/format/vector-indices.md, "Probing".
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.answers import Answer as RowAnswer
from pilum.index.answers import RowSet
from pilum.index.base import Index
from pilum.index.queries import Query
from pilum.index.vector.ivf import IvfModel
from pilum.index.vector.probing import fixed_probes, num_probes
from pilum.index.vector.quantizer import (
    Answer,
    Candidates,
    Columns,
    Graphs,
    NearestQuery,
    PartitionSearch,
    Probe,
    Quantizer,
    Search,
)
from pilum.index.vector.row_masks import RowMask
from pilum.index.vector.segment_files import PartitionReader
from pilum.parallel import num_threads, submit

__all__ = ["VectorIndex"]

_MAX_DISTANCES = 1 << 22
"""So many distances to centroids are computed together; larger batches are cut."""

_QUERIES_OF_TASK = 16
"""So many queries, at least, are worth a task."""

_LEAST_SHARED_BYTES = 32 << 20
"""Fewer bytes of codes are compared faster by one thread: starting others takes up to 0.1 ms."""

_PARTITIONS_AT_ONCE = 64
"""So many further partitions are read together."""


class VectorIndex(Index):
    """An open segment of a vector index.

    Args:
        name: Name of the index type, such as "IVF_PQ".
        model: The centroids.
        quantizer: The way in which vectors are stored.
        partitions: The partitions.
        graphs: The search through graphs; None without graphs.
        about: Figures of `index_stats` about the files, by the reference's names.

    Attributes:
        name: See above.
        model: See above.
        quantizer: See above.
        partitions: See above.
        graphs: See above.
        details: What the manifest says about the index; empty in old tables.
    """

    details: bytes = b""

    def __init__(
        self,
        name: str,
        model: IvfModel,
        quantizer: Quantizer,
        partitions: PartitionReader,
        graphs: Graphs | None,
        about: dict[str, Any],
    ) -> None:
        self.name = name
        self.model = model
        self.quantizer = quantizer
        self.partitions = partitions
        self.graphs = graphs
        self._about = about
        self._fixed_bytes = model.size_bytes + quantizer.size_bytes
        self._searcher: PartitionSearch = quantizer if graphs is None else graphs
        self._is_only = model.num_partitions == 1
        self._has_empty = bool((partitions.lengths == 0).any())
        self._most_rows = int(partitions.lengths.max(initial=0))
        self._mask: RowMask | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        graphs = 0 if self.graphs is None else self.graphs.size_bytes
        mask = 0 if self._mask is None else self._mask.size_bytes
        return self._fixed_bytes + self.partitions.size_bytes + graphs + mask

    @property
    def num_rows(self) -> int:
        """The number of rows of the index."""
        return int(self.partitions.lengths.sum())

    def search(self, query: Query) -> RowAnswer | None:
        """Return None: conditions on vectors are tested by reading them."""
        del query
        return None

    def estimate(self, query: Query) -> int | None:
        """Return None: conditions on vectors are tested by reading them."""
        del query
        return None

    def references(self) -> Addresses:
        """Return the references of all rows, in the order of partitions.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        return self.partitions.references()

    def read(self, number: int) -> tuple[Addresses, Columns]:
        """Return the row references and the plain codes of a partition.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        [probe] = self.partitions.probes([number])
        return probe.rows, self.quantizer.plain(probe.columns)

    def prewarm(self) -> None:
        """Load everything into memory."""
        numbers = range(self.model.num_partitions)
        for start in range(0, len(numbers), _PARTITIONS_AT_ONCE):
            self.partitions.probes(numbers[start : start + _PARTITIONS_AT_ONCE])
        self.partitions.references()
        if self.graphs is not None:
            self.graphs.prewarm()

    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` for this segment, by the reference's names."""
        model = self.model
        sub_index = self.quantizer.statistics()
        if self.graphs is not None:
            sub_index = {**self.graphs.statistics(), **sub_index, "index_type": "HNSW"}
        found = {
            "index_type": self.name,
            **self._about,
            "metric_type": model.metric.value,
            "num_partitions": model.num_partitions,
            "sub_index": sub_index,
            "partitions": [{"size": size} for size in self.partitions.lengths.tolist()],
            "loss": model.loss,
        }
        if os.environ.get("LANCE_INCLUDE_VECTOR_CENTROIDS", "true").lower() != "false":
            found["centroids"] = model.centroids.tolist()
        return found

    def nearest(self, query: NearestQuery, allowed: RowSet | None = None) -> Candidates:
        """Return the rows nearest to a query.

        Args:
            query: The query.
            allowed: The rows that may be found, as the segment refers to them; None for all.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        [found] = self.nearest_batch(query.vector[None], query, allowed)
        return found

    def nearest_batch(
        self, vectors: NDArray[Any], query: NearestQuery, allowed: RowSet | None = None
    ) -> list[Candidates]:
        """Return the rows nearest to each of several queries; partitions are searched one by one.

        Args:
            vectors: The vectors of the queries, shape (b, D).
            query: Everything else about them; its vector is not used.
            allowed: See `nearest`.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        num_partitions = self.model.num_partitions
        if not num_partitions:
            return [_candidates(_NOTHING, 0, 0)] * len(vectors)
        step = max(_MAX_DISTANCES // num_partitions, 1)
        if len(vectors) == 1:
            return [self._nearest_to_one(vectors, query, allowed)]
        if len(vectors) <= step:
            return self._nearest(vectors, query, allowed)
        return [
            one
            for start in range(0, len(vectors), step)
            for one in self._nearest(vectors[start : start + step], query, allowed)
        ]

    def _nearest_to_one(
        self, vectors: NDArray[Any], query: NearestQuery, allowed: RowSet | None
    ) -> Candidates:
        """Return the rows nearest to one query, in an array of shape (1, D)."""
        queries = self.model.queries(vectors)
        if self._is_only and _are_finite(queries):
            distances = _NO_DISTANCES
        else:
            distances = self.model.distances(queries)
        count = 0 if np.isnan(distances[0, 0]) else self._count(distances, query)
        search = _search_of(queries, query)
        mask = None if allowed is None else self._mask_of(allowed)
        order = self._filled(_first(distances[0], count))
        if self.graphs is not None and mask is None:
            search.begun = self.graphs.begin(order)
        probes = self._limited(self.partitions.probes(order), mask)
        search.num_threads = self._num_threads(probes, query.parallelism)
        answer = self._searcher.nearest(probes, search) if probes else _NOTHING
        if len(answer[1]) < query.k and not query.is_fixed:
            return self._continued(distances[0], count, search, answer, query, mask)
        return Candidates(answer[1], answer[2], count)

    def _num_threads(self, probes: Sequence[Probe], asked: int) -> int:
        """Return how many threads share the partitions; see `NearestQuery.parallelism`."""
        if asked == 1 or len(probes) < 2:
            return 1
        if asked == 0:
            first = probes[0]
            row_bytes = _compared_bytes(first) / len(first.rows)
            is_little = row_bytes * self._most_rows * len(probes) < _LEAST_SHARED_BYTES
            if is_little or first.allowed is not None:
                return 1
            if row_bytes * sum(len(one.rows) for one in probes) < _LEAST_SHARED_BYTES:
                return 1
        return min(num_threads(), asked if asked > 0 else len(probes))

    def _count(self, distances: NDArray[np.float32], query: NearestQuery) -> int:
        """Return how many partitions a single query searches at first."""
        least, most = query.minimum_nprobes, query.maximum_nprobes
        fixed = fixed_probes(distances.shape[1], least, most, query.search_effort)
        return int(self._counts(distances, query)[0]) if fixed is None else fixed

    def _counts(self, distances: NDArray[np.float32], query: NearestQuery) -> NDArray[np.int64]:
        """Return how many partitions each query searches at first."""
        return num_probes(
            distances,
            self.model.metric,
            query.k_asked,
            query.minimum_nprobes,
            query.maximum_nprobes,
            query.search_effort,
        )

    def _nearest(
        self, vectors: NDArray[Any], query: NearestQuery, allowed: RowSet | None
    ) -> list[Candidates]:
        queries = self.model.queries(vectors)
        distances = self.model.distances(queries)
        counts = self._counts(distances, query)
        counts[np.isnan(distances[:, 0])] = 0  # no vector is near to a query with a NaN
        search = _search_of(queries, query)
        mask = None if allowed is None else self._mask_of(allowed)
        answer = self._search_batch(distances, counts, mask, search)
        bounds = answer[0].tolist()
        found = []
        for number, count in enumerate(counts.tolist()):
            if bounds[number + 1] - bounds[number] < query.k and not query.is_fixed:
                own = _answer_of(answer, number)
                one = replace(search, queries=queries[number : number + 1])
                found.append(self._continued(distances[number], count, one, own, query, mask))
            else:
                found.append(_candidates(answer, number, count))
        return found

    def _search_batch(
        self,
        distances: NDArray[np.float32],
        counts: NDArray[np.int64],
        mask: RowMask | None,
        search: Search,
    ) -> Answer:
        """Search for several queries, by the pool for computing if they are many."""
        (num_queries, num_partitions), most = distances.shape, int(counts.max())
        if not most:
            return _none(num_queries)
        queries, places = self._places(distances, counts, most)
        numbers = self._filled(np.unique(places % num_partitions))
        probes = self._limited(self.partitions.probes(numbers), mask)
        if not probes:
            return _none(num_queries)
        num_tasks = min(max(num_queries // _QUERIES_OF_TASK, 1), num_threads())
        if num_tasks > 1 and self.graphs is not None:
            self.graphs.load(probes)  # once, not by each task
        bounds = np.linspace(0, num_queries, num_tasks + 1).astype(int).tolist()
        cuts = queries.searchsorted(bounds).tolist()
        known = {one.number: one for one in probes}
        parts = []
        for (first, stop), (start, end) in zip(pairwise(bounds), pairwise(cuts), strict=True):
            own = slice(start, end)
            asked = _by_place(known, queries[own] - first, places[own], num_partitions)
            parts.append((asked, replace(search, queries=search.queries[first:stop])))
        nearest = self._searcher.nearest
        tasks = [submit(partial(nearest, *part)) for part in parts[1:]]
        return _joined([nearest(*parts[0]), *(task.result() for task in tasks)])

    def _filled(self, order: NDArray[np.int64]) -> list[int]:
        if self._has_empty:
            order = order[self.partitions.lengths[order] > 0]
        numbers: list[int] = order.tolist()
        return numbers

    def _mask_of(self, allowed: RowSet) -> RowMask:
        """Return the mask of a set; that of the last set is kept, as queries often share one."""
        kept = self._mask
        if kept is None or kept.allowed is not allowed:
            kept = self._mask = RowMask(allowed)
        return kept

    def _limited(self, probes: list[Probe], mask: RowMask | None) -> list[Probe]:
        """Return partitions with the rows that may be found; those without any are left out."""
        if mask is None:
            return probes
        masks = mask.of_partitions([one.number for one in probes], [one.rows for one in probes])
        return [
            Probe(one.number, one.rows, one.columns, one.centroid, allowed, memo=one.memo)
            for one, allowed in zip(probes, masks, strict=True)
            if allowed is not None
        ]

    def _places(
        self, distances: NDArray[np.float32], counts: NDArray[np.int64], most: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return pairs of a query and the place of a partition that it searches, by query.

        Every query begins with its nearest partition, after which most other rows are too far. So
        a partition has two places: its number, for the queries to which it is nearest, and for the
        others that plus the number of partitions; but only one if it is faster to compare all of
        them together.
        """
        num_partitions = distances.shape[1]
        if most < num_partitions:
            order = np.argpartition(distances, most, axis=1)[:, :most]
            ranks = np.argsort(np.take_along_axis(distances, order, axis=1), axis=1, kind="stable")
            order = np.take_along_axis(order, ranks, axis=1)
        else:
            order = np.argsort(distances, axis=1, kind="stable")
        queries, ranks = np.nonzero(np.arange(most) < counts[:, None])
        places = order[queries, ranks]
        if not self.quantizer.is_faster_together:
            places += num_partitions * (ranks > 0)
        return queries, places

    def _continued(
        self,
        distances: NDArray[np.float32],
        count: int,
        search: Search,
        answer: Answer,
        query: NearestQuery,
        mask: RowMask | None,
    ) -> Candidates:
        """Search further partitions in the order of their distances until `k` rows are found."""
        found = len(answer[1])
        order = np.argsort(distances, kind="stable")[: query.maximum_nprobes]
        sizes = self._num_allowed(mask)
        rest = order[count:]
        rest = rest[sizes[rest] > 0]
        if np.isnan(distances[order[0]]) or not len(rest):
            return _candidates(answer, 0, count)
        has_range = query.lower is not None or query.upper is not None
        if self.graphs is None and not has_range:  # so that it is known how many each will give
            needed = int(np.cumsum(sizes[rest]).searchsorted(query.k - found)) + 1
            steps = [rest[:needed].tolist()]
        else:
            steps = [[number] for number in rest.tolist()]
        for place, step in enumerate(steps):
            if len(steps) > 1 and place % _PARTITIONS_AT_ONCE == 0:
                self.partitions.probes(rest[place : place + _PARTITIONS_AT_ONCE].tolist())
            probes = self._limited(self.partitions.probes(step), mask)
            answer = self._searcher.nearest(probes, search, answer)
            count += len(step)
            if len(answer[1]) >= query.k:
                break
        return _candidates(answer, 0, count)

    def _num_allowed(self, mask: RowMask | None) -> NDArray[np.int64]:
        """Return the number of rows of each partition that may be found."""
        lengths = self.partitions.lengths
        if mask is None:
            return lengths
        sums = np.concatenate(([0], np.cumsum(mask.of(self.partitions.references()))))
        ends = np.cumsum(lengths)
        return np.asarray(sums[ends] - sums[ends - lengths])


def _compared_bytes(probe: Probe) -> int:
    """Return the bytes that a query compares; with a sieve, few others are read."""
    sieve = probe.memo.sieve
    return sum(one.nbytes for one in probe.columns.values()) if sieve is None else sieve.size_bytes


def _are_finite(queries: NDArray[Any]) -> bool:
    """Return whether no number is infinite or NaN; most often, one product is enough to know."""
    return isfinite(np.vdot(queries, queries)) or bool(np.isfinite(queries).all())


def _search_of(queries: NDArray[Any], query: NearestQuery) -> Search:
    return Search(queries, query.k, query.lower, query.upper, query.ef, query.approx_mode)


_NO_DISTANCES = np.zeros((1, 1), np.float32)
"""Of a single centroid, which needs no rank."""

_NOTHING: Answer = (np.zeros(2, np.int64), np.empty(0, np.uint64), np.empty(0, np.float32))


def _none(num_queries: int) -> Answer:
    return np.zeros(num_queries + 1, np.int64), _NOTHING[1], _NOTHING[2]


def _by_place(
    probes: Mapping[int, Probe],
    queries: NDArray[np.int64],
    places: NDArray[np.int64],
    num_partitions: int,
) -> list[Probe]:
    """Return the partitions at places, each with the numbers of its queries, in their order.

    Args:
        probes: The partitions by their numbers; others are left out.
        queries: A number of a query for each place, ascending.
        places: From `VectorIndex._places`.
        num_partitions: Number of partitions of the index.
    """
    order = np.argsort(places, kind="stable")
    ordered, asked = places[order], queries[order].astype(np.uint32)
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    numbers = (ordered[starts] % num_partitions).tolist()
    stops = [*starts[1:].tolist(), len(asked)]
    return [
        Probe(number, one.rows, one.columns, one.centroid, one.allowed, asked[start:stop], one.memo)
        for number, start, stop in zip(numbers, starts.tolist(), stops, strict=False)
        if (one := probes.get(number)) is not None
    ]


def _joined(answers: Sequence[Answer]) -> Answer:
    """Return the answers of consecutive queries as one."""
    if len(answers) == 1:
        return answers[0]
    lengths = [np.diff(bounds) for bounds, _, _ in answers]
    bounds = np.concatenate(([0], np.cumsum(np.concatenate(lengths))))
    rows = np.concatenate([rows for _, rows, _ in answers])
    return bounds, rows, np.concatenate([distances for _, _, distances in answers])


def _answer_of(answer: Answer, number: int) -> Answer:
    """Return the answer of one query."""
    own = slice(int(answer[0][number]), int(answer[0][number + 1]))
    rows, distances = answer[1][own], answer[2][own]
    return np.array([0, len(rows)]), rows, distances


def _candidates(answer: Answer, number: int, num_probed: int) -> Candidates:
    _, rows, distances = _answer_of(answer, number)
    return Candidates(rows, distances, num_probed)


def _first(distances: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the numbers of the nearest partitions, in the order of their distances."""
    if 8 * count < len(distances):
        nearest = distances.argpartition(count)[:count]
        return nearest[distances[nearest].argsort(kind="stable")]
    return distances.argsort(kind="stable")[:count]
