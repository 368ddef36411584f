"""pilum itself."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import LANCE_VERSIONS, Peer
from bench.predicates import Predicate, to_sql

__all__ = ["Pilum"]


class Pilum(Peer):
    """This package."""

    name = "pilum"
    file_versions = LANCE_VERSIONS

    def __init__(self, file_version: str = LANCE_VERSIONS[0]) -> None:
        import pilum

        self.file_version = file_version
        self.settings = f"file version {file_version}; writing waits for the device (fsync)"

        self.module = pilum
        try:
            self.version = version("pilum")
        except PackageNotFoundError:
            self.version = "(from the tree, not installed)"

    @classmethod
    def in_version(cls, file_version: str) -> Self:
        return cls(file_version)

    def write(self, table: pa.Table, path: Path) -> None:
        self.module.write_dataset(table, path, data_storage_version=self.file_version)

    def write_without_sync(self, table: pa.Table, path: Path) -> None:
        options = {"sync": "false"}
        self.module.write_dataset(
            table, path, data_storage_version=self.file_version, storage_options=options
        )

    def write_small(self, table: pa.Table, path: Path) -> None:
        options = self.module.EncodingOptions(prefer="size")
        self.module.write_dataset(
            table, path, data_storage_version=self.file_version, encoding_options=options
        )

    def write_stream(self, reader: pa.RecordBatchReader, path: Path) -> None:
        self.module.write_dataset(reader, path, data_storage_version=self.file_version)

    def open(self, path: Path) -> Any:
        return self.module.dataset(path)

    def open_new(self, path: Path) -> Any:
        return self.module.dataset(path, session=self.module.Session())

    def schema(self, handle: Any) -> pa.Schema:
        return handle.schema

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_table()

    def scan_in_form(self, handle: Any, form: str) -> pa.Table:
        return handle.to_table(strings_as=form)

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_batches()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        return handle.take(rows)

    def filter(
        self, handle: Any, predicate: Predicate, columns: list[str] | None, limit: int | None
    ) -> pa.Table:
        return handle.to_table(columns=columns, filter=to_sql(predicate), limit=limit)

    def first_rows(self, handle: Any, column: str, is_ascending: bool, count: int) -> pa.Table:
        from pilum.dataset import ColumnOrdering

        return handle.to_table(order_by=[ColumnOrdering(column, is_ascending)], limit=count)

    def count(self, handle: Any, predicate: Predicate) -> int:
        return int(handle.count_rows(filter=to_sql(predicate)))
