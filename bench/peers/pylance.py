"""pylance, the reference implementation, writing the same file version as pilum."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import Peer

__all__ = ["Pylance"]


class Pylance(Peer):
    """The package `pylance`, module `lance`."""

    name = "pylance"
    settings = 'data_storage_version="2.1", otherwise defaults'

    def __init__(self) -> None:
        import lance

        self.module = lance
        self.version = version("pylance")

    def write(self, table: pa.Table, path: Path) -> None:
        self.module.write_dataset(table, str(path), data_storage_version="2.1")

    def open(self, path: Path) -> Any:
        return self.module.dataset(str(path))

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_table()

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_batches()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        return handle.take(rows)
