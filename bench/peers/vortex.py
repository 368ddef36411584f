"""Vortex through its Python package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.peers.base import Peer

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

    def open(self, path: Path) -> Any:
        return self.module.open(str(path))

    def scan(self, handle: Any) -> pa.Table:
        return handle.to_arrow().read_all()

    def batches(self, handle: Any) -> Iterator[pa.RecordBatch]:
        yield from handle.to_arrow()

    def take(self, handle: Any, rows: NDArray[np.int64]) -> pa.Table:
        indices = self.module.array(pa.array(rows.astype(np.uint64)))
        return handle.scan(indices=indices).read_all().to_arrow_table()
