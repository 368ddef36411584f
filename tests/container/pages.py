"""Single pages: made of hex, read without a file, and written without one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from container.files import MemorySource

from pilum.container.assemble import assemble
from pilum.encodings.base import PageRead, StoredPage
from pilum.encodings.registry import layout_of, read_pages
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import run_plan

__all__ = ["bytes_of", "from_hex", "read_page"]

_ALIGNMENT = 64


def from_hex(text: str) -> bytes:
    """Bytes of hex digits; white space and bars mean nothing, `*n` repeats the byte in front."""
    text = re.sub(r"[\s|]", "", text)
    text = re.sub(r"(..)\*(\d+);", lambda found: found[1] * int(found[2]), text)
    return bytes.fromhex(text)


def read_page(
    kind: pa.DataType,
    layout: pb.PageLayout,
    buffers: Sequence[Any],
    num_rows: int,
    rows: RowRanges | None = None,
    version: FileVersion = FileVersion.V2_1,
) -> pa.Array:
    """Reads a page of a column that has one leaf.

    Args:
        kind: Type of the column.
        layout: Description of the page.
        buffers: Its buffers.
        num_rows: Its rows.
        rows: Which ones to read; None for all.
        version: Of the file that the page would stand in.
    """
    data, places = bytearray(), []
    for buffer in map(bytes_of, buffers):
        places.append((len(data), len(buffer)))
        data += buffer + bytes(-len(buffer) % _ALIGNMENT)
    source, stored = MemorySource(bytes(data)), StoredPage(0, num_rows, tuple(places))
    wanted = RowRanges.of((0, num_rows)) if rows is None else rows
    page = PageRead(layout_of(layout, version), stored, wanted, source)
    [decoded] = run_plan(read_pages([page]), source)
    [field] = Schema.from_arrow(pa.schema([("column", kind)])).fields
    [leaf] = field.leaves()
    array = assemble(field, {leaf.id: decoded}, wanted.num_rows)
    array.validate(full=True)
    return array


def bytes_of(buffer: Any) -> bytes:
    """Bytes of anything with the buffer protocol."""
    return memoryview(buffer).cast("B").tobytes() if memoryview(buffer).nbytes else b""
