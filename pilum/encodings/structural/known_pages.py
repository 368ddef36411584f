"""Few rows of pages of which it is known where each row is.

    PageRead ──▶ KnownPage, kept with the page        rows of known pages ──▶ one kernel call

Of mini-block pages the chunks have to be known, of full-zip pages the index, unless their rows have
one width. Both are read once and cached, so that rows take one read, and one kernel call selects
what to read of all pages of all columns.

The same as `read_picked` of `mini_block` and `FullZipLayout.read`, without the steps that do not
depend on the rows. The unusual is left to those, and so are errors, which they locate.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import Decoded, Layer, PageRead
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.encodings.structural.mini_block import MiniBlockLayout, PageLookup, look_up
from pilum.storage.base import Fetched, Ranges, Source, read_together

__all__ = ["MOST_INDEX_BYTES", "IndexLookup", "KnownPage", "known_page", "read_known"]

MOST_INDEX_BYTES = 128 * 1024
"""Longer indices are not kept: to read one takes much longer than to read some numbers of it."""
_WIDE_BYTES = 64
_LOOKUP_BYTES = 512
"""The approximate size of the objects around an index."""


class IndexLookup(NamedTuple):
    """Metadata of a full-zip page that are read once and cached: its index, if rows need one."""

    chunks: kernels.RowIndex | None
    dictionary: None = None


_Lookup: TypeAlias = "PageLookup | IndexLookup"

_ONE_WIDTH = IndexLookup(None)


class KnownPage(NamedTuple):
    """A page of which some rows can be read.

    Attributes:
        layout: Its layout.
        place: What the kernel needs to know of it: layout, buffers, and of chunks items and rows.
        rest: Arguments of the kernel after the rows, all of them None.
        lookup: Returns what locates rows; None if it is not cached.
        first: A read of its first row.
        source: Its file.
        form: A value that pages share whose rows can become one array; one with a dictionary has
            its own.
    """

    layout: MiniBlockLayout | FullZipLayout
    place: tuple[Any, ...]
    rest: tuple[None, ...]
    lookup: Callable[[], _Lookup | None]
    first: PageRead
    source: Source
    form: Hashable


def known_page(page: PageRead) -> KnownPage | None:
    """Return the page of a read of some of its rows; None if its rows are not read this way."""
    layout, stored = page.layout, page.stored
    if page.lookup is None or page.memory is not None:
        return None
    if isinstance(layout, MiniBlockLayout):
        place = layout.chunks, stored.buffers, layout.num_items, stored.num_rows
        form = layout.form if layout.dictionary is None else object()
        return KnownPage(layout, place, (None,) * 3, page.lookup.get, page, page.source, form)
    if not isinstance(layout, FullZipLayout) or not _is_located(page, layout):
        return None
    find = page.lookup.get if layout.has_index else lambda: _ONE_WIDTH
    zipped = layout.page, stored.buffers[0]
    return KnownPage(layout, zipped, (), find, page, page.source, layout.form)


def _is_located(page: PageRead, layout: FullZipLayout) -> bool:
    """Return whether rows of a full-zip page have one width, or an index that is not long.

    Narrow values without levels are left out, as no kernel is needed to find and copy them.
    """
    buffers, plain_bytes = page.stored.buffers, layout.plain_bytes
    if not layout.has_index:
        return (plain_bytes is None or plain_bytes >= _WIDE_BYTES) and len(buffers) > 0
    return len(buffers) > 1 and buffers[1][1] <= MOST_INDEX_BYTES


def read_known(
    pages: Sequence[tuple[KnownPage, NDArray[np.int64]]],
    groups: Sequence[Sequence[int]],
    others: Sequence[tuple[Source, Ranges]] = (),
) -> tuple[list[Decoded], list[Fetched]]:
    """Read rows of pages of local files, and other ranges, with one read of each file.

    Args:
        pages: Pages with the rows to read, int64, ascending and distinct, counted from the first
            one of the page.
        groups: The places of the pages whose rows become one array each; they have one form.
        others: Ranges of files.

    Returns:
        The rows of each group, and the bytes of the other ranges.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    if not pages:
        return [], read_together(others)
    lookups = [page.lookup() for page, _ in pages]
    if None in lookups:
        lookups = _look_up([page for page, _ in pages])
    wanted, dictionaries = [], []
    for (page, rows), lookup in zip(pages, lookups, strict=True):
        assert lookup is not None  # pages that are read as a whole are not known
        wanted.append((*page.place, lookup.chunks, rows, *page.rest))
        dictionaries.append(lookup.dictionary)
    reads = kernels.PageReads(wanted)
    requests = _requests(reads, [page.source for page, _ in pages])
    fetched = read_together([*requests, *others])
    stored = [(one.data, one.starts) for one in fetched[: len(requests)]]
    decoded = []
    for group, found in zip(groups, reads.decode(stored, groups), strict=True):
        (buffers, count, layers), first = found, group[0]
        made = [*map(Layer._make, layers)]
        values = pages[first][0].layout.values
        decoded.append(Decoded(values, buffers, count, made, dictionaries[first]))
    return decoded, fetched[len(requests) :]


def _look_up(pages: Sequence[KnownPage]) -> list[_Lookup | None]:
    """Return what locates rows of pages; read and cache what is not cached."""
    chunked = [page.first for page in pages if isinstance(page.layout, MiniBlockLayout)]
    by_chunks = iter(look_up(chunked))
    zipped = [page for page in pages if isinstance(page.layout, FullZipLayout)]
    by_index = iter(_indices(zipped))
    return [
        next(by_chunks) if isinstance(page.layout, MiniBlockLayout) else next(by_index)
        for page in pages
    ]


def _indices(pages: Sequence[KnownPage]) -> list[_Lookup]:
    """Return the indices of full-zip pages."""
    found = [page.lookup() for page in pages]
    missing = [place for place, lookup in enumerate(found) if lookup is None]
    firsts = [pages[place].first for place in missing]
    wanted = [(first.source, Ranges.of(first.stored.buffer(1))) for first in firsts]
    for place, first, fetched in zip(missing, firsts, read_together(wanted), strict=True):
        index = kernels.RowIndex(fetched[0], first.stored.num_rows)
        made = found[place] = IndexLookup(index)
        if first.lookup is not None:
            first.lookup.put(made, _LOOKUP_BYTES + index.size_bytes)
    return [lookup for lookup in found if lookup is not None]


def _requests(reads: kernels.PageReads, sources: Sequence[Source]) -> list[tuple[Source, Ranges]]:
    """Return the ranges of all pages, those of adjacent pages of one file together."""
    offsets, sizes = reads.ranges()
    first_source = sources[0]
    if len(sources) == 1 or all(source is first_source for source in sources):
        return [(first_source, Ranges(offsets, sizes))]
    requests, ends, first = [], reads.ends, 0
    for _, run in groupby(range(len(sources)), lambda place: id(sources[place])):
        places = list(run)
        last = ends[places[-1]]
        requests.append((sources[places[0]], Ranges(offsets[first:last], sizes[first:last])))
        first = last
    return requests
