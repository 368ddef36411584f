"""Pages in words and numbers: what a file says of them, or what a writer makes of rows."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from pilum.encodings.describe import describe_page
from pilum.encodings.page import Candidate, EncodedPage, StoredPage
from pilum.format.logical_types import width_bits
from pilum.format.pb import encodings21_pb2 as pb

__all__ = ["PageExplanation", "explain_page"]


@dataclass(frozen=True, slots=True)
class PageExplanation:
    """One page of a leaf column.

    Attributes:
        file: Path of the data file; empty for rows in memory.
        column: Names from the column to the leaf, with dots.
        type: Arrow type of the leaf.
        page: Its number within column and file.
        first_row: Row of the file with which it begins.
        num_rows: Its rows.
        num_values: Its value slots, nulls among them.
        layout: "mini-block", "full-zip", "constant" or "blob".
        encoding: Of the values, from the outside in.
        dictionary: Number and encoding of its values; empty without one.
        levels: How nulls and lists are stored; empty without any.
        buffer_bytes: Size of each buffer.
        raw_bytes: Bytes of the values as Arrow has them; None if the file does not tell.
        candidates: What the writer compared; only known of rows in memory.
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
    """Puts one page into words.

    Args:
        file: Path of the file.
        column: Path of the leaf.
        kind: Arrow type of the leaf.
        number: Of the page.
        stored: Where it is.
        layout: Its description.
        encoded: What the writer made, if this is it.
    """
    page = describe_page(layout, stored)
    raw_bytes = encoded.raw_bytes if encoded else None
    if raw_bytes is None and (width := width_bits(kind)) is not None:
        raw_bytes = (page.num_values * width + 7) // 8
    return PageExplanation(
        file,
        column,
        str(kind),
        number,
        stored.first_row,
        stored.num_rows,
        page.num_values,
        page.layout,
        page.encoding,
        page.dictionary,
        page.levels,
        tuple(size for _, size in stored.buffers),
        raw_bytes,
        encoded.candidates if encoded else (),
    )
