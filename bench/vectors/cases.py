"""What is asked: vectors, the indices on them, and searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["INDICES", "SEARCHES", "Build", "Search", "Vectors", "make_vectors"]

Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of a table, queries, and the rows that are nearest to them by l2.

    Attributes:
        rows: Shape (n, dimension).
        queries: Shape (number of queries, dimension), not among the rows.
        nearest: Shape (number of queries, 10); row numbers, nearest first.
    """

    rows: Matrix
    queries: Matrix
    nearest: NDArray[np.int64]

    def table(self) -> pa.Table:
        """Columns `id`, `group` (of 100 values) and `vector`."""
        count, dimension = self.rows.shape
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(self.rows.ravel()), dimension)
        ids = np.arange(count)
        return pa.table(
            {"id": pa.array(ids), "group": pa.array(ids * 7919 % 100), "vector": vectors}
        )


def make_vectors(kind: str, num_rows: int, dimension: int, num_queries: int = 200) -> Vectors:
    """Vectors of a kind.

    Args:
        kind: "clustered": around 1,000 centres of different sizes; or "uniform".
        num_rows: Number of rows.
        dimension: Of the vectors.
        num_queries: Number of queries, which are made like the rows.
    """
    random = np.random.default_rng(11)
    count = num_rows + num_queries
    if kind == "uniform":
        vectors = random.random((count, dimension), np.float32)
    else:
        centres = random.normal(size=(1000, dimension)).astype(np.float32)
        shares = random.pareto(1.5, 1000) + 0.1
        own = random.choice(1000, count, p=shares / shares.sum())
        noise = random.normal(size=(count, dimension)).astype(np.float32)
        vectors = centres[own] + np.float32(0.6) * noise
    rows, queries = vectors[:num_rows], vectors[num_rows:]
    return Vectors(rows, queries, _nearest(rows, queries))


def _nearest(rows: Matrix, queries: Matrix) -> NDArray[np.int64]:
    norms = np.einsum("ij,ij->i", rows, rows)
    found = []
    for start in range(0, len(queries), 50):
        scores = norms - 2 * queries[start : start + 50] @ rows.T
        best = np.argpartition(scores, 10, axis=1)[:, :10]
        order = np.argsort(np.take_along_axis(scores, best, axis=1), axis=1)
        found.append(np.take_along_axis(best, order, axis=1))
    return np.concatenate(found)


@dataclass(frozen=True, slots=True)
class Build:
    """An index.

    Attributes:
        kind: Its type.
        options: Keyword arguments of `create_index`, given the dimension.
        settings: Keys of `nearest` that searches of the report use.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def keywords(self, num_rows: int, dimension: int) -> dict[str, Any]:
        """The arguments of `create_index`."""
        found: dict[str, Any] = {"num_partitions": max(num_rows // 1600, 1), **self.options}
        if "HNSW" in self.kind:
            found["num_partitions"] = 1
        if "PQ" in self.kind:
            found["num_sub_vectors"] = dimension // 4
        return found


INDICES = (
    Build("IVF_FLAT", settings={"nprobes": 8}),
    Build("IVF_PQ", settings={"nprobes": 8}),
    Build("IVF_SQ", settings={"nprobes": 8}),
    Build("IVF_RQ", settings={"nprobes": 8}),
    Build("IVF_HNSW_FLAT", settings={"nprobes": 1, "ef": 64}),
    Build("IVF_HNSW_SQ", settings={"nprobes": 1, "ef": 64}),
)


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one query, beyond the settings of the index.

    Attributes:
        name: As in the report.
        columns: Columns of the result.
        nearest: Further keys of `nearest`.
        more: Further arguments of `to_table`.
        is_cold: Whether each answer opens the dataset again, without caches.
        batch: Number of queries of one answer; the time is that of one query.
        selects: Share of the rows that a filter leaves; the recall is not measured below 1.
        kinds: Types of indices that are asked; empty for all.
    """

    name: str
    columns: tuple[str, ...] = ("_rowid", "_distance")
    nearest: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    is_cold: bool = False
    batch: int = 1
    selects: float = 1.0
    kinds: tuple[str, ...] = ()


SEARCHES = (
    Search("ids and distances"),
    Search("a column, refined 5 x", ("id", "_distance"), {"refine_factor": 5}, kinds=("IVF_PQ",)),
    Search("batch of 100", batch=100, kinds=("IVF_FLAT", "IVF_PQ")),
    Search("first query, cold", is_cold=True, kinds=("IVF_PQ", "IVF_HNSW_SQ")),
    Search(
        "filter, 1 %",
        more={"filter": "group = 7", "prefilter": True},
        selects=0.01,
        kinds=("IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"),
    ),
    Search(
        "filter, 50 %",
        more={"filter": "group < 50", "prefilter": True},
        selects=0.5,
        kinds=("IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ"),
    ),
    Search("exact", nearest={"use_index": False}, kinds=("IVF_FLAT",)),
)
