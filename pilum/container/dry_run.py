"""Encode rows as a file would store them, to explain the result without writing anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from pilum.container.explain import PageExplanation, explain_page
from pilum.container.open import field_reader, new_file, open_file, require_storable
from pilum.container.segments import FilePart
from pilum.container.writer import FileOptions, FileWriter
from pilum.encodings.base import EncodedPage, StoredPage
from pilum.format.fields import Field
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import MemorySource

__all__ = ["explain_batches", "explain_written"]


def explain_batches(
    schema: Schema, batches: Iterable[pa.RecordBatch], version: FileVersion, options: FileOptions
) -> list[PageExplanation]:
    """Encode rows as a file of version 2.1 or 2.2 would store them, and explain the pages."""
    found: dict[str, list[PageExplanation]] = {}

    def keep(path: tuple[Field, ...], stored: StoredPage, page: EncodedPage) -> None:
        column = ".".join(field.name for field in path)
        pages = found.setdefault(column, [])
        kind = path[-1].arrow_type
        pages.append(explain_page("", column, kind, len(pages), stored, page.layout, page))

    require_storable(schema, version, has_sidecars=False)
    sink = _Nowhere()
    writer = FileWriter(sink, schema, version=version, options=options, on_page=keep)
    for batch in batches:
        writer.write_batch(batch)
    writer.finish()
    return [page for pages in found.values() for page in pages]


def explain_written(
    schema: Schema, batches: Iterable[pa.RecordBatch], version: FileVersion, options: FileOptions
) -> list[PageExplanation]:
    """Write rows to memory as a file of version 2.0 or 0.1, and explain its pages."""
    sink = _Memory()
    writer = new_file(sink, schema, version, options)
    has_rows = False
    for batch in batches:
        has_rows = has_rows or batch.num_rows > 0
        writer.write_batch(batch)
    if not has_rows:
        return []
    writer.finish()
    reader = open_file(MemorySource("", np.frombuffer(sink.data, np.uint8)))
    parts = [FilePart(reader, reader.field_columns())]
    readers = (field_reader(field, parts, reader.num_rows) for field in reader.schema.fields)
    return [page for one in readers for page in one.explain()]


class _Memory:
    """A sink that keeps all bytes in memory."""

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def position(self) -> int:
        return len(self.data)

    def write(self, data: Any) -> None:
        self.data += memoryview(data).cast("B") if memoryview(data).nbytes else b""

    def expose(self) -> bool:
        """Return False: bytes in memory are not exposed."""
        return False

    def finish(self) -> None:
        """Do nothing: there is nothing to finish."""

    def abort(self) -> None:
        """Do nothing: there is nothing to discard."""


class _Nowhere:
    """A sink that only counts bytes."""

    def __init__(self) -> None:
        self.position = 0

    def write(self, data: Any) -> None:
        self.position += memoryview(data).nbytes

    def expose(self) -> bool:
        """Return False: there are no bytes to expose."""
        return False

    def finish(self) -> None:
        """Do nothing: there is nothing to finish."""

    def abort(self) -> None:
        """Do nothing: there is nothing to discard."""
