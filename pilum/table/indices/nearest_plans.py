"""Plans of searches of nearest vectors: which rows an index answers, and which are compared.

    covered by the index    partitions ──▶ candidates ──▶ with refinement: exact distances
    not covered             all rows   ──────────────────▶ exact distances
    both ──▶ the k nearest

As soon as rows without an index are mixed in, all distances are exact. If the metric of the index
differs from that of the query, no index is used. A plan keeps what does not depend on the queries.
Source: docs/format/vector-indices.md, "Queries".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from weakref import ref

import numpy as np
from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.expressions.filter import BoundFilter, SqlFilter
from pilum.format.rows import Addresses
from pilum.index.answers import RowSet
from pilum.index.vector.metrics import Metric
from pilum.index.vector.quantizer import NearestQuery
from pilum.index.vector.vectors import Matrix
from pilum.lazy import cached_property
from pilum.table.indices.exact import ExactQuery, VectorColumn, nearest_by_scan, refined
from pilum.table.indices.index_use import IndexUse
from pilum.table.indices.live import matching_rows
from pilum.table.indices.ranking import Nearest
from pilum.table.indices.rows import existing_fragments
from pilum.table.indices.vector_segments import VectorSegments, are_kept, vector_segments
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot
from pilum.table.read.take import addresses_of_ids

__all__ = ["DEFAULT_PROBING", "NearestPlan", "Probing"]


@dataclass(frozen=True)
class Probing:
    """The limits of the search of an index; see `NearestQuery`.

    Attributes:
        refine_factor: How many times more candidates are compared exactly; None for the distances
            of the index.
    """

    minimum_nprobes: int = 1
    maximum_nprobes: int | None = None
    is_fixed: bool = False
    search_effort: float | None = None
    ef: int | None = None
    refine_factor: int | None = None
    approx_mode: str = "normal"
    parallelism: int = 0


DEFAULT_PROBING = Probing()

_NO_VECTOR = np.empty(0, np.float32)

_ENTRY_BYTES = 1024
"""Approximate memory of a filter whose rows are kept, without the rows."""


@dataclass(frozen=True, eq=False)
class NearestPlan:
    """A plan for a version.

    Attributes:
        snapshot: The version.
        column: The column of vectors.
        k: Maximum number of rows for each query.
        given_metric: The distance; None for that of the index or of the element type.
        probing: How much of an index is searched.
        uses_index: Whether an index may be used.
        lower: The minimum distance, inclusive; None for no limit.
        upper: The maximum distance, exclusive; None for no limit.
        fragment_ids: Ids of the fragments that are searched; None for all.
        prefilter: Function that returns the filter that rows must match to be searched.
        use: Which indices may be used.
    """

    snapshot: Snapshot
    column: VectorColumn
    k: int
    given_metric: Metric | None
    probing: Probing
    uses_index: bool
    lower: float | None
    upper: float | None
    fragment_ids: tuple[int, ...] | None
    prefilter: Callable[[], BoundFilter | None]
    use: IndexUse

    @cached_property
    def index(self) -> VectorSegments | None:
        """The index that is used; None if all rows are compared.

        Raises:
            InvalidInputError: If segments are named that cannot be used.
        """
        if not self.uses_index:
            return None
        found = vector_segments(self.snapshot, self.column.path, self.use)
        if found is None or self.given_metric is None or self.given_metric is found.metric:
            return found
        if self.use.segments is not None:
            raise InvalidInputError(
                f"index_segments: the metric of the query is {self.given_metric.value}, that of "
                f"the index {found.metric.value}"
            )
        return None

    @cached_property
    def metric(self) -> Metric:
        """The distance."""
        if self.given_metric is not None:
            return self.given_metric
        if self.index is not None:
            return self.index.metric
        return Metric.default_of(self.column.type.dtype)

    @cached_property
    def compared(self) -> BitMap:
        """The fragments of which all rows are compared."""
        if self.use.only_covered or (self.use.segments is not None and self.index is not None):
            return BitMap()
        return self._fragments if self.index is None else self._fragments - self.index.fragments

    def lasting(self) -> NearestPlan | None:
        """Return the plan to be kept by the version, without its filter; None if it must not be.

        All segments of its index are open, and the version keeps them in any case.
        """
        index = None if self.fragment_ids is not None else self.index
        if index is None or not are_kept(self.snapshot, self.column.path, self.use, index):
            return None
        kept = replace(self, snapshot=self.snapshot.twin, prefilter=_no_filter)
        vars(kept)["index"] = index
        return kept

    def with_prefilter(
        self, snapshot: Snapshot, prefilter: Callable[[], BoundFilter | None]
    ) -> NearestPlan:
        """Return a plan without a filter for rows that match one; most of it is made only once."""
        self._asked, self._is_by_index  # noqa: B018 - kept by the plan
        made = object.__new__(NearestPlan)
        vars(made).update(vars(self), snapshot=snapshot, prefilter=prefilter)
        for name in ("_filter", "_allowed"):  # of searches without a filter
            vars(made).pop(name, None)
        return made

    def prepare(self) -> None:
        """Open the index and select the rows that may be returned, before the first query.

        Raises:
            CorruptFileError: If a file is damaged.
        """
        if self.index is not None:
            self._allowed  # noqa: B018 - kept by the plan

    def nearest(self, queries: Matrix) -> list[Nearest]:
        """Return the nearest rows for each query.

        Args:
            queries: Shape (b, D) or, for lists of vectors, (b, t, D), of the column's elements.

        Raises:
            CorruptFileError: If a file is damaged.
            FilterError: If the filter fails on a value.
        """
        candidates = None if self.index is None else self._candidates(self.index, queries)
        if candidates is not None and self._is_by_index:
            return [one.within(self.lower, self.upper) for one in candidates]
        exact = ExactQuery(queries, self.metric, self.k, self.lower, self.upper)
        if candidates is None:
            return self._by_scan(exact)
        addresses = [self.addresses(one.ids) for one in candidates]
        found = refined(self.snapshot, self.column, exact, candidates, addresses)
        if not self.compared:
            return found
        pairs = zip(found, self._by_scan(exact), strict=True)
        return [Nearest.of(pair, self.k) for pair in pairs]

    def addresses(self, ids: Addresses) -> Addresses:
        """Return the addresses of rows of the result."""
        if not self.snapshot.has_stable_row_ids:
            return ids
        return addresses_of_ids(self.snapshot, ids)[0]

    def steps(self) -> Iterator[str]:
        """Yield descriptions of the steps, the last one first."""
        index = self.index
        if index is not None:
            factor = self.probing.refine_factor
            more = "" if factor is None else f", {self.k * factor} candidates compared exactly"
            yield (
                f"VectorIndexQuery: {index.name}, {len(index.segments)} segments, "
                f"{len(index.fragments)} fragments{more}"
            )
        if self.compared or index is None:
            reason = "" if index is None else " that the index does not cover"
            yield f"ExactSearch: {len(self.compared)} fragments{reason}"

    @cached_property
    def _is_by_index(self) -> bool:
        """Whether the index says which rows are nearest, with their distances."""
        return self.probing.refine_factor is None and not self.compared

    def _candidates(self, index: VectorSegments, queries: Matrix) -> list[Nearest]:
        vectors = queries if queries.dtype == np.uint8 else queries.astype(np.float32, copy=False)
        if vectors.ndim == 3:
            return [index.nearest_lists(own, self._asked, self._allowed) for own in vectors]
        return index.nearest(vectors, self._asked, self._allowed)

    @cached_property
    def _asked(self) -> NearestQuery:
        """The query of segments, without its vector."""
        probing = self.probing
        wanted = self.k * (probing.refine_factor or 1)
        return NearestQuery(
            vector=_NO_VECTOR,
            k=max(1, min(wanted, self.snapshot.num_rows)),
            k_asked=self.k,
            metric=self.metric,
            minimum_nprobes=probing.minimum_nprobes,
            maximum_nprobes=probing.maximum_nprobes,
            is_fixed=probing.is_fixed,
            search_effort=probing.search_effort,
            ef=probing.ef,
            lower=self.lower,
            upper=self.upper,
            approx_mode=probing.approx_mode,
            parallelism=probing.parallelism,
        )

    def _by_scan(self, exact: ExactQuery) -> list[Nearest]:
        if not self.compared:
            return [Nearest.of((), self.k) for _ in exact.queries]
        is_all = self.fragment_ids is None and self.index is None
        ids = None if is_all else tuple(int(one) for one in self.compared)
        asked = ScanOptions(filter=self._filter, fragment_ids=ids)
        return nearest_by_scan(self.snapshot, self.column, exact, asked, self.use)

    @cached_property
    def _fragments(self) -> BitMap:
        prepared, wanted = self.snapshot.prepared, self.fragment_ids
        existing: BitMap | None = prepared.get(existing_fragments)
        if existing is None:
            existing = existing_fragments(self.snapshot)
            prepared.put(existing_fragments, existing, 1)
        return existing if wanted is None else existing & BitMap(wanted)

    @cached_property
    def _filter(self) -> BoundFilter | None:
        """The filter that rows must match to be searched; None for none."""
        return self.prefilter()

    @cached_property
    def _allowed(self) -> list[RowSet | None]:
        """The rows of each segment that may be returned; those of a filter are kept for a while."""
        assert self.index is not None
        filter, snapshot = self._filter, self.snapshot
        if not isinstance(filter, SqlFilter) or not filter.is_lasting:
            return self._rows_allowed(self.index, filter)
        version = snapshot.manifest.version, snapshot.manifest.transaction_file
        own = id(filter), self.fragment_ids, self.use
        key = NearestPlan, snapshot.store.identity, version, self.index.uuids, own
        cache = snapshot.session.indices
        found: tuple[ref[SqlFilter], list[RowSet | None]] | None = cache.get(key)
        if found is None or found[0]() is not filter:  # another filter may have its id by now
            found = ref(filter), self._rows_allowed(self.index, filter)
            size_bytes = sum([rows.size_bytes for rows in found[1] if rows is not None])
            cache.put(key, found, _ENTRY_BYTES + size_bytes)
        return found[1]

    def _rows_allowed(
        self, index: VectorSegments, filter: BoundFilter | None
    ) -> list[RowSet | None]:
        fragment_ids = self.fragment_ids
        if filter is not None or fragment_ids is not None:
            fragment_ids = tuple(int(one) for one in self._fragments & index.fragments)
        return index.allowed(matching_rows(self.snapshot, filter, fragment_ids, self.use))


def _no_filter() -> None:
    """Return None."""
