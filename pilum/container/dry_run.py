"""Encoding rows as a file would have them, to see what comes of it: nothing is written."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from pilum.container.explain import PageExplanation, explain_page
from pilum.container.options import FileOptions
from pilum.container.writer import FileWriter
from pilum.encodings.page import EncodedPage, StoredPage
from pilum.format.schema import Field, Schema
from pilum.format.version import FileVersion

__all__ = ["explain_batches"]


def explain_batches(
    schema: Schema, batches: Iterable[pa.RecordBatch], version: FileVersion, options: FileOptions
) -> list[PageExplanation]:
    """Encodes rows as a file of version 2.1 or 2.2 would have them, and keeps what it learns.

    Args:
        schema: Of the rows.
        batches: The rows.
        version: Of the file.
        options: Sizes and encodings.
    """
    found: dict[str, list[PageExplanation]] = {}

    def keep(path: tuple[Field, ...], stored: StoredPage, page: EncodedPage) -> None:
        column = ".".join(field.name for field in path)
        pages = found.setdefault(column, [])
        kind = path[-1].arrow_type
        pages.append(explain_page("", column, kind, len(pages), stored, page.layout, page))

    sink = _Nowhere()
    writer = FileWriter(sink, schema, version=version, options=options, on_page=keep)
    for batch in batches:
        writer.write_batch(batch)
    writer.finish()
    return [page for pages in found.values() for page in pages]


class _Nowhere:
    """A sink that counts."""

    def __init__(self) -> None:
        self.position = 0

    def write(self, data: Any) -> None:
        self.position += memoryview(data).nbytes

    def finish(self) -> None:
        """There is nothing to finish."""

    def abort(self) -> None:
        """There is nothing to drop."""
