"""What is asked: a table, its indices, and queries with one answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = [
    "BUILDS",
    "TEXT_QUERIES",
    "Build",
    "Query",
    "copies",
    "lookups",
    "near_duplicates",
    "numbers",
    "places",
    "texts",
    "within",
]

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
    """A query, whose constants may differ from turn to turn.

    Attributes:
        name: As in the report.
        ask: Given the module, the dataset and the number of the turn, returns the rows.
        is_cold: Whether each answer opens the dataset again, without caches.
        sql: The same for DuckDB, given the number of the turn; None if it is not asked.
        words: The same for tantivy, given the number of the turn; None if it is not asked.
    """

    name: str
    ask: Callable[[Any, Any, int], pa.Table]
    is_cold: bool = False
    sql: Callable[[int], str] | None = None
    words: Callable[[int], str] | None = None


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


def copies(num_rows: int) -> pa.Table:
    """Documents of 60 words, five versions of each: up to a fifth of the words are others."""
    random = np.random.default_rng(9)
    words = np.minimum(random.zipf(1.15, (-(-num_rows // 5), 60)), 200_000)
    versions = words[random.permutation(num_rows) // 5]
    is_other = random.random(versions.shape) < random.random((num_rows, 1)) / 5
    versions[is_other] = random.integers(0, 200_000, int(is_other.sum()))
    spelled = np.array([f"w{word:x}" for word in range(200_001)])
    rows = [" ".join(spelled[own]) for own in versions]
    return pa.table({"id": pa.array(range(num_rows)), "text": pa.array(rows)})


BUILDS = (
    Build("key", "BTREE", {}),
    Build("few", "BITMAP", {}),
    Build("labels", "LABEL_LIST", {}),
    Build("name", "NGRAM", {}),
    Build("value", "ZONEMAP", {}),
)


def lookups(num_rows: int) -> tuple[Query, ...]:
    """Return lookups in the table of `numbers`; each turn has other constants, as in use."""

    def key(turn: int, number: int = 0) -> int:
        return (77_777 + 7_919 * turn + 104_729 * number) % max(num_rows - 1000, 1)

    def keys(turn: int) -> str:
        return ", ".join(str(key(turn, number)) for number in range(100))

    def rare(turn: int) -> int:
        return 8000 + 37 * turn % 2000

    return (
        _lookup("BTREE, one key", lambda turn: f"key = {key(turn)}"),
        _lookup("BTREE, one key, cold", lambda turn: f"key = {key(turn)}", is_cold=True),
        _lookup("BTREE, 100 keys", lambda turn: f"key IN ({keys(turn)})"),
        _lookup(
            "BTREE, range of 1,000",
            lambda turn: f"key >= {key(turn)} AND key < {key(turn) + 1000}",
        ),
        _lookup("BITMAP, rare value", lambda turn: f"few = {rare(turn)}"),
        Query(
            "BITMAP, count of a rare value",
            lambda _, dataset, turn: _count(dataset, f"few = {rare(turn)}"),
            sql=lambda turn: f"SELECT count(*) AS count FROM numbers WHERE few = {rare(turn)}",
        ),
        _lookup(
            "LABEL_LIST, one label",
            lambda turn: f"array_has_any(labels, ['label {(4321 + 37 * turn) % 5000}'])",
        ),
        _lookup(
            "NGRAM, contains",
            lambda turn: f"contains(name, 'item {0x1000 + 1_237 * turn % 0xF000:x}')",
        ),
        _lookup("ZONEMAP and BTREE", lambda turn: f"key = {key(turn)} AND value > -10"),
    )


def _lookup(name: str, filter: Callable[[int], str], *, is_cold: bool = False) -> Query:
    def ask(_: Any, dataset: Any, turn: int) -> pa.Table:
        found: pa.Table = dataset.to_table(filter=filter(turn), columns=["key", "value"])
        return found

    def sql(turn: int) -> str:
        return f"SELECT key, value FROM numbers WHERE {filter(turn)}"

    return Query(name, ask, is_cold, None if is_cold else sql)


def _count(dataset: Any, filter: str) -> pa.Table:
    return pa.table({"count": [dataset.count_rows(filter=filter)]})


_Made = Callable[[Any, str], Any]
"""Given the module of queries and the words, returns a query."""


def _text(name: str, make: _Made, form: str, texts: tuple[str, ...], **more: Any) -> Query:
    """Return a query for the best rows, whose words differ from turn to turn, as in use.

    Args:
        name: As in the report.
        make: Makes the query.
        form: What tantivy is asked, with a place for each word; empty if it is not asked.
        texts: The words of each turn; after the last ones, the first follow.
        **more: Further arguments of the scan.
    """

    def ask(query: Any, dataset: Any, turn: int) -> pa.Table:
        asked = make(query, texts[turn % len(texts)])
        columns = ["id", "_score"]
        found: pa.Table = dataset.to_table(full_text_query=asked, columns=columns, limit=10, **more)
        return found

    def words(turn: int) -> str:
        return form.format(*texts[turn % len(texts)].split())

    return Query(f"text, {name}", ask, words=words if form else None)


def _match(query: Any, text: str) -> Any:
    return query.MatchQuery(text, "text")


def _both(query: Any, text: str) -> Any:
    return query.MatchQuery(text, "text", operator=query.FullTextOperator.AND)


def _phrase(query: Any, text: str) -> Any:
    return query.PhraseQuery(text, "text")


def _must_and_should(query: Any, text: str) -> Any:
    kinds = query.Occur.MUST, query.Occur.SHOULD
    words = text.split()
    return query.BooleanQuery(
        [(kind, query.MatchQuery(word, "text")) for kind, word in zip(kinds, words, strict=True)]
    )


_ONE = ("w3e8", "w5", "w32", "w2b", "w7d0", "w1389")
_TWO = ("w64 w1f4", "w5 w3e8", "w14 w2b", "w5dc wc8")
_FIVE = ("w5 w32 wc8 w3e8 w7d0", "w9 w2b w64 w1f4 w5dc", "w14 w50 w96 w258 w9c4")
_RARE = ("w4e21", "w7531", "w9c41", "wea61", "w11171")

TEXT_QUERIES = (
    _text("1 word", _match, "{}", _ONE),
    _text("1 rare word", _match, "{}", _RARE),
    _text("2 words", _match, "{} {}", _TWO),
    _text("5 words", _match, "{} {} {} {} {}", _FIVE),
    _text("2 words, both", _both, "+{} +{}", ("w14 w64", "w5 w3e8", "w2b w32", "w9 w1f4")),
    _text("phrase", _phrase, '"{} {}"', ("w2 w5", "w3 w4", "w9 w2", "w5 w14")),
    _text(
        "a word and another if present",
        _must_and_should,
        "+{} {}",
        ("w64 w5", "w1f4 w9", "w2b w3e8", "w32 w2"),
    ),
    _text("2 words, half of the rows", _match, "", _TWO, filter="id % 2 = 0", prefilter=True),
)


def near_duplicates(table: pa.Table) -> tuple[Query, ...]:
    """Return searches of the rows that are nearly the same as one of the table of `copies`."""
    asked = table["text"].slice(0, 500).to_pylist()

    def copies_of(query: Any, dataset: Any, turn: int) -> pa.Table:
        wanted = query.MinHashQuery(asked[turn % len(asked)], "text")
        found: pa.Table = dataset.to_table(nearest=wanted, columns=["id", "_distance"], limit=10)
        return found

    return (
        Query("MINHASHLSH, near duplicates", copies_of),
        Query("MINHASHLSH, near duplicates, cold", copies_of, is_cold=True),
    )


def places(num_rows: int) -> pa.Table:
    """Points, most of which are close to one of some towns, in a square of 1,000 by 1,000."""
    random = np.random.default_rng(10)
    towns = random.uniform(0, 1000, (500, 2))
    near = towns[random.integers(0, len(towns), num_rows)] + random.normal(0, 8, (num_rows, 2))
    is_far = random.random(num_rows) < 0.2
    near[is_far] = random.uniform(0, 1000, (int(is_far.sum()), 2))
    members = [pa.field(name, pa.float64(), nullable=False) for name in "xy"]
    point = pa.StructArray.from_arrays([pa.array(axis) for axis in near.T], fields=members)
    field = pa.field("place", point.type, metadata={"ARROW:extension:name": "geoarrow.point"})
    schema = pa.schema([pa.field("id", pa.int64()), field])
    return pa.table([pa.array(range(num_rows)), point], schema=schema)


def within(table: pa.Table) -> tuple[Query, ...]:
    """Return searches of the points in areas around one of the table of `places`."""
    middles = table["place"].slice(0, 500).to_pylist()

    def search(name: str, radius: float, corners: int, *, is_cold: bool = False) -> Query:
        angles = np.linspace(0, 2 * np.pi, corners, endpoint=False)
        edge = radius * np.column_stack([np.cos(angles), np.sin(angles)])

        def ask(_: Any, dataset: Any, turn: int) -> pa.Table:
            middle = middles[turn % len(middles)]
            ring = np.add(edge, [middle["x"], middle["y"]])
            text = ", ".join(f"{x!r} {y!r}" for x, y in [*ring.tolist(), ring[0].tolist()])
            filter = f"st_within(place, st_geomfromtext('POLYGON(({text}))'))"
            found: pa.Table = dataset.to_table(filter=filter, columns=["id"])
            return found

        return Query(f"RTREE, {name}", ask, is_cold=is_cold)

    return (
        search("points in a small square", 1.0, 4),
        search("points in a small square, cold", 1.0, 4, is_cold=True),
        search("points in an area of 64 corners", 10.0, 64),
    )
