"""What is asked: sets of vectors, the indices on them, and searches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["MILLION", "SHAPES", "Build", "Search", "Shape", "Vectors", "make_vectors"]

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
        return pa.table({"id": pa.array(ids), "group": pa.array(self.groups()), "vector": vectors})

    def first(self, num_queries: int) -> Vectors:
        """The same rows with fewer queries."""
        queries, nearest = self.queries[:num_queries], self.nearest[:num_queries]
        return replace(self, queries=queries, nearest=nearest)

    def groups(self) -> NDArray[np.int64]:
        """The column `group` of the table."""
        return np.arange(len(self.rows)) * 7919 % 100

    def of_groups(self, groups: tuple[int, int]) -> Vectors:
        """The same with the nearest rows of those whose group is in a range, without its end."""
        if groups == (0, 100):
            return self
        own = np.flatnonzero((self.groups() >= groups[0]) & (self.groups() < groups[1]))
        return replace(self, nearest=own[_nearest(self.rows[own], self.queries)])


def make_vectors(kind: str, num_rows: int, dimension: int, num_queries: int = 2000) -> Vectors:
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
            found["num_sub_vectors"] = dimension // (4 if dimension <= 256 else 8)
        return found


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one query, beyond the settings of the index.

    Attributes:
        name: As in the report.
        columns: Columns of the result.
        nearest: Further keys of `nearest`.
        groups: The range of groups to which a prefilter restricts the rows.
        is_cold: Whether each answer opens the dataset again, without caches.
        batch: Number of queries of one answer; the time is that of one query.
        is_varied: Whether the text of the filter differs each time, so that its rows are not known.
        kinds: Types of indices that are asked; empty for all.
    """

    name: str
    columns: tuple[str, ...] = ("_rowid", "_distance")
    nearest: Mapping[str, Any] = field(default_factory=dict)
    groups: tuple[int, int] = (0, 100)
    is_cold: bool = False
    batch: int = 1
    is_varied: bool = False
    kinds: tuple[str, ...] = ()

    def more(self, turn: int) -> dict[str, Any]:
        """Further arguments of `to_table`."""
        if self.groups == (0, 100):
            return {}
        first, stop = self.groups
        filter = f"`group` >= {first} AND `group` < {stop}"
        filter += f" AND id >= {-1 - turn}" if self.is_varied else ""
        return {"filter": filter, "prefilter": True}


_FLAT = Build("IVF_FLAT", settings={"nprobes": 8})
_PQ = Build("IVF_PQ", settings={"nprobes": 8})
_SQ = Build("IVF_SQ", settings={"nprobes": 8})
_RQ = Build("IVF_RQ", settings={"nprobes": 8})
_HNSW_FLAT = Build("IVF_HNSW_FLAT", settings={"nprobes": 1, "ef": 64})
_HNSW_SQ = Build("IVF_HNSW_SQ", settings={"nprobes": 1, "ef": 64})

_PLAIN = Search("ids and distances")
_REFINED = Search(
    "a column, refined 5 x", ("id", "_distance"), {"refine_factor": 5}, kinds=("IVF_PQ",)
)
_FILTERED = ("IVF_FLAT", "IVF_PQ", "IVF_HNSW_SQ")
_EXACT = Search("exact", nearest={"use_index": False}, kinds=("IVF_FLAT", "IVF_PQ"))
_SEARCHES = (
    _PLAIN,
    _REFINED,
    Search("batch of 100", batch=100, kinds=("IVF_FLAT", "IVF_PQ")),
    Search("first query, cold", is_cold=True, kinds=("IVF_PQ", "IVF_HNSW_SQ")),
    Search("filter, 1 %", groups=(7, 8), kinds=_FILTERED),
    Search("filter, 10 %", groups=(20, 30), kinds=(*_FILTERED, "IVF_RQ")),
    Search("filter, 50 %", groups=(0, 50), kinds=_FILTERED),
    Search("filter, 1 %, new each time", groups=(7, 8), is_varied=True, kinds=("IVF_PQ",)),
    Search("filter, 50 %, new each time", groups=(0, 50), is_varied=True, kinds=("IVF_PQ",)),
    Search("exact", nearest={"use_index": False}, kinds=("IVF_FLAT",)),
)


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A set of vectors, and what is built on it and asked.

    Attributes:
        data: "clustered" or "uniform".
        num_rows: Number of vectors.
        dimension: Of the vectors.
        builds: The indices.
        searches: The searches; the first one is also asked of libraries in memory.
        has_curves: Whether recall is drawn against latency.
        with_memory: Types of indices whose builds and searches are measured for their memory.
    """

    data: str
    num_rows: int
    dimension: int
    builds: tuple[Build, ...]
    searches: tuple[Search, ...]
    has_curves: bool = False
    with_memory: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.data}, {self.num_rows:,} x {self.dimension}"


SHAPES = (
    Shape(
        "clustered",
        100_000,
        128,
        (_FLAT, _PQ, _SQ, _RQ, _HNSW_FLAT, _HNSW_SQ),
        _SEARCHES,
        has_curves=True,
        with_memory=("IVF_PQ", "IVF_HNSW_SQ"),
    ),
    Shape("clustered", 100_000, 64, (_PQ, _HNSW_SQ), (_PLAIN, _EXACT)),
    Shape("clustered", 20_000, 768, (_FLAT, _PQ, _HNSW_SQ), (_PLAIN, _REFINED)),
    Shape("uniform", 20_000, 768, (_FLAT, _PQ, _HNSW_SQ), (_PLAIN, _REFINED)),
)
"""What is measured by default."""

MILLION = Shape("clustered", 1_000_000, 128, (_FLAT, _PQ, _HNSW_SQ), (_PLAIN, _REFINED))
