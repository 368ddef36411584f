"""A prepared search of nearest vectors, for many queries of one kind.

ds.prepare_nearest("v", k=10) ──▶ checked keys, open segments, rows that may be found
                   .search(q) ──▶ partitions, candidates, columns
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.dataset.nearest import NEAREST_KEYS, queries_of
from pilum.dataset.scan import Scan
from pilum.errors import InvalidInputError
from pilum.table.indices.exact import VectorColumn
from pilum.table.indices.nearest import VectorSearch
from pilum.table.indices.searches import found_rows
from pilum.table.read.json_columns import given_table
from pilum.table.read.snapshot import Snapshot

__all__ = ["PreparedNearest", "prepared_nearest"]


class PreparedNearest:
    """A search of nearest vectors of one version; created by `LanceDataset.prepare_nearest`.

    Safe to use from several threads.
    """

    def __init__(self, snapshot: Snapshot, wanted: Scan) -> None:
        if not (wanted.is_plain_search and isinstance(wanted.search, VectorSearch)):
            raise InvalidInputError(
                "prepare_nearest: expected columns, filter, prefilter, limit, offset, fragments, "
                "with_row_id, with_row_address and restrictions of indices; use scanner for others"
            )
        self._snapshot = snapshot
        self._search = wanted.search
        self._scan = wanted
        self._schema = wanted.schema(snapshot)
        self._plan = wanted.search.plan(snapshot, wanted.options, wanted.indices)
        self._plan.prepare()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows of one query; those of a batch begin with `query_index`."""
        return self._schema

    def search(self, q: Any) -> pa.Table:
        """Return the rows that are nearest to a query, or to each query of a batch.

        Args:
            q: As in the argument `nearest` of `LanceDataset.scanner`.

        Raises:
            InvalidInputError: If the query is invalid.
            CorruptFileError: If a file is damaged.
        """
        prepared, schema = self._search, self._schema
        queries, is_batch = queries_of(q, prepared.column.type, prepared.column.path)
        search = replace(prepared, queries=queries, is_batch=is_batch)
        if is_batch:
            schema = pa.schema([search.own[name] for name in search.first] + list(schema))
        found = search.found_by(self._plan, self._scan.options)
        table = found_rows(self._snapshot, found, schema, search)
        return given_table(table) if self._snapshot.schema.has_marks else table


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
