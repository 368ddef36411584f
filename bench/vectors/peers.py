"""Libraries that search vectors in memory: faiss and hnswlib, where they are installed."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.vectors.cases import Vectors

__all__ = ["InMemory", "InMemoryPeers"]


@dataclass(frozen=True, slots=True)
class InMemory:
    """An index in memory.

    Attributes:
        name: As in the report.
        build_seconds: Seconds of its build.
        ask: Given queries and an effort (partitions or beam), returns row numbers by query.
        efforts: Efforts to try, from the least on.
    """

    name: str
    build_seconds: float
    ask: Callable[[Any, int], Any]
    efforts: tuple[int, ...]

    def least_effort(self, vectors: Vectors, recall: float) -> int | None:
        """The least effort that reaches a recall; None if none does."""
        return next((one for one in self.efforts if self.recall(vectors, one) >= recall), None)

    def recall(self, vectors: Vectors, effort: int) -> float:
        """The mean share of the nearest rows that are found."""
        found = self.ask(vectors.queries, effort)
        return float((vectors.nearest[:, :, np.newaxis] == found[:, np.newaxis]).any(axis=2).mean())


class InMemoryPeers:
    """The libraries in memory for some vectors; each builds an index once.

    Args:
        vectors: The vectors.
    """

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors
        self._built: dict[Callable[..., InMemory], InMemory | None] = {}

    def like(self, kind: str, keywords: dict[str, Any]) -> InMemory | None:
        """Return the index that is most like a type of index; None if there is none."""
        makers = {
            "IVF_FLAT": _faiss_flat,
            "IVF_PQ": _faiss_pq,
            "IVF_HNSW_FLAT": _hnswlib,
            "IVF_HNSW_SQ": _hnswlib,
        }
        make = makers.get(kind)
        if make is not None and make not in self._built:
            try:
                self._built[make] = make(self._vectors, keywords)
            except ModuleNotFoundError as error:
                print(f"{error.name} is not installed, and is left out", file=sys.stderr)
                self._built[make] = None
        return None if make is None else self._built[make]


_PROBES = (1, 2, 4, 6, 8, 12, 16, 24, 32, 64, 128)
_BEAMS = (10, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)


def _faiss_flat(vectors: Vectors, keywords: dict[str, Any]) -> InMemory:
    faiss = importlib.import_module("faiss")
    dimension = vectors.rows.shape[1]
    partitions = keywords["num_partitions"]
    return _faiss(
        "faiss IVF_FLAT",
        vectors,
        lambda: faiss.IndexIVFFlat(faiss.IndexFlatL2(dimension), dimension, partitions),
    )


def _faiss_pq(vectors: Vectors, keywords: dict[str, Any]) -> InMemory:
    faiss = importlib.import_module("faiss")
    dimension = vectors.rows.shape[1]
    shape = keywords["num_partitions"], keywords["num_sub_vectors"], 8
    return _faiss(
        "faiss IVF_PQ",
        vectors,
        lambda: faiss.IndexIVFPQ(faiss.IndexFlatL2(dimension), dimension, *shape),
    )


def _faiss(name: str, vectors: Vectors, make: Callable[[], Any]) -> InMemory:
    start = time.perf_counter()
    index = make()
    index.train(vectors.rows)
    index.add(vectors.rows)
    seconds = time.perf_counter() - start

    def ask(queries: Any, effort: int) -> Any:
        index.nprobe = effort
        return index.search(queries, 10)[1]

    return InMemory(name, seconds, ask, _PROBES)


def _hnswlib(vectors: Vectors, keywords: dict[str, Any]) -> InMemory:
    del keywords
    hnswlib = importlib.import_module("hnswlib")
    start = time.perf_counter()
    index = hnswlib.Index(space="l2", dim=vectors.rows.shape[1])
    index.init_index(max_elements=len(vectors.rows), ef_construction=150, M=20)
    index.add_items(vectors.rows)
    seconds = time.perf_counter() - start

    def ask(queries: Any, effort: int) -> Any:
        index.set_ef(effort)
        return index.knn_query(queries, k=10, num_threads=1)[0].astype(np.int64)

    return InMemory("hnswlib", seconds, ask, _BEAMS)
