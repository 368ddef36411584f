"""What the bench asks of a library: a few verbs over one table at one path.

A library is imported when its adapter is made, so that a run without it needs no installation,
and a process that measures memory holds only the library in question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from bench.predicates import Predicate

__all__ = ["LANCE_VERSIONS", "Peer", "in_form"]

LANCE_VERSIONS = ("2.2", "2.1", "2.0", "0.1")
"""Versions of the Lance file format; the first, that of new tables, is in all comparisons."""


class Peer(ABC):
    """One library, with the settings that it comes with.

    Attributes:
        name: As on the command line and in the report.
        settings: What a reader of the numbers should know, in one line.
        version: The installed version.
        file_versions: Versions of its file format that can be asked for; none means its own one.
    """

    name: ClassVar[str]
    settings: str
    version: str
    file_versions: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def in_version(cls, file_version: str) -> Self:
        """The adapter for a version of the file format, where the library has several."""
        return cls()

    @abstractmethod
    def write(self, table: pa.Table, path: Path) -> None:
        """Writes a table to a path where nothing is yet (a file or a folder, as it likes)."""

    def write_without_sync(self, table: pa.Table, path: Path) -> None:
        """Writes a table, and does not wait for the device, where the library does by default."""
        self.write(table, path)

    def write_small(self, table: pa.Table, path: Path) -> None:
        """Writes a table so that it takes little space, where the library has one option for it."""
        self.write(table, path)

    @abstractmethod
    def write_stream(self, reader: pa.RecordBatchReader, path: Path) -> None:
        """Writes a stream, without holding all of it, to a path where nothing is yet."""

    @abstractmethod
    def open(self, path: Path) -> Any:
        """Opens what `write` made; the handle is what the other verbs take."""

    def open_new(self, path: Path) -> Any:
        """Opens without what earlier openings in this process have cached."""
        return self.open(path)

    @abstractmethod
    def schema(self, handle: Any) -> pa.Schema:
        """Returns names and types of the columns."""

    @abstractmethod
    def scan(self, handle: Any) -> pa.Table:
        """Reads all columns and rows."""

    def scan_in_form(self, handle: Any, form: str) -> pa.Table:
        """Reads all columns and rows, with strings as "views" or "dictionaries"."""
        return in_form(self.scan(handle), form)

    @abstractmethod
    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        """Reads all columns and rows as a stream."""

    @abstractmethod
    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        """Reads some rows, in the given order, as often as they are listed."""

    @abstractmethod
    def filter(
        self, handle: Any, predicate: Predicate, columns: list[str] | None, limit: int | None
    ) -> pa.Table:
        """Reads the rows that match, or as many of them as the limit says."""

    @abstractmethod
    def count(self, handle: Any, predicate: Predicate) -> int:
        """Counts the rows that match."""

    def first_rows(self, handle: Any, column: str, is_ascending: bool, count: int) -> pa.Table:
        """Reads the first rows of an order, where the library cannot sort."""
        order = "ascending" if is_ascending else "descending"
        values = self.column(handle, column)
        places = pc.select_k_unstable(values, count, sort_keys=[(column, order)])
        return self.take(handle, places.to_numpy().astype(np.int64))

    def column(self, handle: Any, column: str) -> pa.Table:
        """Reads all rows of one column."""
        raise NotImplementedError(column)

    def size(self, path: Path) -> int:
        """Bytes on disk of everything that `write` made."""
        if path.is_file():
            return path.stat().st_size
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def in_form(table: pa.Table, form: str) -> pa.Table:
    """Converts strings to views or dictionaries."""
    columns = [
        column if not pt.is_string(column.type) else _column_in_form(column, form)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, names=table.column_names)


def _column_in_form(column: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    return column.cast(pa.string_view()) if form == "views" else pc.dictionary_encode(column)
