"""Runs the cases: every library on its own copy, and they take turns."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.indices.build import built_elsewhere
from bench.indices.cases import Build, Query
from bench.indices.peers import Peer
from bench.questions.base import timed

__all__ = ["OWN", "REFERENCE", "Figure", "answer_all", "build_all", "merge_all"]

OWN, REFERENCE = "pilum", "pylance"
LIBRARIES = {OWN: ("pilum", "pilum.query"), REFERENCE: ("lance", "lance.query")}
_SECONDS = 2.0
_COMPARED = 3
"""The number of turns whose answers are compared."""
_BUILD_SECONDS = 20.0
_MAX_BUILDS = 3


@dataclass(slots=True)
class Figure:
    """Seconds of each library, and what went wrong.

    Attributes:
        name: As in the report.
        samples: Seconds by library.
        peak_bytes: The most memory of each library's process, for builds.
        problem: Why there is no figure; empty if there is one.
    """

    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: dict[str, int] = field(default_factory=dict)
    problem: str = ""

    def median(self, library: str) -> float:
        """Return the median of the seconds."""
        return median(self.samples[library])

    @property
    def others(self) -> list[str]:
        """The peers beside the reference."""
        return [name for name in self.samples if name not in LIBRARIES]


def build_all(root: Path, table: pa.Table, builds: Sequence[Build]) -> list[Figure]:
    """Write the table once for each library and build its indices, each in a new process."""
    rows_per_file = max(table.num_rows // 2, 1)
    for name, (module, _) in LIBRARIES.items():
        lance = importlib.import_module(module)
        lance.write_dataset(table, str(root / name), max_rows_per_file=rows_per_file)
    return [_build(root, build) for build in builds]


def _build(root: Path, build: Build) -> Figure:
    figure = Figure(build.name, {name: [] for name in LIBRARIES})
    spent = 0.0
    for _ in range(_MAX_BUILDS):
        for name, (module, _) in LIBRARIES.items():
            built = built_elsewhere(module, root / name, build)
            figure.samples[name].append(built.seconds)
            peak = max(built.peak_bytes, figure.peak_bytes.get(name, 0))
            figure.peak_bytes[name] = peak
            spent += built.seconds
        if spent > _BUILD_SECONDS:
            break
    return figure


def answer_all(root: Path, queries: Sequence[Query], peer: Peer | None) -> list[Figure]:
    """Compare the answers of the libraries, then time them in turns, with indices in memory."""
    opened = {name: _open(root, name) for name in LIBRARIES}
    for dataset in opened.values():
        for name in {index["name"] for index in dataset.list_indices()}:
            dataset.prewarm_index(name)
    return [_answer(root, query, opened, peer) for query in queries]


def _open(root: Path, name: str) -> Any:
    lance = importlib.import_module(LIBRARIES[name][0])
    return lance.dataset(str(root / name), session=lance.Session())


def _answer(root: Path, query: Query, opened: dict[str, Any], peer: Peer | None) -> Figure:
    asked: dict[str, Callable[[int], Any]] = {}
    for name, (_, module) in LIBRARIES.items():
        asked[name] = _own(root, query, name, opened[name], importlib.import_module(module))
    other = peer[1](query) if peer else None
    if peer and other:
        asked[peer[0]] = other
    figure = Figure(query.name, {name: [] for name in asked})
    for turn in range(_COMPARED):
        answers = {name: one(turn) for name, one in asked.items()}
        if peer and query.words:  # tantivy rounds lengths for its scores
            answers.pop(peer[0], None)
        first, *rest = answers.values()
        if not all(_are_equal(first, one) for one in rest):
            figure.problem = "the answers differ"
            return figure
    names, spent, turn = list(asked), 0.0, 0
    while turn < 5 or (spent < _SECONDS and turn < 1000):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            ask = partial(asked[name], _COMPARED + turn)
            seconds, _ = timed(ask)
            figure.samples[name].append(seconds)
            spent += seconds
        turn += 1
    return figure


def _own(root: Path, query: Query, name: str, opened: Any, module: Any) -> Callable[[int], Any]:
    if query.is_cold:
        return lambda turn: query.ask(module, _open(root, name), turn)
    return lambda turn: query.ask(module, opened, turn)


def _are_equal(one: pa.Table, other: pa.Table) -> bool:
    """Compare rows in any order; of a search with a limit, the scores, as rows may tie."""
    if "_score" in one.column_names:
        mine, theirs = (np.sort(table["_score"].to_numpy()) for table in (one, other))
        return bool(np.array_equal(mine, theirs))
    keys = [(name, "ascending") for name in one.column_names]
    return bool(one.sort_by(keys).equals(other.sort_by(keys)))


def merge_all(root: Path, table: pa.Table, num_rows: int) -> Figure:
    """Time merges by a key with an index on it, and without; both are samples of this library."""
    import pilum

    random = np.random.default_rng(9)
    keys = random.choice(table.num_rows, num_rows, replace=False)
    source = pa.table({"key": pa.array(keys), "value": pa.array(random.normal(size=num_rows))})
    figure = Figure(f"merge of {num_rows:,} rows by key, with index and without")
    for name in (OWN, REFERENCE):
        path = root / f"merge {name}"
        dataset = pilum.write_dataset(table.select(["key", "value"]), str(path))
        if name == OWN:
            dataset.create_scalar_index("key", "BTREE")
        version = dataset.version
        figure.samples[name] = []
        for _ in range(_MAX_BUILDS):
            pilum.dataset(str(path), version=version).restore()
            builder = pilum.dataset(str(path)).merge_insert("key").when_matched_update_all()
            seconds, result = timed(lambda: builder.execute(source))  # noqa: B023 - called now
            assert result["num_updated_rows"] == num_rows
            figure.samples[name].append(seconds)
    return figure
