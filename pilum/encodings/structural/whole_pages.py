"""Read whole mini-block pages without lists together.

Scans read whole pages, and tables of many columns have many small ones. A request, a chunk table
and a kernel call per page would cost more than decoding it. So the pages of a step are read with
one request and one call, which parses the chunk words itself:

    ranges    words and chunks of each page, then the dictionaries of the pages that have one

Tables of many small files have many small pages of one column. If these are in memory and have the
same description and dictionary, they are decoded into one array.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.dictionary_block import read_dictionary
from pilum.encodings.joint import JointRead
from pilum.encodings.page import Decoded, DictionaryBlock, Layer, Page
from pilum.encodings.structural.mini_block import MiniBlockPage
from pilum.errors import CorruptFileError
from pilum.storage.base import Fetched, Plan, Ranges

__all__ = ["WholePage", "decode_as_one", "decoded_with_others", "likeness_of"]

_SMALL_DICTIONARY = 4096


class WholePage(JointRead):
    """All rows of a page.

    Attributes:
        page: A page that is `decoded_with_others`.
    """

    __slots__ = ("page",)

    def __init__(self, page: MiniBlockPage, number: int, column: int, path: str) -> None:
        super().__init__(number, column, path)
        self.page = page

    @classmethod
    def read_all(cls, reads: Sequence[WholePage]) -> Plan[list[Decoded]]:
        """Read pages of one file with one request."""
        places = [place for read in reads for place in read.page.stored.buffers[:2]]
        places += [read.page.stored.buffers[2] for read in reads if read.page.dictionary]
        offsets, sizes = np.ascontiguousarray(np.array(places, dtype=np.int64).T)
        fetched = yield Ranges(offsets, sizes)
        try:
            columns = _decode(reads, fetched, 0)
        except CorruptFileError:
            for number, read in enumerate(reads):
                try:
                    _decode([read], fetched, number)
                except CorruptFileError as error:
                    raise read.located(error) from None
            raise
        decoded, next_dictionary = [], 2 * len(reads)
        for read, (buffers, num_values, layers) in zip(reads, columns, strict=True):
            dictionary = None
            if read.page.dictionary is not None:
                dictionary = _dictionary(read, fetched, next_dictionary)
                next_dictionary += 1
            made = [*map(Layer._make, layers)]
            decoded.append(Decoded(read.page.values, buffers, num_values, made, dictionary))
        return decoded


def decoded_with_others(page: Page) -> MiniBlockPage | None:
    """Return the page if this module can read it and its extent is known."""
    if not isinstance(page, MiniBlockPage) or page.kernel_page is None:
        return None
    return page if len(page.stored.buffers) >= (2 if page.dictionary is None else 3) else None


def likeness_of(data: NDArray[np.uint8], page: MiniBlockPage) -> Hashable | None:
    """Return a key shared by pages that can be decoded as one; None if this page cannot.

    Args:
        data: The bytes of the file of the page.
        page: A page that is `decoded_with_others`.
    """
    if page.dictionary is None:
        return page.kernel_page
    at, size = page.stored.buffer(2)
    if size > _SMALL_DICTIONARY:
        return None
    entries = data[at : at + size].tobytes()
    return page.kernel_page, page.dictionary, page.num_dictionary_items, entries


def decode_as_one(pages: Sequence[tuple[NDArray[np.uint8], MiniBlockPage]]) -> Decoded:
    """Decode pages with an equal `likeness_of`, one after the other.

    Args:
        pages: The pages, each with the bytes of its file.

    Raises:
        CorruptFileError: If one is damaged; the text does not name it.
    """
    data, first = pages[0]
    dictionary = None
    if first.dictionary is not None:
        at, size = first.stored.buffer(2)
        entries = data[at : at + size]
        dictionary = read_dictionary(first.dictionary, entries, first.num_dictionary_items)
    places = []
    for data, page in pages:
        stored = page.stored
        place = (data, stored.buffer(0), stored.buffer(1), page.num_items, stored.num_rows)
        places.append(place)
    buffers, num_values, layers = kernels.decode_mini_blocks_as_one(_kernel_page(first), places)
    return Decoded(first.values, buffers, num_values, [*map(Layer._make, layers)], dictionary)


def _decode(reads: Sequence[WholePage], fetched: Fetched, first: int) -> list[Any]:
    """Decode adjacent pages, the first of which is page `first` of the fetched pages."""
    ranges = slice(2 * first, 2 * (first + len(reads)))
    pages = [read.page for read in reads]
    return kernels.decode_mini_blocks(
        [(_kernel_page(page), page.num_items, page.stored.num_rows) for page in pages],
        fetched.data,
        fetched.starts[ranges],
        fetched.sizes[ranges],
    )


def _kernel_page(page: MiniBlockPage) -> kernels.MiniBlock:
    assert page.kernel_page is not None
    return page.kernel_page


def _dictionary(read: WholePage, fetched: Fetched, number: int) -> DictionaryBlock:
    page = read.page
    assert page.dictionary is not None
    try:
        return read_dictionary(page.dictionary, fetched[number], page.num_dictionary_items)
    except CorruptFileError as error:
        raise read.located(error) from None
