"""Some rows of full-zip pages that store values as they are, of several pages at once.

    pages of a column ──▶ the places of their rows ──▶ one read of each file ──▶ the values, joined

Rows that lie close together, and pages that are read as a whole, are left to `FullZipLayout.read`,
which may return them without a copy.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.encodings.base import Decoded, PageRead, demand
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.storage.base import Ranges, Source, read_together

__all__ = ["plain_form", "read_plain"]


def plain_form(page: PageRead) -> Hashable | None:
    """Return a value that pages share whose rows can become one array.

    None for pages that `read_plain` does not read.
    """
    layout = page.layout
    if not isinstance(layout, FullZipLayout) or page.is_whole:
        return None
    if layout.plain_bytes is None or layout.are_dense(page.rows):
        return None
    return FullZipLayout, layout.values, layout.layers


def read_plain(groups: Sequence[Sequence[PageRead]]) -> list[Decoded]:
    """Read rows of groups of pages of local files, each group into one array.

    Pages of a group have equal forms (`plain_form`).

    Raises:
        CorruptFileError: If a page is damaged.
    """
    runs = [
        [list(run) for _, run in groupby(group, lambda page: id(page.source))] for group in groups
    ]
    fetched = iter(read_together([_request(run) for own in runs for run in own]))
    decoded = []
    for own in runs:
        layout = _layout(own[0][0])
        parts: list[NDArray[Any]] = []
        for _ in own:
            found = next(fetched)
            places = np.column_stack((found.starts, found.sizes))
            [values], _, _ = layout.page.decode(found.data, places)
            parts.append(values)
        data: NDArray[Any] = np.concatenate(parts) if len(parts) > 1 else parts[0]
        num_rows = sum([page.rows.num_rows for run in own for page in run])
        decoded.append(layout.as_they_are(data, num_rows))
    return decoded


def _request(pages: Sequence[PageRead]) -> tuple[Source, Ranges]:
    """Return the places of the rows of pages of one file."""
    stride = _layout(pages[0]).stride
    starts, counts = [], []
    for page in pages:
        with page.located():
            start, size = page.stored.buffer(0)
            num_bytes = int(page.rows.bounds[-1, 1]) * stride
            demand(num_bytes <= size, f"full-zip: {size} bytes of rows")
        starts.append(start)
        counts.append(len(page.rows.bounds))
    bounds = np.concatenate([page.rows.bounds for page in pages]) * stride
    offsets = bounds[:, 0] + np.repeat(starts, counts)
    return pages[0].source, Ranges(offsets, bounds[:, 1] - bounds[:, 0])


def _layout(page: PageRead) -> FullZipLayout:
    assert isinstance(page.layout, FullZipLayout)
    return page.layout
