"""A prepared search of nearest vectors, for many queries of one kind.

ds.prepare_nearest("v", k=10) ──▶ checked keys, open segments, rows that may be found
                   .search(q) ──▶ partitions, candidates, columns

ds.to_table(nearest={…})  ──▶ the same; the version remembers the checked keys and, without a
                              filter, the plan
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self
from weakref import ref

import numpy as np
import pyarrow as pa

from pilum.dataset.nearest import NEAREST_KEYS, queries_of
from pilum.dataset.scan import Scan, ScanKeywords
from pilum.errors import InvalidInputError
from pilum.expressions.filter import SqlFilter
from pilum.index.vector.vectors import Matrix
from pilum.lazy import cached_property
from pilum.table.indices.exact import VectorColumn
from pilum.table.indices.nearest import DISTANCE, VectorSearch
from pilum.table.indices.nearest_plans import NearestPlan
from pilum.table.indices.searches import found_rows
from pilum.table.read.json_columns import given_table
from pilum.table.read.snapshot import Snapshot

__all__ = ["PreparedNearest", "prepared_nearest", "remember", "remembered"]

_PLAIN = frozenset({str, int, float, bool})
"""Types of the values of keywords that a version remembers."""

_NOT_IN_KEY = frozenset({"columns", "nearest", "q"})


@dataclass(frozen=True, eq=False)
class CheckedNearest:
    """A checked search of nearest vectors of one version, for any queries.

    Attributes:
        version: The version, which keeps the search.
        wanted: The scan; its search is `search`.
        search: The search; its queries are not used.
        schema: The columns of the result of one query.
        known_plan: The lasting plan of the same search with another prefilter; None if unknown.
    """

    version: ref[Snapshot]
    wanted: Scan
    search: VectorSearch
    schema: pa.Schema
    known_plan: NearestPlan | None = None

    @classmethod
    def of(cls, snapshot: Snapshot, wanted: Scan, schema: pa.Schema) -> Self | None:
        """Return the search of a scan; None if the scan does more than to return its rows.

        Args:
            snapshot: The version.
            wanted: The scan.
            schema: Its schema.
        """
        search = wanted.search
        if not (isinstance(search, VectorSearch) and wanted.is_plain_search):
            return None
        return cls(ref(snapshot), wanted, search, schema)

    @property
    def snapshot(self) -> Snapshot:
        """The version; the caller refers to it, too."""
        found = self.version()
        assert found is not None
        return found

    def plan(self) -> NearestPlan:
        """Return a plan: the lasting one, for the prefilter if there is one."""
        search, snapshot, wanted = self.search, self.snapshot, self.wanted
        kept = self.lasting_plan
        if kept is None:
            return search.plan(snapshot, wanted.options, wanted.indices)
        if not search.has_prefilter(wanted.options):
            return kept
        prefilter = partial(search.prefilter, snapshot, wanted.options, wanted.indices)
        return kept.with_prefilter(snapshot, prefilter)

    @cached_property
    def lasting_plan(self) -> NearestPlan | None:
        """The plan of further searches, without the prefilter; None if each needs its own."""
        if self.known_plan is not None:
            return self.known_plan
        return self.search.plan(self.snapshot, self.wanted.options, self.wanted.indices).lasting()

    def with_filter(self, text: str) -> Self | None:
        """Return the same search with another prefilter, in SQL; None if it is not remembered.

        Raises:
            FilterError: If the filter is invalid.
        """
        filter = self.snapshot.scope.bind(text)
        if not isinstance(filter, SqlFilter) or not filter.is_lasting:
            return None
        wanted = self.wanted.with_filter(filter)
        return type(self)(self.version, wanted, self.search, self.schema, self.lasting_plan)

    def queries(self, q: Any) -> tuple[Matrix, bool]:
        """Return the queries, and whether they are a batch; see `queries_of`."""
        column = self.search.column
        return queries_of(q, column.type, column.path)

    def table(self, plan: NearestPlan, queries: Matrix, is_batch: bool) -> pa.Table:
        """Return the rows that are nearest to queries."""
        search, schema, snapshot = self.search, self.schema, self.snapshot
        if is_batch is not search.is_batch:
            search = replace(search, is_batch=is_batch)
            schema = pa.schema([search.own[name] for name in search.first] + list(schema))
        found = search.found_by(plan, self.wanted.options, queries)
        table = found_rows(snapshot, found, schema, search)
        return given_table(table) if snapshot.schema.has_marks else table


class PreparedNearest:
    """A search of nearest vectors of one version; created by `LanceDataset.prepare_nearest`.

    Safe to use from several threads.
    """

    def __init__(self, snapshot: Snapshot, wanted: Scan) -> None:
        checked = CheckedNearest.of(snapshot, wanted, wanted.schema(snapshot))
        if checked is None:
            raise InvalidInputError(
                "prepare_nearest: expected columns, filter, prefilter, limit, offset, fragments, "
                "with_row_id, with_row_address and restrictions of indices; use scanner for others"
            )
        self._snapshot = snapshot
        self._checked = checked
        self._plan = checked.plan()
        self._plan.prepare()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows of one query; those of a batch begin with `query_index`."""
        return self._checked.schema

    def search(self, q: Any) -> pa.Table:
        """Return the rows that are nearest to a query, or to each query of a batch.

        Args:
            q: As in the argument `nearest` of `LanceDataset.scanner`.

        Raises:
            InvalidInputError: If the query is invalid.
            CorruptFileError: If a file is damaged.
        """
        return self._checked.table(self._plan, *self._checked.queries(q))


def prepared_nearest(snapshot: Snapshot, keywords: Mapping[str, Any]) -> PreparedNearest:
    """Prepare a search.

    Args:
        snapshot: The version.
        keywords: Keys of the argument `nearest`, "column" among them, and arguments of scans.

    Raises:
        InvalidInputError: If one of them is invalid.
    """
    if "q" in keywords:
        raise InvalidInputError("q: pass the query to `search` of the prepared search")
    if not isinstance(keywords["column"], str):
        raise InvalidInputError(f"expected the name of a column, found {keywords['column']!r:.80}")
    any_query = np.zeros(VectorColumn.of(snapshot, keywords["column"]).type.dimension)
    nearest = {name: keywords[name] for name in NEAREST_KEYS & keywords.keys()}
    scan: Any = {name: keywords[name] for name in keywords.keys() - NEAREST_KEYS}
    scan["nearest"] = {**nearest, "q": any_query}
    return PreparedNearest(snapshot, Scan.of(snapshot, scan))


def remembered(snapshot: Snapshot, keywords: ScanKeywords) -> pa.Table | None:
    """Search with keywords that the version remembers, of which only the query is checked.

    Returns:
        The rows; None if the version does not remember them, or for a batch.

    Raises:
        InvalidInputError: If the query is invalid.
        CorruptFileError: If a file is damaged.
    """
    key = _key(keywords)
    if key is None:
        return None
    known: CheckedNearest | None = snapshot.prepared.get(key)
    known = known or _with_other_filter(snapshot, keywords, key)
    if known is None:
        return None
    queries, is_batch = known.queries(keywords["nearest"]["q"])
    return None if is_batch else known.table(known.plan(), queries, False)


def remember(snapshot: Snapshot, keywords: ScanKeywords, wanted: Scan, schema: pa.Schema) -> None:
    """Make the version remember the keywords of a scan, so that `remembered` finds them.

    Args:
        snapshot: The version.
        keywords: The keywords.
        wanted: The scan.
        schema: Its schema.
    """
    key = _key(keywords)
    if key is None or snapshot.prepared.get(key) is not None:
        return
    filter = wanted.options.filter
    if isinstance(filter, SqlFilter) and not filter.is_lasting:
        return
    checked = CheckedNearest.of(snapshot, wanted, schema)
    if checked is not None and not checked.search.is_batch:
        snapshot.prepared.put(key, checked, 1)
        if isinstance(keywords.get("filter"), str) and checked.search.is_prefilter:
            snapshot.prepared.put(_key_of_any_filter(keywords), checked, 1)


def _with_other_filter(
    snapshot: Snapshot, keywords: ScanKeywords, key: tuple[object, ...]
) -> CheckedNearest | None:
    """Return a search that the version remembers with another prefilter, and make it remember it.

    Raises:
        FilterError: If the filter is invalid.
    """
    text = keywords.get("filter")
    if not isinstance(text, str):
        return None
    known: CheckedNearest | None = snapshot.prepared.get(_key_of_any_filter(keywords))
    found = None if known is None else known.with_filter(text)
    if found is not None:
        snapshot.prepared.put(key, found, 1)
    return found


def _key_of_any_filter(keywords: ScanKeywords) -> tuple[object, ...]:
    """Return what identifies keywords that are remembered, except the query and the filter."""
    return str, _key({**keywords, "filter": None})


def _key(keywords: ScanKeywords) -> tuple[object, ...] | None:
    """Return what identifies keywords, except the query; None for those not to be remembered.

    Values that are equal may differ in their type, and then only one of them may be valid. A
    missing `_distance` is warned of each time.
    """
    nearest, columns = keywords["nearest"], keywords.get("columns")
    if type(nearest) is not dict or nearest.get("q") is None:
        return None
    parts: list[object] = [CheckedNearest]
    if columns is not None:
        if type(columns) is not list or DISTANCE not in columns:
            return None
        for name in columns:
            if type(name) is not str:
                return None
        parts.append(tuple(columns))
    for number, given in enumerate((keywords, nearest)):
        for key, value in given.items():
            if value is None or key in _NOT_IN_KEY:
                continue
            if type(value) not in _PLAIN:
                return None
            parts.append((number, key, type(value), value))
    return tuple(parts)
