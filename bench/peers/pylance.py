"""pylance, the reference implementation, writing the same file version as pilum."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import LANCE_VERSIONS, Peer
from bench.predicates import Predicate, to_sql

__all__ = ["Pylance"]


class Pylance(Peer):
    """The package `pylance`, module `lance`."""

    name = "pylance"
    file_versions = LANCE_VERSIONS

    def __init__(self, file_version: str = LANCE_VERSIONS[0]) -> None:
        import lance

        self.file_version = file_version
        self.settings = f"file version {file_version}, otherwise defaults"

        self.module = lance
        self.version = version("pylance")

    @classmethod
    def in_version(cls, file_version: str) -> Self:
        return cls(file_version)

    def write(self, table: pa.Table, path: Path) -> None:
        self.module.write_dataset(
            table, str(path), data_storage_version=cast("Any", self.file_version)
        )

    def write_stream(self, reader: pa.RecordBatchReader, path: Path) -> None:
        self.module.write_dataset(
            reader, str(path), data_storage_version=cast("Any", self.file_version)
        )

    def open(self, path: Path) -> Any:
        return self.module.dataset(str(path))

    def open_new(self, path: Path) -> Any:
        session = cast("Any", self.module).Session()
        return self.module.dataset(str(path), session=session)

    def schema(self, handle: Any) -> pa.Schema:
        return handle.schema

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_table()

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_batches()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        return handle.take(rows)

    def filter(
        self, handle: Any, predicate: Predicate, columns: list[str] | None, limit: int | None
    ) -> pa.Table:
        return handle.to_table(columns=columns, filter=to_sql(predicate), limit=limit)

    def first_rows(self, handle: Any, column: str, is_ascending: bool, count: int) -> pa.Table:
        from lance.dataset import ColumnOrdering

        order = [ColumnOrdering(column, ascending=is_ascending)]
        return handle.scanner(order_by=order, limit=count).to_table()

    def count(self, handle: Any, predicate: Predicate) -> int:
        return int(handle.count_rows(filter=to_sql(predicate)))
