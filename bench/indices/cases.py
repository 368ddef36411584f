"""What is asked: a table, its indices, and queries with one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["BUILDS", "LOOKUPS", "TEXT_QUERIES", "Build", "Query", "numbers", "texts"]

_LABELS = [f"label {number}" for number in range(5000)]


@dataclass(frozen=True, slots=True)
class Build:
    """An index.

    Attributes:
        column: The column.
        kind: Its type.
        options: Keyword arguments of `create_scalar_index`.
    """

    column: str
    kind: str
    options: dict[str, Any]

    @property
    def name(self) -> str:
        """As in the report."""
        return f"build {self.kind} on `{self.column}`"


@dataclass(frozen=True, slots=True)
class Query:
    """A query.

    Attributes:
        name: As in the report.
        ask: Given the module and the dataset, returns the rows.
        is_cold: Whether each answer opens the dataset again, without caches.
        sql: The same for DuckDB; empty if it is not asked.
        words: The same for tantivy; empty if it is not asked.
    """

    name: str
    ask: Callable[[Any, Any], pa.Table]
    is_cold: bool = False
    sql: str = ""
    words: str = ""


def numbers(num_rows: int) -> pa.Table:
    """Keys in random order, a column of few values, labels, and short texts."""
    random = np.random.default_rng(7)
    key = random.permutation(num_rows)
    few = random.zipf(1.3, num_rows) % 10_000
    starts = np.arange(num_rows + 1, dtype=np.int32) * 3
    labels = pa.array(_LABELS).take(pa.array(random.integers(0, len(_LABELS), 3 * num_rows)))
    texts = pa.array([f"item {number:x} of {number % 97}" for number in key.tolist()])
    return pa.table(
        {
            "key": pa.array(key),
            "few": pa.array(few),
            "labels": pa.ListArray.from_arrays(pa.array(starts), labels),
            "name": texts,
            "value": pa.array(random.normal(size=num_rows)),
        }
    )


def texts(num_rows: int) -> pa.Table:
    """Documents of 5 to 60 words, which are as frequent as those of a language."""
    random = np.random.default_rng(8)
    lengths = random.integers(5, 60, num_rows)
    words = np.minimum(random.zipf(1.15, int(lengths.sum())), 200_000)
    ends = np.cumsum(lengths).tolist()
    rows, start = [], 0
    spelled = [f"w{word:x}" for word in range(200_001)]
    for end in ends:
        rows.append(" ".join(spelled[word] for word in words[start:end].tolist()))
        start = end
    return pa.table({"id": pa.array(range(num_rows)), "text": pa.array(rows)})


BUILDS = (
    Build("key", "BTREE", {}),
    Build("few", "BITMAP", {}),
    Build("labels", "LABEL_LIST", {}),
    Build("name", "NGRAM", {}),
    Build("value", "ZONEMAP", {}),
)


def _lookup(name: str, filter: str, *, is_cold: bool = False) -> Query:
    sql = "" if is_cold else f"SELECT key, value FROM numbers WHERE {filter}"
    columns = ["key", "value"]
    return Query(
        name, lambda _, dataset: dataset.to_table(filter=filter, columns=columns), is_cold, sql
    )


_MANY = ", ".join(str(number * 97 % 100_000) for number in range(100))

LOOKUPS = (
    _lookup("BTREE, one key", "key = 77777"),
    _lookup("BTREE, one key, cold", "key = 77777", is_cold=True),
    _lookup("BTREE, 100 keys", f"key IN ({_MANY})"),
    _lookup("BTREE, range of 1,000", "key >= 50000 AND key < 51000"),
    _lookup("BITMAP, rare value", "few = 9001"),
    Query(
        "BITMAP, count of a rare value",
        lambda _, ds: _count(ds, "few = 77"),
        sql="SELECT count(*) AS count FROM numbers WHERE few = 77",
    ),
    _lookup("LABEL_LIST, one label", "array_has_any(labels, ['label 4321'])"),
    _lookup("NGRAM, contains", "contains(name, 'item 12d6')"),
    _lookup("ZONEMAP and BTREE", "key = 77777 AND value > -10"),
)


def _count(dataset: Any, filter: str) -> pa.Table:
    return pa.table({"count": [dataset.count_rows(filter=filter)]})


def _top(make: Callable[[Any], Any], **more: Any) -> Callable[[Any, Any], pa.Table]:
    return lambda query, dataset: dataset.to_table(
        full_text_query=make(query), columns=["id", "_score"], limit=10, **more
    )


def _must_and_should(query: Any) -> Any:
    kinds = query.Occur.MUST, query.Occur.SHOULD
    texts = "w64", "w5"
    return query.BooleanQuery(
        [(kind, query.MatchQuery(text, "text")) for kind, text in zip(kinds, texts, strict=True)]
    )


TEXT_QUERIES = (
    Query("text, 1 word", _top(lambda query: query.MatchQuery("w3e8", "text")), words="w3e8"),
    Query(
        "text, 2 words",
        _top(lambda query: query.MatchQuery("w64 w1f4", "text")),
        words="w64 w1f4",
    ),
    Query(
        "text, 5 words",
        _top(lambda query: query.MatchQuery("w5 w32 wc8 w3e8 w7d0", "text")),
        words="w5 w32 wc8 w3e8 w7d0",
    ),
    Query(
        "text, 2 words, both",
        _top(
            lambda query: query.MatchQuery("w14 w64", "text", operator=query.FullTextOperator.AND)
        ),
        words="+w14 +w64",
    ),
    Query(
        "text, phrase",
        _top(lambda query: query.PhraseQuery("w2 w5", "text")),
        words='"w2 w5"',
    ),
    Query("text, a word and another if present", _top(_must_and_should), words="+w64 w5"),
    Query(
        "text, 2 words, half of the rows",
        _top(
            lambda query: query.MatchQuery("w64 w1f4", "text"),
            filter="id % 2 = 0",
            prefilter=True,
        ),
    ),
)
