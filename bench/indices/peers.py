"""What answers the same queries elsewhere: DuckDB beside lookups, tantivy beside text queries."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.indices.cases import Query

__all__ = ["Peer", "duckdb_peer", "tantivy_peer"]

Peer = tuple[str, Callable[[Query], Callable[[int], Any] | None]]
"""A name, and a function that returns how to ask a query, given the number of the turn.

None if it has no such query."""

_HITS = 10


def duckdb_peer(folder: Path, table: pa.Table) -> Peer | None:
    """Return DuckDB with the table in its own file and an index of the keys; None without it."""
    try:
        import duckdb
    except ModuleNotFoundError as error:
        print(_missing(error))
        return None
    database = duckdb.connect(str(folder / "duckdb"))
    database.register("arrow", table)
    database.execute("CREATE TABLE numbers AS SELECT * FROM arrow")
    database.execute("CREATE INDEX keys ON numbers (key)")
    database.unregister("arrow")

    def asked(query: Query) -> Callable[[int], Any] | None:
        sql = query.sql
        return (lambda turn: database.sql(sql(turn)).to_arrow_table()) if sql else None

    return "DuckDB", asked


def tantivy_peer(folder: Path, table: pa.Table) -> Peer | None:
    """Return tantivy with an index of the documents; None without it."""
    try:
        import tantivy
    except ModuleNotFoundError as error:
        print(_missing(error))
        return None
    builder = tantivy.SchemaBuilder()
    builder.add_integer_field("id", stored=True)
    builder.add_text_field("text")
    path = folder / "tantivy"
    path.mkdir()
    index = tantivy.Index(builder.build(), path=str(path))
    writer = index.writer(heap_size=256 << 20, num_threads=1)
    for batch in table.to_batches(max_chunksize=10_000):
        for number, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            writer.add_document(tantivy.Document(id=number, text=text))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    @cache
    def parsed(words: str) -> tantivy.Query:
        return index.parse_query(words, ["text"])

    def asked(query: Query) -> Callable[[int], Any] | None:
        words = query.words
        if words is None:
            return None

        def top(turn: int) -> pa.Table:
            hits = searcher.search(parsed(words(turn)), _HITS).hits
            ids = [searcher.doc(address)["id"][0] for _, address in hits]
            return pa.table({"id": ids, "_score": [score for score, _ in hits]})

        return top

    return "tantivy", asked


def _missing(error: ModuleNotFoundError) -> str:
    return f"{error.name} is not installed, and is left out"
