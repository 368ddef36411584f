"""Vortex through its Python package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import Peer, in_form
from bench.predicates import Predicate, to_vortex

__all__ = ["Vortex"]


class Vortex(Peer):
    """The package `vortex-data`. Strings come back as views, which is what it decodes to."""

    name = "vortex"
    settings = "defaults, so with its cache of segments in memory"

    def __init__(self) -> None:
        import vortex

        self.module = vortex
        self.version = version("vortex-data")

    def write(self, table: pa.Table, path: Path) -> None:
        self.module.io.write(table, str(path))

    def write_stream(self, reader: pa.RecordBatchReader, path: Path) -> None:
        self.module.io.write(reader, str(path))

    def open(self, path: Path) -> Any:
        return self.module.open(str(path))

    def schema(self, handle: Any) -> pa.Schema:
        return handle.dtype.to_arrow_schema()

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_arrow().read_all()

    def scan_in_form(self, handle: Any, form: str) -> pa.Table:
        table = self.scan(handle)
        if form == "views":
            return table
        fields = [field.with_type(_without_views(field.type)) for field in table.schema]
        return in_form(table.cast(pa.schema(fields)), form)

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_arrow()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        if np.all(rows[1:] > rows[:-1]):
            return self._at(handle, rows)
        places, back = np.unique(rows, return_inverse=True)  # it takes ascending rows only
        found = self._at(handle, places)
        fields = [field.with_type(_without_views(field.type)) for field in found.schema]
        return found.cast(pa.schema(fields)).take(back)

    def _at(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        indices = self.module.array(pa.array(rows.astype(np.uint64)))
        return handle.scan(indices=indices).read_all().to_arrow_table()

    def column(self, handle: Any, column: str) -> pa.Table:
        found = handle.scan([column]).read_all().to_arrow_table()
        fields = [field.with_type(_without_views(field.type)) for field in found.schema]
        return found.cast(pa.schema(fields))

    def filter(
        self, handle: Any, predicate: Predicate, columns: list[str] | None, limit: int | None
    ) -> pa.Table:
        found = handle.scan(columns, expr=to_vortex(predicate), limit=limit)
        return found.read_all().to_arrow_table()

    def count(self, handle: Any, predicate: Predicate) -> int:
        return len(handle.scan([], expr=to_vortex(predicate)).read_all())


def _without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type of values that Arrow can take rows of."""
    if kind == pa.string_view():
        return pa.string()
    return pa.binary() if kind == pa.binary_view() else kind
