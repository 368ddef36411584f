"""pilum itself."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import Peer

__all__ = ["Pilum"]


class Pilum(Peer):
    """This package."""

    name = "pilum"
    settings = "defaults: file version 2.1; writing waits for the device (fsync)"

    def __init__(self) -> None:
        import pilum

        self.module = pilum
        try:
            self.version = version("pilum")
        except PackageNotFoundError:
            self.version = "(from the tree, not installed)"

    def write(self, table: pa.Table, path: Path) -> None:
        self.module.write_dataset(table, path)

    def open(self, path: Path) -> Any:
        return self.module.dataset(path)

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_table()

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_batches()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        return handle.take(rows)
