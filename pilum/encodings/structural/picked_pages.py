"""Read some rows of many mini-block pages without lists together, as takes do.

This needs pages whose chunk table is cached: one call picks the chunks of all pages, one request
fetches them, and one call decodes the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilum import kernels
from pilum.encodings.joint import JointRead
from pilum.encodings.page import Decoded, Layer, Page
from pilum.encodings.structural.mini_block import Lookup, MiniBlockPage
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["PickedPage"]


class PickedPage(JointRead):
    """Some rows of a page.

    Attributes:
        page: A page without lists.
        kernel_page: Its description, for the kernel.
        lookup: Its chunk table and dictionary.
        rows: Counted from the first of the page.
    """

    __slots__ = ("kernel_page", "lookup", "page", "rows")

    def __init__(
        self,
        page: MiniBlockPage,
        kernel_page: kernels.MiniBlock,
        number: int,
        column: int,
        path: str,
        lookup: Lookup,
        rows: RowRanges,
    ) -> None:
        super().__init__(number, column, path)
        self.page = page
        self.kernel_page = kernel_page
        self.lookup = lookup
        self.rows = rows

    @classmethod
    def of(
        cls, page: Page, number: int, column: int, path: str, rows: RowRanges
    ) -> PickedPage | None:
        """Build the read of rows of a page, if they can be decoded with others."""
        if not isinstance(page, MiniBlockPage) or page.kernel_page is None:
            return None
        lookup = page.known_lookup()
        if lookup is None:
            return None
        return cls(page, page.kernel_page, number, column, path, lookup, rows)

    @classmethod
    def read_all(cls, reads: Sequence[PickedPage]) -> Plan[list[Decoded]]:
        """Read pages of one file with one request."""
        picked = kernels.PickedChunks(
            [
                (read.lookup.chunks.table, read.page.stored.buffer(1)[0], read.rows.bounds)
                for read in reads
            ]
        )
        fetched = yield Ranges(*picked.ranges())
        columns = _decode(picked, reads, fetched)
        return [
            Decoded(
                read.page.values,
                buffers,
                num_values,
                [*map(Layer._make, layers)],
                read.lookup.dictionary,
            )
            for read, (buffers, num_values, layers) in zip(reads, columns, strict=True)
        ]


def _decode(
    picked: kernels.PickedChunks, reads: Sequence[PickedPage], fetched: Fetched
) -> list[Any]:
    pages = [read.kernel_page for read in reads]
    try:
        return picked.decode(pages, fetched.data, fetched.starts)
    except CorruptFileError:
        for number, read in enumerate(reads):
            try:
                picked.decode(pages, fetched.data, fetched.starts, number)
            except CorruptFileError as error:
                raise read.located(error) from None
        raise
