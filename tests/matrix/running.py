"""Runs cells of the matrix: write, read in every way, compare, and say how it ended.

Columns that are expected to work go into one table, which makes a run cheap; if that fails, or a
column is expected to be refused, columns are tried one by one, so that each is blamed alone.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from interop.comparison import assert_same
from matrix.axes import KINDS
from matrix.columns import column_of, field_of, is_blob, stored

import pilum

__all__ = ["DIRECTIONS", "Cell", "Ended", "Run", "run"]

DIRECTIONS = ("ours → reference", "reference → ours", "ours → ours")


_MOST = 200
_MOST_FILES = 4


@dataclass(frozen=True)
class Run:
    """All columns of one combination of the other axes."""

    version: str
    nulls: str
    shape: str
    size: int
    settings: str = "defaults"


@dataclass(frozen=True)
class Cell:
    """One column of a run, in one direction."""

    kind: str
    run: Run
    direction: str


@dataclass(frozen=True)
class Ended:
    """How a cell ended.

    Attributes:
        who: "" if all went well; else who refused: "pilum writes", "reference reads" …, or
            "values" if what was read is not what was written, "reference changes" if it has changed
            the values itself.
        text: What was said.
    """

    who: str = ""
    text: str = ""


class _StepError(Exception):
    def __init__(self, who: str, cause: BaseException) -> None:
        super().__init__(f"{who}: {cause}")
        self.ended = Ended(who, f"{type(cause).__name__}: {_first_line(cause)}")


def _first_line(error: BaseException) -> str:
    """What was said, without what differs from run to run or says nothing to users."""
    line = (str(error).strip().splitlines() or [""])[0]
    line = re.sub(r",? ?/\S*\.rs(:\d+)*:?", "", line)
    line = re.sub(r"/\S*\.lance\b", "…", line)
    line = re.sub(r"Id\(\d+\)", "Id(…)", line)
    line = re.sub(r"\d+ null", "… null", line)
    return line if len(line) <= _MOST else line[:_MOST] + " …"


def run(
    wanted: Run,
    folder: Path,
    alone: Callable[[Cell], bool] = lambda _: False,
    kinds: Iterable[str] = KINDS,
) -> Iterator[tuple[Cell, Ended]]:
    """Runs a combination for all kinds and directions.

    Args:
        wanted: The combination.
        folder: An empty one, for tables.
        alone: Whether a cell is expected to be refused.
        kinds: Names of kinds.
    """
    names = list(kinds)
    for direction in DIRECTIONS:
        cells = [Cell(kind, wanted, direction) for kind in names]
        together = [cell for cell in cells if not alone(cell)]
        single = [cell for cell in cells if alone(cell)]
        if together:
            ended = _attempt(together, folder)
            if ended.who:
                single = cells
            else:
                yield from ((cell, ended) for cell in together)
        for cell in single:
            yield cell, _attempt([cell], folder)


def _attempt(cells: list[Cell], folder: Path) -> Ended:
    wanted, direction = cells[0].run, cells[0].direction
    path = str(folder / "t")
    try:
        table = _table(cells)
        writes, reads = direction.split(" → ")
        if writes == "ours":
            _step("pilum writes", lambda: _write(pilum, table, path, wanted.version))
        else:
            _step("reference writes", lambda: _write(lance, table, path, wanted.version))
        if reads == "ours":
            found = _step("pilum reads", lambda: _read_all(path, table, wanted.version))
            expected = stored(table, wanted.version)
            if writes == "ours":
                _compare(found, expected)
            else:
                return _against_reference(found, expected, path)
        else:
            found = _step("reference reads", lambda: _read_reference(path, table, wanted.version))
            _compare(found, stored(table, wanted.version))
    except _StepError as error:
        return error.ended
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return Ended()


def _table(cells: list[Cell]) -> pa.Table:
    wanted = cells[0].run
    fields = [field_of(KINDS[cell.kind], wanted.settings) for cell in cells]
    arrays = [
        column_of(
            KINDS[cell.kind],
            wanted.nulls,
            wanted.shape,
            wanted.size,
            wanted.settings,
            seed=sum(map(ord, cell.kind)),
        )
        for cell in cells
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _step(who: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a panic of Rust is none of Exception
        raise _StepError(who, error) from error


def _write(library: Any, table: pa.Table, path: str, version: str) -> None:
    library.write_dataset(table, path, data_storage_version=version)


@dataclass(frozen=True)
class _Reading:
    """A part that was read, and the rows that it is."""

    table: pa.Table
    rows: Any


def _asked(size: int) -> list[tuple[int, int]]:
    """Ranges at borders of chunks, as (first, number)."""
    wanted = [(0, 1), (size - 1, 1), (1, size - 2), (1020, 8), (4090, 10), (size // 3, size // 3)]
    return [(first, count) for first, count in wanted if 0 <= first < size and count > 0]


def _taken(size: int) -> list[Any]:
    if size == 0:
        return []
    random = np.random.default_rng(size)
    return [np.array([size - 1, 0, size // 2, 0]), random.integers(0, size, 50)]


def _read_all(path: str, given: pa.Table, version: str) -> list[_Reading]:
    dataset, size = pilum.dataset(path), given.num_rows
    found = [_Reading(_scan(dataset), np.arange(size))]
    for first, count in _asked(size):
        part = _scan(dataset, offset=first, limit=count)
        found.append(_Reading(part, np.arange(first, min(first + count, size))))
    return [*found, *_takes(dataset, given, version)]


def _read_reference(path: str, given: pa.Table, version: str) -> list[_Reading]:
    dataset = lance.dataset(path)
    found = [_Reading(_scan(dataset), np.arange(given.num_rows))]
    return [*found, *_takes(dataset, given, version)]


def _scan(dataset: Any, **options: Any) -> pa.Table:
    return dataset.to_table(blob_handling="all_binary", **options)


def _takes(dataset: Any, given: pa.Table, version: str) -> Iterator[_Reading]:
    blobs = [field for field in stored(given, version).schema if is_blob(given, field.name)]
    apart = [] if version == "0.1" else [field.name for field in blobs]
    plain = [name for name in given.column_names if name not in apart]
    for rows in _taken(given.num_rows):
        if plain:
            yield _Reading(dataset.take(rows, plain), rows)
        for field in blobs if apart else []:
            yield _Reading(_payloads(dataset, field, rows[:_MOST_FILES]), rows[:_MOST_FILES])


def _payloads(dataset: Any, field: pa.Field, rows: Any) -> pa.Table:
    """Blobs that are opened as files, and read."""
    files = dataset.take_blobs(field.name, indices=rows.tolist())
    values = [None if file is None else file.read() for file in files]
    return pa.table([pa.array(values, field.type)], schema=pa.schema([field]))


def _against_reference(found: list[_Reading], expected: pa.Table, path: str) -> Ended:
    """Compares with what was given to the reference, else with what it reads itself."""
    try:
        _compare(found, expected)
    except _StepError:
        try:
            itself = _scan(lance.dataset(path))
        except (pa.ArrowException, OSError) as error:
            return _StepError("reference reads", error).ended
        _compare(found, itself)
        return Ended("reference changes", "what it reads itself is not what it was given")
    return Ended()


def _compare(found: list[_Reading], table: pa.Table) -> None:
    for reading in found:
        expected = _plain(table.select(reading.table.column_names))
        try:
            assert_same(_plain(reading.table), expected.take(pa.array(reading.rows)))
        except (AssertionError, pa.ArrowException) as error:
            raise _StepError("values", error) from error


def _plain(table: pa.Table) -> pa.Table:
    """Dictionaries as their values: which of equal values an index names is not told."""
    for number, field in enumerate(table.schema):
        if pt.is_dictionary(field.type):
            values = table.column(number).cast(field.type.value_type)
            named = pa.field(f"{field.name} {field.type}", values.type, metadata=field.metadata)
            table = table.set_column(number, named, values)
    return table
