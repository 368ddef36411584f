"""The interface of a quantizer: how an index stores vectors, and how it compares them to a query.

    plain rows     one code per vector, in row order
    stored rows    the codes of one partition as auxiliary.idx has them: transposed or packed

Source: docs/format/vector-indices.md, "Quantizers".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.format.rows import Addresses
from pilum.index.files import IndexFile
from pilum.index.vector.messages import GraphParameters
from pilum.index.vector.metrics import Metric
from pilum.index.vector.stored_parameters import StoredParameters
from pilum.kernels import VectorSieve

__all__ = [
    "Answer",
    "BegunGraphs",
    "Candidates",
    "Columns",
    "Graphs",
    "Memo",
    "Memory",
    "NearestQuery",
    "PartitionSearch",
    "Probe",
    "Quantizer",
    "Search",
]

Columns: TypeAlias = Mapping[str, NDArray[Any]]
"""Columns of auxiliary.idx besides the row references, by name: shape (n, width) or (n,)."""

Answer: TypeAlias = tuple[NDArray[np.int64], Addresses, NDArray[np.float32]]
"""The rows of several queries: where those of each end (one more than queries), the references,
and their distances; those of a query are in ascending order of distance, then of reference."""


BegunGraphs: TypeAlias = "tuple[list[int], Future[pa.Table]]"
"""The numbers of partitions, ascending, and the rows of their graphs."""


@dataclass(slots=True)
class Memory:
    """Memory that memos use together.

    Attributes:
        size_bytes: Its bytes.
    """

    size_bytes: int = 0


@dataclass(slots=True)
class Memo:
    """Memo of a partition, which a quantizer keeps from one search to the next.

    Attributes:
        memory: Where its memory is counted.
        num_queries: Number of queries that searched it; those of batches count less.
        has_sieve: Whether a thread has made a sieve, or is making it.
        sieve: Codes that show which of its rows are too far from a query; None for none.
    """

    memory: Memory = field(default_factory=Memory)
    num_queries: float = 0
    has_sieve: bool = False
    sieve: VectorSieve | None = None

    def keep(self, sieve: VectorSieve) -> None:
        """Keep a sieve."""
        self.sieve = sieve
        self.memory.size_bytes += sieve.size_bytes


@dataclass(slots=True)
class Probe:
    """A partition to search.

    Attributes:
        number: Its number.
        rows: The row reference of each row, uint64.
        columns: Its codes, as stored.
        centroid: Its centroid, float32 of shape (D,); uint8 for hamming.
        allowed: Which rows may be found; None for all of them.
        queries: The numbers of the queries that search it, uint32; None for all of them.
        memo: What the quantizer keeps about it; the same for all probes of the partition.
    """

    number: int
    rows: Addresses
    columns: Columns
    centroid: NDArray[Any]
    allowed: NDArray[np.bool_] | None = None
    queries: NDArray[np.uint32] | None = None
    memo: Memo = field(default_factory=Memo)


@dataclass(slots=True)
class Search:
    """The part of a search that is the same in all partitions.

    Attributes:
        queries: float32 of shape (b, D), of length 1 for cosine; uint8 for hamming.
        k: Maximum number of rows for each query.
        lower: The minimum distance, inclusive; None for no limit.
        upper: The maximum distance, exclusive; None for no limit.
        ef: Candidates that the search in a graph keeps; None for the default.
        approx_mode: How rotated codes (RQ) are compared: "fast", "normal" or "accurate".
        begun: Rows of graphs whose read has begun; None for none.
        num_threads: Number of threads that share the partitions, where it changes no result: one
            thread walks graphs and compares rotated codes.
    """

    queries: NDArray[Any]
    k: int
    lower: float | None = None
    upper: float | None = None
    ef: int | None = None
    approx_mode: str = "normal"
    begun: BegunGraphs | None = None
    num_threads: int = 1


@dataclass(frozen=True, slots=True)
class NearestQuery:
    """A checked query.

    Attributes:
        vector: float32 of shape (D,), not yet of length 1 for cosine; uint8 for hamming.
        k: Number of candidates that are requested: `k_asked` times the refine factor.
        k_asked: Number of rows that the caller requested.
        metric: The metric of the index.
        minimum_nprobes: Number of partitions that are searched at least.
        maximum_nprobes: Number that are searched at most; None for no limit.
        is_fixed: Whether the caller gave the number of partitions; if so, no further ones are
            searched when there are fewer than `k` candidates.
        search_effort: Between 0 and 1, instead of a number of partitions; None if not given.
        ef: Candidates that the search in a graph keeps; None for the default.
        lower: The minimum distance, inclusive; None for no limit.
        upper: The maximum distance, exclusive; None for no limit.
        approx_mode: How rotated codes (RQ) are compared: "fast", "normal" or "accurate".
        parallelism: Number of threads that share the partitions of a single query, at most; -1 for
            one per processor, 0 for so many if there is much to compare.
    """

    vector: NDArray[Any]
    k: int
    k_asked: int
    metric: Metric
    minimum_nprobes: int = 1
    maximum_nprobes: int | None = None
    is_fixed: bool = False
    search_effort: float | None = None
    ef: int | None = None
    lower: float | None = None
    upper: float | None = None
    approx_mode: str = "normal"
    parallelism: int = 0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Rows that were found, ascending by distance, then by reference.

    Attributes:
        references: Their row references, uint64.
        distances: Their distances, float32.
        num_probed: Number of partitions that were searched.
    """

    references: Addresses
    distances: NDArray[np.float32]
    num_probed: int = 0


class PartitionSearch(Protocol):
    """A search of partitions: by all codes of a quantizer, or through the graphs of an index."""

    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """Return the `search.k` nearest rows of all probes, for each query.

        Args:
            probes: The partitions to search.
            search: The queries and their limits.
            earlier: Rows that take part in the selection, from partitions searched before.

        Raises:
            CorruptFileError: If the codes are damaged.
        """


class Graphs(PartitionSearch, Protocol):
    """The graphs of the partitions of an index (HNSW), which are read when they are needed."""

    @property
    def size_bytes(self) -> int:
        """The memory in use."""

    def prewarm(self) -> None:
        """Load everything into memory."""

    def begin(self, numbers: Sequence[int]) -> BegunGraphs | None:
        """Begin to read the graphs of partitions that are not empty, for `Search.begun`.

        They are read while the codes of these partitions are. None if no graph is missing.
        """

    def load(self, probes: Sequence[Probe]) -> None:
        """Load the graphs of partitions into memory.

        Raises:
            CorruptFileError: If a file is damaged.
        """

    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` about the first graph, by the reference's names."""

    def parameters(self) -> GraphParameters:
        """Return how the first graph was built; the defaults if there is none.

        Raises:
            CorruptFileError: If the file says something impossible.
        """


class Quantizer(ABC):
    """A way to store vectors. Its parameters, such as a codebook, are fixed at training.

    Attributes:
        name: `FLAT`, `PQ`, `SQ` or `RQ`.
        is_faster_together: Whether it is faster to compare all queries with a partition at once
            than to begin each query with its nearest partition.
        metric: The metric of the index.
        dimension: Number of elements of a vector.
    """

    name: ClassVar[str]
    is_faster_together: bool = False
    metric: Metric
    dimension: int

    @classmethod
    @abstractmethod
    def read(
        cls, parameters: StoredParameters, file: IndexFile, metric: Metric, dimension: int
    ) -> Self:
        """Return the quantizer of a segment.

        Args:
            parameters: The JSON object of `storage_metadata`.
            file: auxiliary.idx.
            metric: The metric of the index.
            dimension: Number of elements of a vector.

        Raises:
            CorruptFileError: If a parameter is missing or impossible.
        """

    @property
    @abstractmethod
    def fields(self) -> tuple[pa.Field, ...]:
        """The columns of auxiliary.idx after the row references."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""

    @abstractmethod
    def encode(
        self, vectors: NDArray[Any], partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """Return the codes of vectors as plain rows.

        Args:
            vectors: Shape (n, D); for cosine, of length 1.
            partitions: The partition of each, shape (n,).
            centroids: Shape (P, D).
        """

    def arranged(self, columns: Columns) -> Columns:
        """Return the plain rows of one partition as they are stored."""
        return columns

    def plain(self, columns: Columns) -> Columns:
        """Return the stored rows of one partition as plain rows: the inverse of `arranged`."""
        return columns

    @abstractmethod
    def metadata(self, add_buffer: Callable[[bytes], int]) -> str:
        """Return the JSON object of `storage_metadata`.

        Args:
            add_buffer: Adds a global buffer to auxiliary.idx and returns its number.
        """

    @abstractmethod
    def nearest(
        self, probes: Sequence[Probe], search: Search, earlier: Answer | None = None
    ) -> Answer:
        """See `PartitionSearch`; one call of a kernel for all partitions and queries."""

    @abstractmethod
    def decoded(
        self, columns: Columns, partitions: NDArray[np.uint32], centroids: NDArray[Any]
    ) -> NDArray[np.float32]:
        """Return approximate vectors of plain rows, shape (n, D).

        Args:
            columns: Plain rows.
            partitions: The partition of each, shape (n,).
            centroids: Shape (P, D).
        """

    def flaw(self, columns: Columns) -> str | None:
        """Return what cannot be right about stored rows of partitions; None if nothing is noticed.

        Codes have no checksums: this looks only at what is cheap to see.
        """
        del columns
        return None

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """Return the figures of `index_stats` about it, by the reference's names."""
