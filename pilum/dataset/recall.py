"""The recall of a vector index: which share of the nearest rows it finds, and how fast.

    queries ──▶ exact search                      the k nearest rows of each, once
            ──▶ index, for each pair of settings  recall@k, and the time of one query

Recall is the mean share of the k nearest rows among the first k of the index. A row at the same
distance as the k-th nearest counts as found too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arguments import require_count, require_list
from pilum.dataset.index_forms import IndexDescription
from pilum.errors import IndexNotFoundError, InvalidInputError
from pilum.format.meta_columns import ROW_ID
from pilum.pictures.line_chart import LineChart, Series

__all__ = ["RecallPoint", "RecallReport", "Searchable", "measure_recall"]

_DISTANCE = "_distance"
_NPROBES = (1, 2, 4, 8, 16, 32, 64)
_EFS = (1.5, 3.0, 6.0, 12.0)
_DEFAULT_NUM_QUERIES = 100


class Searchable(Protocol):
    """A dataset, whose rows can be searched and sampled."""

    def to_table(self, *args: Any, **keywords: Any) -> pa.Table:
        """Read rows."""

    def sample(self, num_rows: int, columns: Any = ...) -> pa.Table:
        """Read rows at random."""

    def count_rows(self) -> int:
        """Count rows."""

    def describe_indices(self) -> Sequence[IndexDescription]:
        """Describe all indices."""


@dataclass(frozen=True, slots=True)
class RecallPoint:
    """The recall of an index with some settings.

    Attributes:
        settings: Keys of `nearest`, such as `nprobes` and `ef`, and their values.
        recall: Mean share of the nearest rows that were found, from 0 to 1.
        milliseconds: Median time of a query, for row ids and distances only.
    """

    settings: Mapping[str, int]
    recall: float
    milliseconds: float

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.settings.items())
        return f"{shown or 'defaults'}: recall {self.recall:.3f}, {self.milliseconds:.3f} ms"


@dataclass(frozen=True)
class RecallReport:
    """The recall and the speed of a vector index over a range of settings.

    Attributes:
        column: The column that was searched.
        k: Number of rows per query.
        num_queries: Number of queries.
        exact_milliseconds: Median time of an exact query.
        points: One item per combination of settings.
    """

    column: str
    k: int
    num_queries: int
    exact_milliseconds: float
    points: tuple[RecallPoint, ...]

    def __str__(self) -> str:
        head = f"{self.column}: recall@{self.k} of {self.num_queries} queries"
        exact = f"exact search: recall 1.000, {self.exact_milliseconds:.3f} ms"
        return "\n".join([head, exact, *map(str, self.points)])

    def to_arrow(self) -> pa.Table:
        """Return one row per combination: the settings, `recall` and `milliseconds`."""
        rows = [
            {**one.settings, "recall": one.recall, "milliseconds": one.milliseconds}
            for one in self.points
        ]
        return pa.Table.from_pylist(rows)

    def suggestion(self, recall: float = 0.95) -> RecallPoint | None:
        """Return the fastest settings that reach a recall; None if none do.

        Args:
            recall: The least recall, from 0 to 1.
        """
        enough = [point for point in self.points if point.recall >= recall]
        return min(enough, key=lambda point: point.milliseconds, default=None)

    def chart(self) -> LineChart:
        """Return a chart of recall by latency, with a line per `refine_factor` and `ef`."""
        lines: dict[str, list[tuple[float, float]]] = {}
        for point in self.points:
            others = [f"{name} {value}" for name, value in point.settings.items()][1:]
            lines.setdefault(", ".join(others) or self.column, []).append(
                (point.milliseconds, point.recall)
            )
        series = [Series(name, sorted(points)) for name, points in lines.items()]
        title = f"{self.column}: recall and latency, {self.num_queries} queries"
        return LineChart(title, "ms", f"recall@{self.k}", series)


def measure_recall(
    dataset: Searchable,
    column: str,
    *,
    k: int,
    num_queries: int | None,
    queries: Any,
    nprobes: Sequence[int] | None,
    ef: Sequence[int] | None,
    refine_factor: Sequence[int] | None,
) -> RecallReport:
    """Search each query exactly and by the index, and compare.

    Args:
        dataset: The dataset.
        column: The column with the index.
        k: Number of rows per query.
        num_queries: Number of queries; None for all that are given, or 100.
        queries: Vectors, as rows of a matrix; None for vectors of random rows.
        nprobes: Values to try; None for powers of two.
        ef: Values to try; None for multiples of `k` in a graph, and for none elsewhere.
        refine_factor: Values to try; None for no refinement.

    Raises:
        IndexNotFoundError: If the column has no vector index.
        InvalidInputError: If an argument is invalid, or the table has no vectors.
    """
    require_count("k", k, 1)
    details = _details(dataset, column)
    metric, has_graph = str(details["metric_type"]).lower(), "hnsw" in details
    asked = _queries(dataset, column, queries, num_queries)
    exact, seconds = _answers(dataset, asked, _exact(column, k, metric))
    truth = [_within(found, k) for found in exact]
    points = []
    for settings in _combinations(k, nprobes, ef, refine_factor, has_graph=has_graph):
        found, spent = _answers(dataset, asked, {"column": column, "k": k, **settings})
        shares = [
            len(near.intersection(answer[ROW_ID].to_pylist())) / size if size else 1.0
            for (near, size), answer in zip(truth, found, strict=True)
        ]
        recall = min(float(np.mean(shares)), 1.0)
        points.append(RecallPoint(settings, recall, median(spent) * 1e3))
    return RecallReport(column, k, len(asked), median(seconds) * 1e3, tuple(points))


def _details(dataset: Searchable, column: str) -> Mapping[str, Any]:
    """Return the details of the first vector index on a column."""
    for one in dataset.describe_indices():
        if one.field_names == [column] and "metric_type" in (one.details or {}):
            return one.details or {}
    raise IndexNotFoundError(f"column {column!r} has no vector index; create one first")


def _exact(column: str, k: int, metric: str) -> dict[str, Any]:
    # Twice as many, for rows that are as far away as the k-th nearest.
    return {"column": column, "k": 2 * k, "metric": metric, "use_index": False}


def _within(found: pa.Table, k: int) -> tuple[set[int], int]:
    """Return the rows that are no farther than the k-th nearest, and how many should be found."""
    distances = found[_DISTANCE].to_numpy()
    size = min(k, len(distances))
    near = distances <= distances[size - 1] if size else distances < 0
    return set(found[ROW_ID].to_numpy()[near].tolist()), size


def _answers(
    dataset: Searchable, queries: NDArray[Any], nearest: Mapping[str, Any]
) -> tuple[list[pa.Table], list[float]]:
    found, seconds = [], []
    for query in queries:
        start = time.perf_counter()
        table = dataset.to_table(
            columns=[ROW_ID, _DISTANCE], nearest={**nearest, "q": query}, with_row_id=True
        )
        seconds.append(time.perf_counter() - start)
        found.append(table)
    return found, seconds


def _combinations(
    k: int,
    nprobes: Sequence[int] | None,
    ef: Sequence[int] | None,
    refine_factor: Sequence[int] | None,
    *,
    has_graph: bool,
) -> Iterator[dict[str, int]]:
    """Yield settings, those that probe the fewest partitions first."""
    if ef is None:
        ef = [round(k * times) for times in _EFS] if has_graph else []
    factors = require_list("refine_factor", refine_factor or ())
    refined = [{"refine_factor": value} for value in factors] or [{}]
    beams = [{"ef": value} for value in require_list("ef", ef)] or [{}]
    for more in refined:
        for beam in beams:
            for probes in require_list("nprobes", nprobes or _NPROBES):
                yield {"nprobes": probes, **beam, **more}


def _queries(
    dataset: Searchable, column: str, queries: Any, num_queries: int | None
) -> NDArray[Any]:
    """Return the queries as rows of a matrix."""
    if queries is not None:
        matrix = np.asarray(queries)
        if matrix.ndim != 2 or not len(matrix):
            raise InvalidInputError(
                f"queries: expected a matrix with a query in each row, found {matrix.shape}"
            )
        return matrix[:num_queries]
    count = require_count(
        "num_queries", _DEFAULT_NUM_QUERIES if num_queries is None else num_queries, 1
    )
    sampled = dataset.sample(min(count, dataset.count_rows()), [column])
    vectors = sampled.column(0).combine_chunks().drop_null()
    if not len(vectors):
        raise InvalidInputError(f"column {column!r} has no vectors to search for; pass queries")
    return np.stack(vectors.to_numpy(zero_copy_only=False))
