"""Mini-block chunks by hand, and kernels called on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.kernels import Block, Plan

__all__ = ["NO_LEVELS", "as_bytes", "chunk_of", "cuts", "decode_chunk", "decode_values"]

NO_LEVELS = np.empty(0, dtype=np.uint16)


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Bytes as the kernels take them."""
    return np.frombuffer(data, np.uint8)


def chunk_of(buffers: Sequence[bytes], *, num_levels: int = 0) -> bytes:
    """A chunk of small-chunk pages (2.1) with these buffers, levels first."""
    header = np.array([num_levels, *map(len, buffers)], dtype="<u2").tobytes()
    return b"".join(part + b"\xfe" * (-len(part) % 8) for part in (header, *buffers))


def decode_chunk(
    plan: Plan,
    chunk: bytes,
    num_values: int,
    *,
    num_buffers: int = 1,
    rows: Sequence[tuple[int, int]] | None = None,
    layers: bytes = b"\1",
    rep: Block | None = None,
    def_: Block | None = None,
    num_rows: int | None = None,
) -> Any:
    """Decodes a page of one chunk: buffers, number of values, layers."""
    num_rows = num_values if num_rows is None else num_rows
    table = np.array([[0, len(chunk), num_values, 0, num_rows]], dtype=np.int64)
    wanted = np.array([(0, num_rows)] if rows is None else rows, dtype=np.int64).reshape(-1, 2)
    body = as_bytes(chunk)
    return kernels.decode_mini_block(
        plan, rep, def_, layers, num_buffers, False, body, table, wanted
    )


def decode_values(
    plan: Plan,
    buffers: Sequence[bytes],
    num_values: int,
    rows: Sequence[tuple[int, int]] | None = None,
) -> list[bytes]:
    """Decodes values of one chunk without levels; returns Arrow's buffers."""
    made, _, _ = decode_chunk(
        plan, chunk_of(buffers), num_values, num_buffers=len(buffers), rows=rows
    )
    return [buffer.tobytes() for buffer in made]


def cuts(data: bytes) -> list[bytes]:
    """Every proper beginning; a sample of them if the data are long."""
    step = max(len(data) // 300, 1)
    return [data[:size] for size in {*range(0, len(data), step), max(len(data) - 1, 0)}]
