"""Whole mini-block pages without lists, decoded together.

Scans read whole pages, and tables of many columns have many small ones. A request, a chunk table
and a call of the kernel for each would cost more than decoding it, so the pages of a step are one
request and one call, which reads the chunk words itself:

    ranges    words and chunks of each page, then the dictionaries of the pages that have one
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from pilum import kernels
from pilum.encodings.page import Decoded, DictionaryBlock, Layer, Page
from pilum.encodings.structural.mini_block import MiniBlockPage, read_dictionary
from pilum.errors import CorruptFileError
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["WholePage", "read_whole_pages"]


class WholePage(NamedTuple):
    """A page that is read as a whole, and for messages where it stands.

    Attributes:
        page: One without lists.
        kernel_page: Its description, for the kernel.
        number: Of the page in its column.
        column: Number of the column in its file.
        path: Of the file.
    """

    page: MiniBlockPage
    kernel_page: kernels.MiniBlock
    number: int
    column: int
    path: str

    @classmethod
    def of(cls, page: Page, number: int, column: int, path: str) -> WholePage | None:
        """A page that is read as a whole, if it is one that can be decoded with others."""
        if not isinstance(page, MiniBlockPage) or page.kernel_page is None:
            return None
        if len(page.stored.buffers) < (2 if page.dictionary is None else 3):
            return None
        return cls(page, page.kernel_page, number, column, path)

    def located(self, error: CorruptFileError) -> CorruptFileError:
        """The error, with the place of the page."""
        return error.at(f"page {self.number}").at(f"column {self.column}").at(self.path)


def read_whole_pages(pages: Sequence[WholePage]) -> Plan[list[Decoded]]:
    """Reads pages of one file with one request.

    Raises:
        CorruptFileError: If one is damaged; the text says which.
    """
    places = [place for whole in pages for place in whole.page.stored.buffers[:2]]
    places += [whole.page.stored.buffers[2] for whole in pages if whole.page.dictionary]
    offsets, sizes = np.ascontiguousarray(np.array(places, dtype=np.int64).T)
    fetched = yield Ranges(offsets, sizes)
    try:
        columns = _decode(pages, fetched, 0)
    except CorruptFileError:
        for number, whole in enumerate(pages):
            try:
                _decode([whole], fetched, number)
            except CorruptFileError as error:
                raise whole.located(error) from None
        raise
    decoded, next_dictionary = [], 2 * len(pages)
    for whole, (buffers, num_values, layers) in zip(pages, columns, strict=True):
        dictionary = None
        if whole.page.dictionary is not None:
            dictionary = _dictionary(whole, fetched, next_dictionary)
            next_dictionary += 1
        made = [*map(Layer._make, layers)]
        decoded.append(Decoded(whole.page.values, buffers, num_values, made, dictionary))
    return decoded


def _decode(pages: Sequence[WholePage], fetched: Fetched, first: int) -> list[Any]:
    """Decodes neighbouring pages, the first of which is page `first` of what was fetched."""
    ranges = slice(2 * first, 2 * (first + len(pages)))
    return kernels.decode_mini_blocks(
        [(kernel_page, page.num_items, page.stored.num_rows) for page, kernel_page, *_ in pages],
        fetched.data,
        fetched.starts[ranges],
        fetched.sizes[ranges],
    )


def _dictionary(whole: WholePage, fetched: Fetched, number: int) -> DictionaryBlock:
    page = whole.page
    assert page.dictionary is not None
    try:
        return read_dictionary(page.dictionary, fetched[number], page.num_dictionary_items)
    except CorruptFileError as error:
        raise whole.located(error) from None
