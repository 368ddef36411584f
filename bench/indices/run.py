"""Runs the cases: every library on its own copy, and they take turns."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from bench.indices.cases import Build, Query
from bench.questions.base import timed

__all__ = ["Figure", "answer_all", "build_all", "merge_all"]

LIBRARIES = {"pilum": ("pilum", "pilum.query"), "pylance": ("lance", "lance.query")}
_SECONDS = 2.0


@dataclass(slots=True)
class Figure:
    """Seconds of each library, and what went wrong.

    Attributes:
        name: As in the report.
        samples: Seconds by library.
        problem: Why there is no figure; empty if there is one.
    """

    name: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    problem: str = ""

    def median(self, library: str) -> float:
        """Return the median of the seconds."""
        return median(self.samples[library])


def build_all(root: Path, table: pa.Table, builds: Sequence[Build]) -> list[Figure]:
    """Write the table once for each library and build its indices."""
    figures = []
    rows_per_file = max(table.num_rows // 2, 1)
    for name, (module, _) in LIBRARIES.items():
        lance = importlib.import_module(module)
        lance.write_dataset(table, str(root / name), max_rows_per_file=rows_per_file)
    for build in builds:
        figure = Figure(build.name)
        for name, (module, _) in LIBRARIES.items():
            dataset = importlib.import_module(module).dataset(str(root / name))
            work = dataset.create_scalar_index
            arguments = (build.column, build.kind)
            seconds, _ = timed(lambda: work(*arguments, **build.options))  # noqa: B023 - called now
            figure.samples[name] = [seconds]
        figures.append(figure)
    return figures


def answer_all(root: Path, queries: Sequence[Query]) -> list[Figure]:
    """Compare the answers of the libraries, then time them in turns."""
    opened = {name: _open(root, name) for name in LIBRARIES}
    return [_answer(root, query, opened) for query in queries]


def _open(root: Path, name: str) -> Any:
    lance = importlib.import_module(LIBRARIES[name][0])
    return lance.dataset(str(root / name), session=lance.Session())


def _answer(root: Path, query: Query, opened: dict[str, Any]) -> Figure:
    figure = Figure(query.name, {name: [] for name in LIBRARIES})
    modules = {name: importlib.import_module(found[1]) for name, found in LIBRARIES.items()}
    answers = {name: query.ask(modules[name], opened[name]) for name in LIBRARIES}
    if not _are_equal(*answers.values()):
        figure.problem = "the answers differ"
        return figure
    names, spent, turn = list(LIBRARIES), 0.0, 0
    while turn < 5 or (spent < _SECONDS and turn < 1000):
        for name in names[turn % 2 :] + names[: turn % 2]:
            dataset = _open(root, name) if query.is_cold else opened[name]
            seconds, _ = timed(lambda: query.ask(modules[name], dataset))  # noqa: B023 - called now
            figure.samples[name].append(seconds)
            spent += seconds
        turn += 1
    return figure


def _are_equal(one: pa.Table, other: pa.Table) -> bool:
    """Compare rows in any order; of a search with a limit, the scores, as rows may tie."""
    if "_score" in one.column_names:
        mine, theirs = (np.sort(table["_score"].to_numpy()) for table in (one, other))
        return bool(np.array_equal(mine, theirs))
    keys = [(name, "ascending") for name in one.column_names]
    return bool(one.sort_by(keys).equals(other.sort_by(keys)))


def merge_all(root: Path, table: pa.Table, num_rows: int) -> Figure:
    """Time a merge by a key, with and without an index on it."""
    import pilum

    random = np.random.default_rng(9)
    keys = random.choice(table.num_rows, num_rows, replace=False)
    source = pa.table({"key": pa.array(keys), "value": pa.array(random.normal(size=num_rows))})
    figure = Figure(f"merge of {num_rows:,} rows by key, with index and without")
    for name, has_index in (("pilum", True), ("pylance", False)):
        path = root / f"merge {has_index}"
        dataset = pilum.write_dataset(table.select(["key", "value"]), str(path))
        if has_index:
            dataset.create_scalar_index("key", "BTREE")
        builder = pilum.dataset(str(path)).merge_insert("key").when_matched_update_all()
        seconds, result = timed(lambda: builder.execute(source))  # noqa: B023 - called now
        assert result["num_updated_rows"] == num_rows
        figure.samples[name] = [seconds]
    return figure
