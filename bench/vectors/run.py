"""Runs the searches: recall first, then the libraries take turns, query after query."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.vectors.cases import Build, Search, Vectors
from bench.vectors.peers import InMemory, in_memory

__all__ = ["LIBRARIES", "Figure", "measure"]

LIBRARIES = {"pilum": "pilum", "pylance": "lance"}
_K = 10
_SECONDS = 2.0


@dataclass(slots=True)
class Figure:
    """Seconds and recall of each library for one search or build.

    Attributes:
        name: As in the report.
        samples: Seconds by library.
        recalls: Recall@10 by library; empty for builds.
        peer: The library in memory that is measured too; empty for none.
    """

    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    recalls: dict[str, float] = field(default_factory=dict)
    peer: str = ""

    def median(self, library: str) -> float:
        """Return the median of the seconds."""
        return median(self.samples[library])


def measure(
    root: Path, vectors: Vectors, builds: tuple[Build, ...], searches: tuple[Search, ...]
) -> Iterator[Figure]:
    """Build each index in each library, and search it."""
    count, dimension = vectors.rows.shape
    for build in builds:
        keywords = build.keywords(count, dimension)
        figure = Figure(f"build {build.kind}")
        for name, module in LIBRARIES.items():
            lance = importlib.import_module(module)
            dataset = lance.write_dataset(vectors.table(), str(root / build.kind / name))
            start = time.perf_counter()
            dataset.create_index("vector", build.kind, **keywords)
            figure.samples[name] = [time.perf_counter() - start]
        peers = list(in_memory(build.kind, vectors, keywords))
        for peer in peers:
            figure.peer = peer.name
            figure.samples[peer.name] = [peer.build_seconds]
        yield figure
        for search in searches:
            if not search.kinds or build.kind in search.kinds:
                is_plain = search is searches[0]
                yield _searched(root, vectors, build, search, peers if is_plain else [])


def _searched(
    root: Path, vectors: Vectors, build: Build, search: Search, peers: list[InMemory]
) -> Figure:
    figure = Figure(f"{build.kind}: {search.name}")
    nearest = {"column": "vector", "k": _K, **build.settings, **search.nearest}
    asks: dict[str, Callable[[int], Any]] = {}
    for name in LIBRARIES:
        asks[name] = _asker(root / build.kind, name, vectors, nearest, search)
        if search.selects == 1 and search.batch == 1:
            figure.recalls[name] = _recall(asks[name], vectors)
    if "_rowid" in search.columns and search.batch == 1 and search.selects == 1:
        asks["prepared"] = _prepared(root / build.kind, vectors, nearest, search)
    for peer in peers:
        effort = peer.least_effort(vectors, figure.recalls["pilum"])
        if effort is not None:
            figure.peer = peer.name
            figure.recalls[peer.name] = peer.recall(vectors, effort)
            asks[peer.name] = _peer_asker(peer, vectors, effort)
    names, spent, turn = list(asks), 0.0, 0
    figure.samples = {name: [] for name in names}
    while turn < 10 or (spent < _SECONDS and turn < 2000):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            start = time.perf_counter()
            asks[name](turn)
            seconds = time.perf_counter() - start
            figure.samples[name].append(seconds / search.batch)
            spent += seconds
        turn += 1
    return figure


def _open(root: Path, name: str) -> Any:
    lance = importlib.import_module(LIBRARIES[name])
    return lance.dataset(str(root / name), session=lance.Session())


def _asker(
    root: Path, name: str, vectors: Vectors, nearest: dict[str, Any], search: Search
) -> Callable[[int], Any]:
    opened, queries = _open(root, name), vectors.queries

    def ask(turn: int) -> Any:
        dataset = _open(root, name) if search.is_cold else opened
        query = queries[: search.batch] if search.batch > 1 else queries[turn % len(queries)]
        return dataset.to_table(
            columns=list(search.columns), nearest={**nearest, "q": query}, **search.more
        )

    return ask


def _prepared(
    root: Path, vectors: Vectors, nearest: dict[str, Any], search: Search
) -> Callable[[int], Any]:
    prepared = _open(root, "pilum").prepare_nearest(**nearest, columns=list(search.columns))
    return lambda turn: prepared.search(vectors.queries[turn % len(vectors.queries)])


def _peer_asker(peer: InMemory, vectors: Vectors, effort: int) -> Callable[[int], Any]:
    return lambda turn: peer.ask(vectors.queries[turn % len(vectors.queries)], effort)


def _recall(ask: Callable[[int], Any], vectors: Vectors) -> float:
    shares = []
    for turn, near in enumerate(vectors.nearest):
        found = ask(turn)
        key = "_rowid" if "_rowid" in found.column_names else "id"
        shares.append(len(np.intersect1d(found[key].to_numpy(), near)) / _K)
    return float(np.mean(shares))
