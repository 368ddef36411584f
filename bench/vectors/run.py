"""Runs the searches: recall first, then the libraries take turns of some queries each.

After a turn of another library, the first query takes longer, as memory that it needs is no longer
in the caches of the processor. With turns of one query, that would count for whichever follows the
one that uses most memory.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.vectors.cases import Build, Search, Shape, Vectors
from bench.vectors.peers import InMemory, InMemoryPeers
from bench.vectors.rows import recall_at, rows_by_probes

__all__ = ["BUILD", "LIBRARIES", "Figure", "K", "asker", "measure", "recall_of"]

LIBRARIES = {"pilum": "pilum", "pylance": "lance"}
K = 10
BUILD = "build"
_SECONDS = 2.0
_QUERIES_OF_TURN = 10
_NUM_TIMED = 200
"""Number of queries that are timed, again and again; recall is that of all queries."""

_QUERIES_OF_PEER = 500
"""Number of queries by which the effort of a library in memory is chosen."""

_QUERIES_OF_BATCH = 100
"""Recall is measured in batches, which find the same rows as single queries."""


@dataclass(slots=True)
class Figure:
    """Seconds and recall of each library for one search or build.

    Attributes:
        shape: The vectors.
        kind: Type of the index.
        name: Name of the search, or `BUILD`.
        samples: Seconds by library.
        recalls: Recall@10 by library; empty for builds.
        level_recall: That of pilum where it compares as many rows as pylance; None for graphs, and
            for searches of all rows.
        peer: The library in memory that is measured too; empty for none.
        size_bytes: Size of the index that pilum built; 0 for searches.
    """

    shape: Shape
    kind: str
    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    recalls: dict[str, float] = field(default_factory=dict)
    level_recall: float | None = None
    peer: str = ""
    size_bytes: int = 0

    def median(self, library: str) -> float:
        """Return the median of the seconds."""
        return median(self.samples[library])

    @property
    def best(self) -> float:
        """The seconds of pilum, by a prepared search if that is faster."""
        own = self.median("pilum")
        return min(own, self.median("prepared")) if "prepared" in self.samples else own


def measure(root: Path, shape: Shape, vectors: Vectors, peers: InMemoryPeers) -> Iterator[Figure]:
    """Build each index in each library, and search it.

    Args:
        root: Folder of the tables: `{type of index}/{library}` below it.
        shape: What is built and asked.
        vectors: The vectors.
        peers: The libraries in memory, for these vectors.
    """
    for build in shape.builds:
        keywords = build.keywords(shape.num_rows, shape.dimension)
        figure = Figure(shape, build.kind, BUILD)
        for name, module in LIBRARIES.items():
            lance = importlib.import_module(module)
            dataset = lance.write_dataset(vectors.table(), str(root / build.kind / name))
            start = time.perf_counter()
            dataset.create_index("vector", build.kind, **keywords)
            figure.samples[name] = [time.perf_counter() - start]
            if name == "pilum":
                figure.size_bytes = dataset.describe_indices()[0].total_size_bytes
        peer = peers.like(build.kind, keywords)
        if peer is not None:
            figure.peer = peer.name
            figure.samples[peer.name] = [peer.build_seconds]
        yield figure
        for search in shape.searches:
            if not search.kinds or build.kind in search.kinds:
                is_plain = search is shape.searches[0]
                figure = Figure(shape, build.kind, search.name)
                yield _searched(root, vectors, build, search, peer if is_plain else None, figure)


def _searched(
    root: Path,
    vectors: Vectors,
    build: Build,
    search: Search,
    peer: InMemory | None,
    figure: Figure,
) -> Figure:
    nearest = {"column": "vector", "k": K, **build.settings, **search.nearest}
    path = root / build.kind
    asks = {name: asker(path, name, vectors, nearest, search) for name in LIBRARIES}
    if search.batch == 1 and not (search.is_varied or search.is_cold):  # others find the same rows
        expected = vectors.of_groups(search.groups)
        for name in LIBRARIES:
            figure.recalls[name] = recall_of(path, name, expected, nearest, search)
        if "ef" not in nearest and nearest.get("use_index", True):
            figure.level_recall = _level_recall(path, expected, nearest, search)
        asks["prepared"] = _prepared(path, vectors, nearest, search)
    some = vectors.first(_QUERIES_OF_PEER)
    effort = None if peer is None else peer.least_effort(some, figure.recalls["pilum"])
    if peer is not None and effort is not None:
        figure.peer = peer.name
        figure.recalls[peer.name] = peer.recall(some, effort)
        asks[peer.name] = _peer_asker(peer, vectors, effort)
    for ask in asks.values():  # each query once, with filters that are not asked again
        for number in range(_NUM_TIMED // search.batch):
            ask(number)
    names, spent, first = list(asks), 0.0, _NUM_TIMED // _QUERIES_OF_TURN
    figure.samples, turn = {name: [] for name in names}, first
    while turn == first or (spent < _SECONDS and turn < 2000 / _QUERIES_OF_TURN):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            for number in range(turn * _QUERIES_OF_TURN, (turn + 1) * _QUERIES_OF_TURN):
                start = time.perf_counter()
                asks[name](number)
                seconds = time.perf_counter() - start
                figure.samples[name].append(seconds / search.batch)
                spent += seconds
        turn += 1
    return figure


def _level_recall(root: Path, vectors: Vectors, nearest: dict[str, Any], search: Search) -> float:
    own, peer = (rows_by_probes(_open(root, name), vectors.queries) for name in LIBRARIES)

    def recall(nprobes: int) -> float:
        return recall_of(root, "pilum", vectors, {**nearest, "nprobes": nprobes}, search)

    return recall_at(peer[nearest["nprobes"] - 1], own, recall)


def _open(root: Path, name: str) -> Any:
    lance = importlib.import_module(LIBRARIES[name])
    return lance.dataset(str(root / name), session=lance.Session())


def asker(
    root: Path, name: str, vectors: Vectors, nearest: dict[str, Any], search: Search
) -> Callable[[int], Any]:
    """Return a function that asks a library, given the number of the turn."""
    opened, queries = _open(root, name), vectors.queries[:_NUM_TIMED]

    def ask(turn: int) -> Any:
        dataset = _open(root, name) if search.is_cold else opened
        query = queries[: search.batch] if search.batch > 1 else queries[turn % len(queries)]
        return dataset.to_table(
            columns=list(search.columns), nearest={**nearest, "q": query}, **search.more(turn)
        )

    return ask


def _prepared(
    root: Path, vectors: Vectors, nearest: dict[str, Any], search: Search
) -> Callable[[int], Any]:
    more = {"columns": list(search.columns), **search.more(0)}
    prepared = _open(root, "pilum").prepare_nearest(**nearest, **more)
    queries = vectors.queries[:_NUM_TIMED]
    return lambda turn: prepared.search(queries[turn % len(queries)])


def _peer_asker(peer: InMemory, vectors: Vectors, effort: int) -> Callable[[int], Any]:
    queries = vectors.queries[:_NUM_TIMED, np.newaxis]
    return lambda turn: peer.ask(queries[turn % len(queries)], effort)


def recall_of(
    root: Path, name: str, vectors: Vectors, nearest: dict[str, Any], search: Search
) -> float:
    """Return the mean share of the nearest rows that a library finds, over all queries."""
    dataset, num_found = _open(root, name), 0
    for start in range(0, len(vectors.queries), _QUERIES_OF_BATCH):
        batch = slice(start, start + _QUERIES_OF_BATCH)
        found = dataset.to_table(
            columns=list(search.columns),
            nearest={**nearest, "q": vectors.queries[batch]},
            **search.more(0),
        )
        rows = found["_rowid" if "_rowid" in found.column_names else "id"].to_numpy()
        for number, near in enumerate(vectors.nearest[batch]):
            own = rows[found["query_index"].to_numpy() == number]
            num_found += len(np.intersect1d(own, near))
    return num_found / vectors.nearest.size
