"""Checked scans, which a version remembers by their keywords.

    to_table(filter="id = 5", columns=["a"])    keywords ──▶ key ──▶ the scan, checked earlier
    to_table(filter="id = 6", columns=["a"])    the other keywords ──▶ the scan, with this filter
    full_text_query="quick fox", limit=9        the other keywords ──▶ the scan, with this query
    nearest=MinHashQuery("some text", "title")  the same

Only keywords of plain values are remembered. A filter that may name the present moment is not.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from pilum.dataset.scan import Scan, ScanKeywords
from pilum.index.minhash.queries import MinHashQuery
from pilum.table.read.scan import ScanOptions
from pilum.table.read.snapshot import Snapshot

__all__ = ["checked_scan", "key_of_keywords"]

_PLAIN = frozenset({str, int, float, bool})
"""Types of values that are remembered."""

_LONG = 1024
"""Texts of more characters are not remembered."""

_WHOLE = Scan(ScanOptions())
_WHOLE_KEY = (Scan,)
"""The scan without keywords, which is the same for all versions, and its key."""

_SCORES = {"full_text_query": "_score", "nearest": "_distance"}
"""Queries that differ from scan to scan, and the column by which their rows are ordered."""

_FILTER = "filter"
"""The part of a key that means any text of a filter."""


def checked_scan(snapshot: Snapshot, keywords: ScanKeywords) -> tuple[Scan, pa.Schema]:
    """Return the scan of some keywords, and the schema of its batches.

    Raises:
        As `LanceDataset.scanner`.
    """
    key = key_of_keywords(keywords)
    known: tuple[Scan, pa.Schema] | None = None if key is None else snapshot.prepared.get(key)
    if known is None:
        wanted = _WHOLE if key == _WHOLE_KEY else Scan.of(snapshot, keywords)
        known = wanted, wanted.schema(snapshot)
        if key is not None and (_FILTER in key or _lasts(wanted)):
            snapshot.prepared.put(key, known, 1)
        return known
    wanted, schema = known
    filter = keywords.get("filter")
    if wanted.search is None:
        if isinstance(filter, str):
            bound = snapshot.scope.bind(filter)
            wanted = wanted if bound is wanted.options.filter else wanted.with_filter(bound)
        return wanted, schema
    from pilum.dataset.searches import same_search  # few processes search

    search = same_search(snapshot, keywords, wanted.search, wanted.indices)
    if search.last != wanted.search.last:  # another query has other columns
        wanted = Scan.of(snapshot, keywords)
        return wanted, wanted.schema(snapshot)
    return wanted.with_search(search), schema


def key_of_keywords(keywords: Mapping[str, object]) -> tuple[object, ...] | None:
    """Return what identifies keywords, except a query or else the filter; None for nothing.

    Values that are equal may differ in their type, and then only one of them may be valid. A
    missing score is warned of each time.
    """
    parts: list[object] = [Scan]
    text, nearest = keywords.get("full_text_query"), keywords.get("nearest")
    has_query = text is not None or nearest is not None
    for name, value in keywords.items():
        if value is None:
            continue
        if name == "columns":
            if type(value) is not list:
                return None
            for column in value:
                if type(column) is not str:
                    return None
            parts.append(tuple(value))
        elif name == "full_text_query" or type(value) is MinHashQuery:
            columns = keywords.get("columns")
            if isinstance(columns, list) and _SCORES.get(name) not in columns:
                return None
            parts.append(name)
        elif name == "filter" and type(value) is str and not has_query:
            parts.append(_FILTER)
        elif type(value) not in _PLAIN or (type(value) is str and len(value) > _LONG):
            return None
        else:
            parts.append((name, type(value), value))
    return tuple(parts)


def _lasts(wanted: Scan) -> bool:
    """Return whether the text of the filter means the same at any time."""
    filter = wanted.options.filter
    if filter is None:
        return True
    from pilum.expressions.filter import SqlFilter  # many processes use no filter

    return isinstance(filter, SqlFilter) and filter.is_lasting
