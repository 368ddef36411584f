"""Some rows of full-zip pages that have an index, of several pages at once.

    pages of a column ──▶ one read of their indices ──▶ one read of the rows ──▶ one decode

Long texts, images and lists fill a page with few rows, so that single rows lie in as many pages.
Pages that are read as a whole need no index and are left to `FullZipLayout.read`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import Decoded, PageRead
from pilum.encodings.structural.full_zip import FullZipLayout, index_ranges, located
from pilum.storage.base import Ranges, Source, join_ranges, read_together

__all__ = ["indexed_form", "read_indexed"]


def indexed_form(page: PageRead) -> Hashable | None:
    """Return a value that pages of one file share whose rows can become one array.

    None for pages that `read_indexed` does not read.
    """
    layout = page.layout
    if not isinstance(layout, FullZipLayout) or page.is_whole or not layout.has_index:
        return None
    levels = layout.bits_rep, layout.bits_def, layout.layers
    return FullZipLayout, id(page.source), layout.values, layout.value_bytes, *levels


def read_indexed(groups: Sequence[Sequence[PageRead]]) -> list[Decoded]:
    """Read rows of groups of pages of local files, each group into one array.

    Pages of a group have equal forms (`indexed_form`).

    Raises:
        CorruptFileError: If a page is damaged; it names the first page of the group.
    """
    wanted: list[tuple[Source, Ranges]] = []
    widths: list[NDArray[np.int64]] = []
    for pages in groups:
        with pages[0].located():
            ranges, own = zip(*map(index_ranges, pages), strict=True)
        wanted.append((pages[0].source, join_ranges(ranges)))
        widths.append(np.array(own))
    requests = []
    for pages, index, width in zip(groups, read_together(wanted), widths, strict=True):
        starts, limits = np.array([page.stored.buffer(0) for page in pages]).T
        counts = [len(page.rows.bounds) for page in pages]
        with pages[0].located():
            offsets, sizes = located(index, np.repeat(width, counts), np.repeat(limits, counts))
        requests.append((pages[0].source, Ranges(offsets + np.repeat(starts, counts), sizes)))
    decoded = []
    for pages, entries in zip(groups, read_together(requests), strict=True):
        with pages[0].located():
            decoded.append(_layout(pages[0]).decoded(entries))
    return decoded


def _layout(page: PageRead) -> FullZipLayout:
    assert isinstance(page.layout, FullZipLayout)
    return page.layout
