"""The batches of a legacy file: their boundaries, and the pages of many of them at once.

    rows_per_group 4      0   4   8   12 …       a new fragment
    bounds                0   3   10  12         one more file of a fragment: like its other files

Readers of the format read all files of a fragment batch by batch. Source:
docs/format/legacy.md, "Several files".

A batch has only about a thousand rows. So the rows of a run of batches are encoded as one piece per
field; `cuts` holds the batch boundaries. The bytes are then interleaved batch by batch, in file
order:

    field a    aaaa aaaa aa
    field b    bb   bb   b         ->    aaaa bb aaaa bb aa b

Positions follow from the sizes. Var-binary pages are two pieces, as their offsets are positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from pilum.container.legacy.page_kinds import (
    Unified,
    encode_offsets,
    encode_plain,
    encode_var_binary,
    is_var_binary,
    items_per_value,
)
from pilum.errors import InvalidInputError
from pilum.format.fields import Field, FieldId

__all__ = ["Grouping", "PageRun", "encode_pages", "lay_out"]

_Cuts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The ends of batches: of `rows` rows each, or at the given bounds.

    `bounds` has the first row of each batch and the end, int64; None if all have one size.
    """

    rows: int
    bounds: NDArray[np.int64] | None = None

    def end_behind(self, row: int) -> int:
        """Return the first batch end after a row; raise InvalidInputError if there is none."""
        if self.bounds is None:
            return (row // self.rows + 1) * self.rows
        at = int(np.searchsorted(self.bounds, row, "right"))
        if at == len(self.bounds):
            raise InvalidInputError(f"more than {row} rows; the fragment has {row}")
        return int(self.bounds[at])

    def end_until(self, row: int) -> int:
        """Return the last batch end at or before a row."""
        if self.bounds is None:
            return row // self.rows * self.rows
        return int(self.bounds[np.searchsorted(self.bounds, row, "right") - 1])

    def cuts(self, first: int, num_rows: int) -> NDArray[np.int64]:
        """Return the bounds of the batches of rows from `first` on, counted from there."""
        if self.bounds is None:
            return np.append(np.arange(0, num_rows, self.rows), num_rows)
        # Empty batches count, too: a bound that is repeated is kept every time.
        low = int(np.searchsorted(self.bounds, first, "right")) if first else 1
        high = int(np.searchsorted(self.bounds, first + num_rows, "right"))
        inner = self.bounds[low:high] - first
        last = [num_rows] if not len(inner) or inner[-1] < num_rows else []
        return np.concatenate([[0], inner, last]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class PageRun:
    """The pages of one field in a run of batches.

    Attributes:
        field_id: Id of the field.
        lengths: int64, shape (batches,), their lengths in the page table.
        data: The bytes of all pages (of var-binary pages, the part before the offsets).
        sizes: int64, shape (batches,), the number of these bytes in each batch.
        offsets: For var-binary pages, the offsets of all values in `data`, int64, and the cuts;
            else None.
    """

    field_id: FieldId
    lengths: NDArray[np.int64]
    data: Any
    sizes: NDArray[np.int64]
    offsets: tuple[NDArray[np.int64], _Cuts] | None = None


def encode_pages(
    field: Field, array: pa.Array, cuts: _Cuts, dictionaries: Mapping[FieldId, Unified]
) -> Iterator[PageRun]:
    """Encode the pages of a field and of each field below it, for all batches of a run.

    `cuts` are int64, shape (batches + 1,), from 0 to the length of the array; the dictionaries of
    dictionary fields are by field id.

    Raises:
        InvalidInputError: If a dictionary has more values than keys.
    """
    lengths = np.diff(cuts)
    if field.is_struct:
        for index, child in enumerate(field.children):
            yield from encode_pages(child, array.field(index), cuts, dictionaries)
    elif field.is_list:
        offsets, items = encode_offsets(array)
        width = 8 if pt.is_large_list(array.type) else 4
        pages = _of_pages(offsets, cuts, np.zeros_like(lengths)).astype(f"<i{width}")
        yield PageRun(field.id, lengths + 1, pages, (lengths + 1) * width)
        yield from encode_pages(field.item, items, offsets[cuts], dictionaries)
    elif is_var_binary(array.type):
        data, offsets = encode_var_binary(array)
        yield PageRun(field.id, lengths, data, np.diff(offsets[cuts]), (offsets, cuts))
    elif pt.is_null(array.type):
        yield PageRun(field.id, lengths, b"", np.zeros_like(lengths))
    else:
        if pt.is_dictionary(array.type):
            array = dictionaries[field.id].keys(array, field.name)
        yield PageRun(field.id, lengths, *_plain(array, cuts))


def _of_pages(
    offsets: NDArray[np.int64], cuts: _Cuts, starts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the offsets of each page, one page after another, relative to the page start."""
    pages = np.empty(int(cuts[-1]) + len(starts), np.int64)
    shifts = (starts - offsets[cuts[:-1]]).tolist()
    for number, ((first, last), shift) in enumerate(
        zip(pairwise(cuts.tolist()), shifts, strict=True)
    ):
        page = pages[first + number : last + number + 1]
        np.add(offsets[first : last + 1], shift, out=page)
    return pages


def _plain(array: pa.Array, cuts: _Cuts) -> tuple[Any, NDArray[np.int64]]:
    item, count = items_per_value(array.type)
    bits = int(item.bit_width) * count
    if ((cuts[1:-1] * bits) % 8).any():  # each page begins at a byte boundary
        pages = [encode_plain(array.slice(start, end - start)) for start, end in pairwise(cuts)]
        return b"".join(pages), np.array([len(page) for page in pages], np.int64)
    return encode_plain(array), (np.diff(cuts) * bits + 7) // 8


def lay_out(runs: Sequence[PageRun], position: int) -> tuple[NDArray[np.int64], Any]:
    """Interleave the bytes of some fields, batch by batch, for a position in the file.

    Returns:
        The positions of the pages, int64, shape (batches, runs), and the bytes.
    """
    sizes: NDArray[np.int64] = np.stack(
        [size for run in runs for size in _piece_sizes(run)], axis=1
    )
    starts: NDArray[np.int64] = position + np.cumsum(sizes).reshape(sizes.shape) - sizes
    pieces: list[Any] = []
    pages = []
    for run in runs:
        start = starts[:, len(pieces)]
        pieces.append(run.data)
        if run.offsets is not None:
            pieces.append(_of_pages(*run.offsets, start).astype("<i8", copy=False))
        pages.append(len(pieces) - 1)
    return starts[:, pages], _dealt_out(pieces, sizes)


def _piece_sizes(run: PageRun) -> list[NDArray[np.int64]]:
    return [run.sizes] if run.offsets is None else [run.sizes, (run.lengths + 1) * 8]


def _dealt_out(pieces: list[Any], sizes: NDArray[np.int64]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    ends = np.cumsum(sizes, axis=0)
    shares = [
        [view[start:end] for start, end in zip((own - size).tolist(), own.tolist(), strict=True)]
        for view, own, size in zip(map(_view, pieces), ends.T, sizes.T, strict=True)
    ]
    return b"".join([share for batch in zip(*shares, strict=True) for share in batch])


def _view(data: Any) -> memoryview:
    view = memoryview(data)
    # A view without bytes cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")
