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
from pilum.storage.base import Fetched, Ranges, Source, read_together

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
    pages: Sequence[tuple[KnownPage, NDArray[np.int64]]],
    groups: Sequence[Sequence[int]],
    others: Sequence[tuple[Source, Ranges]] = (),
) -> tuple[list[Decoded], list[Fetched]]:
    """Read rows of pages of local files, and other ranges, with one read of each file.

    Args:
        pages: Pages with the ranges of rows to read, int64, shape (n, 2).
        groups: The places of the pages whose rows become one array each; they have one form.
        others: Ranges of files.

    Returns:
        The rows of each group, and the bytes of the other ranges.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    if not pages:
        return [], read_together(others)
    lookups = [page.first.lookup.get() for page, _ in pages if page.first.lookup is not None]
    if None in lookups:
        lookups = look_up([page.first for page, _ in pages])
    wanted, dictionaries = [], []
    for (page, bounds), lookup in zip(pages, lookups, strict=True):
        assert lookup is not None  # pages that are read as a whole are not known
        wanted.append((*page.place, lookup.chunks, bounds, None, None, None))
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


def _requests(reads: kernels.PageReads, sources: Sequence[Source]) -> list[tuple[Source, Ranges]]:
    """Return the ranges of all chunks, those of adjacent pages of one file together."""
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
