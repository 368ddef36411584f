"""Parquet through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import Peer
from bench.predicates import Predicate, to_arrow

__all__ = ["Parquet"]


class Parquet(Peer):
    """`pyarrow.parquet` for scans, `pyarrow.dataset` for rows by number."""

    name = "parquet"
    settings = "pyarrow's defaults: snappy, dictionaries, row groups of 1,048,576 rows"

    def __init__(self) -> None:
        import pyarrow.dataset
        import pyarrow.parquet

        self.dataset = pyarrow.dataset
        self.parquet = pyarrow.parquet
        self.version = pa.__version__

    def write(self, table: pa.Table, path: Path) -> None:
        self.parquet.write_table(table, path)

    def write_stream(self, reader: pa.RecordBatchReader, path: Path) -> None:
        with self.parquet.ParquetWriter(path, reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)

    def open(self, path: Path) -> Any:
        return self.dataset.dataset(path, format="parquet")

    def schema(self, handle: Any) -> pa.Schema:
        return handle.schema

    def scan(self, handle: Any) -> pa.Table:
        return self.parquet.read_table(handle.files[0])

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        with self.parquet.ParquetFile(handle.files[0]) as file:
            yield from file.iter_batches()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        return handle.take(rows)

    def column(self, handle: Any, column: str) -> pa.Table:
        return handle.to_table(columns=[column])

    def filter(
        self, handle: Any, predicate: Predicate, columns: list[str] | None, limit: int | None
    ) -> pa.Table:
        scanner = handle.scanner(columns=columns, filter=to_arrow(predicate))
        return scanner.to_table() if limit is None else scanner.head(limit)

    def count(self, handle: Any, predicate: Predicate) -> int:
        return int(handle.count_rows(filter=to_arrow(predicate)))
