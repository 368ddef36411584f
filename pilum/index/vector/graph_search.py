"""Searches of partitions by their graphs (HNSW).

    numbers ──▶ codes of the partitions ──┐
            └─▶ graphs, read concurrently  ──┴──▶ one call of a kernel ──▶ the nearest rows

Codes and graphs that were read are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.errors import InvalidInputError
from pilum.format.rows import RowRanges
from pilum.index.vector.graph import read_graph, vectors_of
from pilum.index.vector.messages import GraphParameters
from pilum.index.vector.metrics import Metric
from pilum.index.vector.product import ProductQuantizer
from pilum.index.vector.quantizer import (
    Answer,
    BegunGraphs,
    Graphs,
    Probe,
    Quantizer,
    Search,
)
from pilum.index.vector.segment_files import IndexHeader, PartitionReader
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.kernels import HnswGraph, HnswVectors, nearest_hnsw
from pilum.parallel import submit_ahead

__all__ = ["StoredGraphs"]

_MAX_KEPT_BYTES = 4 << 30
"""So many bytes of graphs are kept; if there are more, all are dropped and read again."""

_MOST = 1 << 16
"""Parameters of graphs are at most this."""

_AT_ONCE = 64
"""So many partitions are loaded together."""


class StoredGraphs(Graphs):
    """The graphs of a segment, which are kept once they were read.

    Args:
        header: The metadata of index.idx, with the rows of graphs.
        quantizer: The quantizer.
        partitions: The codes of the partitions.
    """

    def __init__(
        self, header: IndexHeader, quantizer: Quantizer, partitions: PartitionReader
    ) -> None:
        assert header.graphs is not None
        self._header = header
        self._rows = header.graphs
        self._quantizer = quantizer
        self._partitions = partitions
        self._has_residuals = isinstance(quantizer, ProductQuantizer) and quantizer.has_residuals
        self._is_binary = quantizer.metric is Metric.HAMMING
        self._kept: dict[int, tuple[HnswGraph, HnswVectors]] = {}
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """See `Graphs.size_bytes`."""
        return self._size_bytes

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """See `PartitionSearch.nearest`."""
        ef = search.k + search.k // 2 if search.ef is None else search.ef
        if ef < search.k:
            raise InvalidInputError(
                f"ef must be greater than or equal to k * refine_factor, {search.k}; it is {ef}"
            )
        parts = []
        for (graph, vectors), one in zip(self._graphs(probes, search.begun), probes, strict=True):
            centroid = one.centroid if self._has_residuals else None
            parts.append((graph, vectors, one.rows, one.allowed, one.queries, centroid))
        queries = search.queries
        if not self._is_binary:
            queries = np.ascontiguousarray(queries, np.float32)
        return nearest_hnsw(
            parts, queries, search.k, ef, lower=search.lower, upper=search.upper, earlier=earlier
        )

    def prewarm(self) -> None:
        """See `Graphs.prewarm`."""
        numbers = np.flatnonzero(self._partitions.lengths).tolist()
        for start in range(0, len(numbers), _AT_ONCE):
            self.load(self._partitions.probes(numbers[start : start + _AT_ONCE]))

    def begin(self, numbers: Sequence[int]) -> BegunGraphs | None:
        """See `Graphs.begin`."""
        missing = sorted(number for number in numbers if number not in self._kept)
        return (missing, submit_ahead(partial(self._columns, missing))) if missing else None

    def load(self, probes: Sequence[Probe]) -> None:
        """See `Graphs.load`."""
        self._graphs(probes)

    def statistics(self) -> dict[str, Any]:
        """See `Graphs.statistics`."""
        texts = self._header.graph_metadata
        if not texts or not texts[0]:
            return {}
        return dict(StoredParameters(texts[0], self._header.file.path).fields)

    def parameters(self) -> GraphParameters:
        """See `Graphs.parameters`."""
        text = next(filter(None, self._header.graph_metadata), None)
        if text is None:
            return GraphParameters()
        own = StoredParameters(text, self._header.file.path).parameters("params")
        return GraphParameters(
            own.integer("m", 1, _MOST),
            own.integer("ef_construction", 1, _MOST),
            own.integer("max_level", 1, _MOST),
        )

    def _graphs(
        self, probes: Sequence[Probe], begun: BegunGraphs | None = None
    ) -> list[tuple[HnswGraph, HnswVectors]]:
        kept = self._kept
        try:
            return [kept[one.number] for one in probes]
        except KeyError:
            missing = {one.number: one for one in probes if one.number not in kept}
            read = self._read(missing, begun)
        return [read.get(one.number) or kept[one.number] for one in probes]

    def _columns(self, numbers: list[int]) -> list[pa.Array]:
        """Return the columns of graphs, one after another."""
        offsets, lengths = self._rows.offsets[numbers], self._rows.lengths[numbers]
        bounds = np.stack([offsets, offsets + lengths], axis=1)[lengths > 0]
        ranges = RowRanges(np.ascontiguousarray(bounds))
        return self._header.file.arrays(["__vector_id", "__neighbors"], ranges)

    def _read(
        self, probes: dict[int, Probe], begun: BegunGraphs | None
    ) -> dict[int, tuple[HnswGraph, HnswVectors]]:
        numbers, file = sorted(probes), self._header.file
        is_begun = begun is not None and begun[0] == numbers
        ids, linked = begun[1].result() if begun and is_begun else self._columns(numbers)
        found, at, added = {}, 0, 0
        for number, length in zip(numbers, self._rows.lengths[numbers].tolist(), strict=True):
            probe = probes[number]
            columns = self._quantizer.plain(probe.columns)
            vectors = vectors_of(self._quantizer, columns)
            graph = read_graph(
                ids.slice(at, length),
                linked.slice(at, length),
                self._header.graph_metadata[number],
                len(probe.rows),
                file.path,
            )
            found[number] = graph, vectors
            added += graph.size_bytes + sum(array.nbytes for array in columns.values())
            at += length
        if self._size_bytes + added > _MAX_KEPT_BYTES:
            self._kept, self._size_bytes = {}, 0
        if added <= _MAX_KEPT_BYTES:
            self._kept.update(found)
            self._size_bytes += added
        return found
