"""Recall against latency, over the number of partitions or the beam of graphs, as pictures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.vectors.cases import Build, Search, Shape, Vectors
from bench.vectors.peers import InMemoryPeers
from bench.vectors.run import LIBRARIES, K, asker, recall_of
from pilum.pictures.line_chart import LineChart, Series

__all__ = ["write_curves"]

_NPROBES = (1, 2, 4, 8, 16, 32)
_EFS = (16, 32, 64, 128, 256)
_NUM_QUERIES = 500
_NUM_TIMED = 100
_REFINED = {"IVF_PQ": 5, "IVF_RQ": 3}
"""Types that are of use only with refinement, and the factor."""

_PLAIN = Search("")


def write_curves(
    root: Path, shape: Shape, vectors: Vectors, peers: InMemoryPeers, folder: Path
) -> Iterator[tuple[str, str]]:
    """Draw a picture for each index.

    Args:
        root: Folder of the tables, as `measure` left it.
        shape: What was built.
        vectors: The vectors.
        peers: The libraries in memory.
        folder: The folder of the pictures.

    Yields:
        The title and the name of the file of each picture.
    """
    vectors = vectors.first(_NUM_QUERIES)
    folder.mkdir(parents=True, exist_ok=True)
    for build in shape.builds:
        series = list(_series(root, shape, vectors, peers, build))
        refined = f", refined {_REFINED[build.kind]} x" if build.kind in _REFINED else ""
        title = f"{build.kind}{refined}: recall@{K} by latency, {shape}"
        chart = LineChart(title, "ms", f"recall@{K}", series)
        name = f"vectors-{build.kind.lower().replace('_', '-')}.svg"
        (folder / name).write_text(chart.to_svg())
        yield title, name


def _series(
    root: Path, shape: Shape, vectors: Vectors, peers: InMemoryPeers, build: Build
) -> Iterator[Series]:
    lines: dict[str, list[tuple[float, float]]] = {name: [] for name in LIBRARIES}
    for settings in _settings(build):
        nearest = {"column": "vector", "k": K, **settings}
        asks = {
            name: asker(root / build.kind, name, vectors, nearest, _PLAIN) for name in LIBRARIES
        }
        for name, seconds in _seconds(asks).items():
            recall = recall_of(root / build.kind, name, vectors, nearest, _PLAIN)
            lines[name].append((seconds * 1e3, recall))
    yield from (Series(name, points) for name, points in lines.items())
    peer = peers.like(build.kind, build.keywords(shape.num_rows, shape.dimension))
    if peer is None:
        return
    points = []
    for effort in peer.efforts:
        recall = peer.recall(vectors, effort)

        def ask(turn: int, effort: int = effort) -> Any:
            return peer.ask(vectors.queries[turn, np.newaxis], effort)

        points.append((_seconds({peer.name: ask})[peer.name] * 1e3, recall))
        if recall > 0.999:
            break
    yield Series(peer.name, points)


def _settings(build: Build) -> list[dict[str, int]]:
    if "ef" in build.settings:
        return [{"nprobes": 1, "ef": ef} for ef in _EFS]
    refined = {"refine_factor": _REFINED[build.kind]} if build.kind in _REFINED else {}
    return [{"nprobes": nprobes, **refined} for nprobes in _NPROBES]


def _seconds(asks: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    """Return the median seconds of each library; they take turns."""
    samples: dict[str, list[float]] = {name: [] for name in asks}
    for turn in range(_NUM_TIMED):
        for name, ask in asks.items():
            start = time.perf_counter()
            ask(turn)
            samples[name].append(time.perf_counter() - start)
    return {name: median(own) for name, own in samples.items()}
