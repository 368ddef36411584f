"""Batches in a temporary file, to be read again once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa

__all__ = ["spilled"]


def spilled(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write batches at once; the file disappears when the result is dropped."""
    handle, path = tempfile.mkstemp(suffix=".arrows", prefix="pilum-")
    try:
        with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
        stored = pa.OSFile(path)
    finally:
        with suppress(OSError):  # on systems where open files cannot be unlinked
            os.unlink(path)
    return _read(stored)


def _read(file: pa.OSFile) -> Iterator[pa.RecordBatch]:
    with file:
        yield from pa.ipc.open_stream(file)
