"""Mini-block chunks by hand, and kernels called on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.kernels import Block, MiniBlock, PageReads, Plan

__all__ = [
    "NO_LEVELS",
    "as_bytes",
    "chunk_of",
    "cuts",
    "decode_chunk",
    "decode_page",
    "decode_values",
    "word_of",
]

_MAX_SMALL = 30_000
NO_LEVELS = np.empty(0, dtype=np.uint16)


def as_bytes(data: bytes) -> NDArray[np.uint8]:
    """Bytes as the kernels take them."""
    return np.frombuffer(data, np.uint8)


def chunk_of(buffers: Sequence[bytes], *, num_levels: int = 0, large: bool = False) -> bytes:
    """A chunk with these buffers, levels first; of a page with large chunks, it has no levels."""
    if large:
        sizes = np.array([len(buffer) for buffer in buffers], dtype="<u4").tobytes()
        header = num_levels.to_bytes(2, "little") + sizes
    else:
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
    large: bool = False,
) -> Any:
    """Decodes a page of one chunk: buffers, number of values, layers."""
    num_rows = num_values if num_rows is None else num_rows
    page = MiniBlock(plan, layers, num_buffers, rep=rep, def_=def_, large=large)
    words = word_of(chunk, large=large)
    index = None if rep is None else np.array([num_rows, 0], "<u8").tobytes()
    return decode_page(page, words, chunk, num_values, num_rows, index=index, rows=rows)


def word_of(chunk: bytes, log: int = 0, *, large: bool = False) -> bytes:
    """The word of a chunk that holds 2 to the power of `log` values."""
    word = max(len(chunk) // 8 - 1, 0) << 4 | log
    return word.to_bytes(4 if large else 2, "little")


def decode_page(
    page: MiniBlock,
    words: bytes,
    body: bytes,
    num_items: int,
    num_rows: int,
    *,
    index: bytes | None = None,
    rows: Sequence[tuple[int, int]] | None = None,
) -> Any:
    """Decodes a page in memory: buffers, number of values, layers."""
    parts = [words, body, *([] if index is None else [index])]
    ends = np.cumsum([len(part) for part in parts]).tolist()
    places = [(end - len(part), len(part)) for end, part in zip(ends, parts, strict=True)]
    wanted = None if rows is None else np.array(rows, dtype=np.int64).reshape(-1, 2)
    data = as_bytes(b"".join(parts))
    read = (page, places, num_items, num_rows, None, wanted, None, data, None)
    [decoded] = PageReads([read]).decode([])
    return decoded


def decode_values(
    plan: Plan,
    buffers: Sequence[bytes],
    num_values: int,
    rows: Sequence[tuple[int, int]] | None = None,
) -> list[bytes]:
    """Decodes values of one chunk without levels; returns Arrow's buffers."""
    large = sum(map(len, buffers)) > _MAX_SMALL
    chunk = chunk_of(buffers, large=large)
    made, _, _ = decode_chunk(
        plan, chunk, num_values, num_buffers=len(buffers), rows=rows, large=large
    )
    return [buffer.tobytes() for buffer in made]


def cuts(data: bytes) -> list[bytes]:
    """Every proper beginning; a sample of them if the data are long."""
    step = max(len(data) // 300, 1)
    return [data[:size] for size in {*range(0, len(data), step), max(len(data) - 1, 0)}]
