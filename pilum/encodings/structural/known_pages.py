"""Few rows of mini-block pages whose chunks are known.

    PageRead ──▶ KnownPage, kept with the page        rows of known pages ──▶ one kernel call

The same as `read_picked` of `mini_block`, without the steps that do not depend on the rows. The
unusual is left to that function, and so are errors, which it locates.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pilum import kernels
from pilum.encodings.base import Decoded, Layer, PageRead
from pilum.encodings.structural.mini_block import MiniBlockLayout, look_up
from pilum.storage.base import Ranges, Source

__all__ = ["KnownPage", "known_page", "read_known"]


class KnownPage(NamedTuple):
    """A page of which some rows can be read.

    Attributes:
        layout: Its layout.
        place: What the kernel needs to know of it: chunks, buffers, items and rows.
        first: A read of its first row, which has the place of the table of its chunks.
        source: Its file.
        form: A value that pages share whose rows can become one array; one with a dictionary has
            its own.
    """

    layout: MiniBlockLayout
    place: tuple[Any, ...]
    first: PageRead
    source: Source
    form: Hashable


def known_page(page: PageRead) -> KnownPage | None:
    """Return the page of a read of some of its rows; None if its rows are not read this way."""
    layout, stored = page.layout, page.stored
    if not isinstance(layout, MiniBlockLayout) or page.lookup is None or page.memory is not None:
        return None
    place = layout.chunks, stored.buffers, layout.num_items, stored.num_rows
    form = layout.form if layout.dictionary is None else object()
    return KnownPage(layout, place, page, page.source, form)


def read_known(
    pages: Sequence[tuple[KnownPage, NDArray[np.int64]]], groups: Sequence[Sequence[int]]
) -> list[Decoded]:
    """Read rows of pages of local files.

    Args:
        pages: Pages with the ranges of rows to read, int64, shape (n, 2); those of one file are
            adjacent.
        groups: The places of the pages whose rows become one array each; they have one form.

    Returns:
        The rows of each group.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    lookups = [page.first.lookup.get() for page, _ in pages if page.first.lookup is not None]
    if None in lookups:
        lookups = look_up([page.first for page, _ in pages])
    wanted, dictionaries = [], []
    for (page, bounds), lookup in zip(pages, lookups, strict=True):
        assert lookup is not None  # pages that are read as a whole are not known
        wanted.append((*page.place, lookup.chunks, bounds, None, None))
        dictionaries.append(lookup.dictionary)
    reads = kernels.PageReads(wanted)
    data, starts = _fetch(reads, [page.source for page, _ in pages])
    decoded = []
    for group, found in zip(groups, reads.decode(data, starts, groups), strict=True):
        (buffers, count, layers), first = found, group[0]
        made = [*map(Layer._make, layers)]
        values = pages[first][0].layout.values
        decoded.append(Decoded(values, buffers, count, made, dictionaries[first]))
    return decoded


def _fetch(
    reads: kernels.PageReads, sources: Sequence[Source]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of all chunks, and where each begins."""
    offsets, sizes = reads.ranges()
    ends = reads.ends
    if all(source is sources[0] for source in sources):
        fetched = sources[0].read(Ranges(offsets, sizes))
        return fetched.data, fetched.starts
    data, starts, first, end = [], [], 0, 0
    for _, run in groupby(range(len(sources)), lambda place: id(sources[place])):
        places = list(run)
        last = ends[places[-1]]
        fetched = sources[places[0]].read(Ranges(offsets[first:last], sizes[first:last]))
        data.append(fetched.data)
        starts.append(fetched.starts + end)
        end += len(fetched.data)
        first = last
    return np.concatenate(data), np.concatenate(starts)
