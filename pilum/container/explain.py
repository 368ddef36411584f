"""Explanations of pages: how a file stores them, or how a writer would encode rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from pilum.encodings.base import Candidate, EncodedPage, StoredPage
from pilum.encodings.describe import PageDescription, describe_page
from pilum.format.pb import encodings21_pb2 as pb
from pilum.format.types import width_bits

__all__ = ["PageExplanation", "explain_page", "explained", "raw_bytes_of"]


@dataclass(frozen=True, slots=True)
class PageExplanation:
    """One page of a leaf column.

    Attributes:
        file: Path of the data file; empty for rows in memory.
        column: Names from the column to the leaf, joined by dots.
        type: Arrow type of the leaf.
        page: Number of the page within its column and file.
        first_row: First row of the page in the file; below a list in files before 2.1, the first
            item.
        num_rows: Number of its rows, or of its items there.
        num_values: Number of its value slots, including nulls.
        layout: "mini-block", "full-zip", "constant" or "blob"; "array" in files of version 2.0, and
            "batch" in those of 0.1.
        encoding: Encodings of the values, outermost first.
        dictionary: Number and encoding of its values; empty without one.
        levels: How nulls and lists are stored; empty without any.
        buffer_bytes: Size of each buffer.
        raw_bytes: Bytes of the values as Arrow has them; None if the file does not record it.
        candidates: The encodings that the writer compared; only known for rows in memory.
    """

    file: str
    column: str
    type: str
    page: int
    first_row: int
    num_rows: int
    num_values: int
    layout: str
    encoding: str
    dictionary: str
    levels: str
    buffer_bytes: tuple[int, ...]
    raw_bytes: int | None
    candidates: tuple[Candidate, ...] = ()

    @property
    def stored_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(self.buffer_bytes)


def explain_page(
    file: str,
    column: str,
    kind: pa.DataType,
    number: int,
    stored: StoredPage,
    layout: pb.PageLayout,
    encoded: EncodedPage | None = None,
) -> PageExplanation:
    """Explain one page of a file since version 2.1, or one that a writer has encoded."""
    page = describe_page(layout, stored.num_rows, len(stored.buffers))
    sizes = tuple(size for _, size in stored.buffers)
    rows = stored.first_row, stored.num_rows
    found = explained(file, column, kind, number, rows, page, sizes)
    if encoded is None:
        return found
    raw_bytes = found.raw_bytes if encoded.raw_bytes is None else encoded.raw_bytes
    return replace(found, raw_bytes=raw_bytes, candidates=encoded.candidates)


def explained(
    file: str,
    column: str,
    kind: pa.DataType,
    number: int,
    rows: tuple[int, int],
    page: PageDescription,
    buffer_bytes: tuple[int, ...],
) -> PageExplanation:
    """Build the explanation of a page, with its first row and its number of rows."""
    width = width_bits(kind)
    return PageExplanation(
        file,
        column,
        str(kind),
        number,
        *rows,
        page.num_values,
        page.layout,
        page.encoding,
        page.dictionary,
        page.levels,
        buffer_bytes,
        None if width is None else (page.num_values * width + 7) // 8,
    )


def raw_bytes_of(pages: Sequence[PageExplanation]) -> int | None:
    """Return the bytes of the values of pages in memory; None if one is not known."""
    sizes = [page.raw_bytes for page in pages if page.raw_bytes is not None]
    return sum(sizes) if len(sizes) == len(pages) else None
