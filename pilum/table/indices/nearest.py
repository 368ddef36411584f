"""Search of the rows of a version whose vectors are nearest to a query.

    queries ──▶ ids and distances, nearest first ──▶ postfilter ──▶ offset and limit

Source: docs/format/vector-indices.md, "Queries".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.blocks import number_array
from pilum.index.vector.metrics import Metric
from pilum.index.vector.vectors import Matrix
from pilum.table.indices.exact import VectorColumn
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.nearest_plans import DEFAULT_PROBING, NearestPlan, Probing
from pilum.table.indices.searches import Found, Search
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["DISTANCE", "QUERY_INDEX", "VectorSearch"]

DISTANCE, QUERY_INDEX = "_distance", "query_index"
"""Columns of the result: the distance, and in a batch of queries the number of the query."""

_OWN = {DISTANCE: pa.field(DISTANCE, pa.float32())}
_OWN_OF_BATCH = {**_OWN, QUERY_INDEX: pa.field(QUERY_INDEX, pa.int32(), nullable=False)}


@dataclass(frozen=True, eq=False)
class VectorSearch(Search):
    """A search of the nearest vectors.

    Attributes:
        column: The column.
        queries: In the element type of the column: shape (b, D) or, for lists of vectors,
            (1, t, D).
        is_batch: Whether the result has the number of the query that found a row.
        k: Maximum number of rows for each query.
        metric: The distance; None for that of the index or, without one, that of the element type.
        is_prefilter: Whether only rows that match the filter are searched.
        among: See `Search`.
        lower: The minimum distance, inclusive; None for no limit.
        upper: The maximum distance, exclusive; None for no limit.
        uses_index: Whether an index may be used.
        probing: How much of an index is searched.
    """

    column: VectorColumn
    queries: Matrix
    is_batch: bool
    k: int
    metric: Metric | None = None
    is_prefilter: bool = False
    among: Search | None = None
    lower: float | None = None
    upper: float | None = None
    uses_index: bool = True
    probing: Probing = DEFAULT_PROBING

    score = DISTANCE

    @property
    def own(self) -> Mapping[str, pa.Field]:
        """See `Search.own`."""
        return _OWN_OF_BATCH if self.is_batch else _OWN

    @property
    def first(self) -> tuple[str, ...]:
        """See `Search.first`."""
        return (QUERY_INDEX,) if self.is_batch else ()

    def found(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Found:
        """See `Search.found`."""
        return self.found_by(self.plan(snapshot, options, use), options, self.queries)

    def found_by(self, plan: NearestPlan, options: ScanOptions, queries: Matrix) -> Found:
        """Return the rows as `found`, for other queries and with a plan that was made before."""
        parts = plan.nearest(queries)
        if len(parts) == 1:
            ids, distances = parts[0].ids, parts[0].distances
        else:
            ids = np.concatenate([one.ids for one in parts])
            distances = np.concatenate([one.distances for one in parts])
        addresses = plan.addresses(ids)
        columns: dict[str, NDArray[Any]] = {DISTANCE: distances}
        if self.is_batch:
            lengths = [len(one) for one in parts]
            columns[QUERY_INDEX] = np.repeat(np.arange(len(parts), dtype=np.int32), lengths)
        found = Found(addresses, lambda name: number_array(columns[name]), ids)
        return self.limited(plan.snapshot, options, plan.use, found)

    def plan(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> NearestPlan:
        """Return the plan for a version, which can be used for other queries too."""
        return NearestPlan(
            snapshot=snapshot,
            column=self.column,
            k=self.k,
            given_metric=self.metric,
            probing=self.probing,
            uses_index=self.uses_index,
            lower=self.lower,
            upper=self.upper,
            fragment_ids=options.fragment_ids,
            prefilter=partial(self.prefilter, snapshot, options, use),
            use=use,
        )

    def steps(self, snapshot: Snapshot, options: ScanOptions, use: IndexUse) -> Iterator[str]:
        """See `Search.steps`."""
        plan = self.plan(snapshot, options, use)
        bounds = "" if self.lower is None else f", distance at least {self.lower:g}"
        bounds += "" if self.upper is None else f", distance less than {self.upper:g}"
        queries = f"{len(self.queries)} queries, " if self.is_batch else ""
        filtered = ""
        if options.filter is not None or self.among is not None:
            filtered = ", prefilter" if self.is_prefilter else ", postfilter"
            filtered += "" if self.among is None else " by a full-text query"
        yield (
            f"Nearest: {queries}column {self.column.path}, k {self.k}, "
            f"metric {plan.metric.value}{bounds}{filtered}"
        )
        yield from plan.steps()
