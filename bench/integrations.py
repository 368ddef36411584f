"""Other libraries on a table, with pilum and pylance: `python -m bench.integrations [--write]`.

Libraries that read Lance tables do so by `import lance`. Two processes run the same tasks in turn:
in one of them, `lance` is pilum. Each task runs once before it is measured, and both answers have
to agree. `--write` puts the table into docs/guide/integrations.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["TASKS", "main", "measure"]

_PAGE = Path(__file__).parents[1] / "docs" / "guide" / "integrations.md"
_BEGIN, _END = "<!-- timings: python -m bench.integrations --write -->", "<!-- end of timings -->"
_LIBRARIES = ("pilum", "lance")
_ROUNDS = 9


def _rows(count: int) -> pa.Table:
    numbers = np.random.default_rng(1)
    return pa.table(
        {
            "a": np.arange(count),
            "b": numbers.integers(0, 1000, count),
            "x": numbers.random(count),
            "s": [f"text {number % 5000}" for number in range(count)],
        }
    )


def _pandas(lance: Any, uri: str) -> object:
    frame = lance.dataset(uri).to_table(columns=["b", "x"], filter="b < 500").to_pandas()
    return round(float(frame["x"].sum()), 6)


def _pandas_written(lance: Any, uri: str) -> object:
    import pandas as pd

    frame = pd.DataFrame({"n": np.arange(200_000), "h": np.arange(200_000) / 2})
    with tempfile.TemporaryDirectory() as folder:
        return lance.write_dataset(frame, f"{folder}/t.lance").count_rows()


def _polars(_: Any, uri: str) -> object:
    import polars as pl

    lazy = pl.scan_lance(uri).filter(pl.col("b") < 500)
    return round(float(lazy.select(pl.col("x").sum()).collect()["x"][0]), 6)


def _polars_slice(_: Any, uri: str) -> object:
    import polars as pl

    return int(pl.scan_lance(uri).slice(1000, 50).collect()["a"].sum())


def _duckdb(lance: Any, uri: str) -> object:
    import duckdb

    rows = _arrow_dataset(lance, uri)
    query = "SELECT b, count(*) AS n, sum(a) FROM rows WHERE b < 100 GROUP BY b ORDER BY b"
    found: Any = duckdb.sql(query)  # which finds `rows` by its name
    found = found.fetchall()
    del rows
    return [int(part) for row in found[:3] for part in row]


def _datafusion(lance: Any, uri: str) -> object:
    import datafusion

    session = datafusion.SessionContext()
    session.register_dataset("rows", _arrow_dataset(lance, uri))
    [batch] = session.sql("SELECT sum(a) AS total FROM rows WHERE b < 100").collect()
    return int(batch.column(0)[0].as_py())


def _acero(lance: Any, uri: str) -> object:
    rows = _arrow_dataset(lance, uri)
    return int(
        rows.to_table(columns=["a"]).group_by([]).aggregate([("a", "sum")])["a_sum"][0].as_py()
    )


def _hugging_face(_: Any, uri: str) -> object:
    from datasets import load_dataset

    rows = load_dataset(uri, split="train", streaming=True)
    return sum(row["a"] for row in rows.take(5000))


def _arrow_dataset(lance: Any, uri: str) -> Any:
    """Return what each library offers to engines that take a dataset of pyarrow."""
    dataset = lance.dataset(uri)
    return dataset.to_pyarrow_dataset() if hasattr(dataset, "to_pyarrow_dataset") else dataset


TASKS: Mapping[str, tuple[str, str, Callable[[Any, str], object]]] = {
    "pandas": ("pandas", "half of the rows of two columns as a frame", _pandas),
    "pandas, written": ("pandas", "a frame of 200,000 rows written", _pandas_written),
    "polars": ("polars", "`scan_lance`: a filter and a sum", _polars),
    "polars, slice": ("polars", "`scan_lance`: 50 rows at 1,000", _polars_slice),
    "duckdb": ("duckdb", "a filter and a grouping", _duckdb),
    "datafusion": ("datafusion", "a filter and a sum", _datafusion),
    "acero": ("pyarrow", "the sum of a column", _acero),
    "datasets": ("datasets", "the first 5,000 rows, streamed", _hugging_face),
}
"""The package, what is done and how, by name; both libraries return the same."""


class _Child:
    """A process in which `lance` is one of the libraries."""

    def __init__(self, library: str) -> None:
        command = [sys.executable, "-m", "bench.integrations", "--as", library]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, task: str, uri: str) -> dict[str, Any]:
        """Run a task and return its answer and seconds, or the error."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([task, uri]) + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def end(self) -> None:
        """End the process."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def _serve(library: str) -> None:
    """Run the tasks that are requested by lines of the standard input."""
    import pilum

    if library == "pilum":
        pilum.install_as_lance()
    import lance

    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        task, uri = json.loads(line)
        try:
            started = perf_counter()
            answer = TASKS[task][2](lance, uri)
            found: dict[str, Any] = {"seconds": perf_counter() - started, "answer": answer}
        except Exception as error:  # reported by the other process
            found = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(found) + "\n")
        answers.flush()


def measure(num_rows: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each task that can run here, by library that can do it.

    RuntimeError is raised if a task fails with pilum, or if the answers differ.
    """
    import pilum

    found: dict[str, dict[str, float]] = {}
    children = {library: _Child(library) for library in _LIBRARIES}
    try:
        with tempfile.TemporaryDirectory() as folder:
            uri = pilum.write_dataset(_rows(num_rows), f"{folder}/rows.lance").uri
            for task in filter(_is_installed, TASKS):
                found[task] = _of_task(children, task, uri, rounds)
    finally:
        for child in children.values():
            child.end()
    return found


def _of_task(children: Mapping[str, _Child], task: str, uri: str, rounds: int) -> dict[str, float]:
    seconds: dict[str, list[float]] = {library: [] for library in children}
    for number in range(rounds + 1):
        runs = {library: child.run(task, uri) for library, child in children.items()}
        if "error" in runs["pilum"]:
            raise RuntimeError(f"{task}: {runs['pilum']['error']}")
        works = {library: run for library, run in runs.items() if "error" not in run}
        for library, run in works.items() if number else ():
            seconds[library].append(run["seconds"])
        if len({json.dumps(run["answer"]) for run in works.values()}) > 1:
            raise RuntimeError(f"{task}: the answers differ: {runs}")
    return {library: median(own) for library, own in seconds.items() if own}


def _is_installed(task: str) -> bool:
    try:
        version(TASKS[task][0])
    except PackageNotFoundError:
        return False
    return True


def _table(found: Mapping[str, Mapping[str, float]], num_rows: int) -> str:
    lines = [
        f"| {num_rows:,} rows | | pilum, ms | pylance {version('pylance')}, ms | pylance / pilum |",
        "|---|---|--:|--:|--:|",
    ]
    for task, seconds in found.items():
        package, what, _ = TASKS[task]
        ours, theirs = seconds["pilum"], seconds.get("lance")
        beside = "fails | – |" if theirs is None else f"{theirs * 1e3:.1f} | {theirs / ours:.2f} |"
        lines.append(f"| {package} {version(package)} | {what} | {ours * 1e3:.1f} | {beside}")
    return "\n".join(lines)


def _write(table: str) -> None:
    """Put the table between its marks on the page."""
    text = _PAGE.read_text()
    before, _, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise ValueError(f"{_PAGE} has no marks for the timings")
    _PAGE.write_text(f"{before}{_BEGIN}\n\n{table}\n\n{_END}{after}")


def main(arguments: list[str] | None = None) -> int:
    """Measure, print the table, and write it to the page on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=_ROUNDS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--as", dest="library", choices=_LIBRARIES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.library:
        _serve(given.library)
        return 0
    table = _table(measure(given.rows, given.rounds), given.rows)
    print(table)
    if given.write:
        _write(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
