"""Read a field of several small files together: all files are in memory, and written alike.

    file 0    | page |
    file 1    | page |    adjacent pages of one form are decoded by one call, into one array
    file 2    | page |

Reading a page by itself takes several times as long as decoding its few rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby, pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.container.explain import PageExplanation
from pilum.container.fields import LeafFieldReader, LeafSegment, decode_picked, joint_form
from pilum.container.reader import FileReader
from pilum.container.segments import FieldReader, Segment, read_segments
from pilum.encodings.base import Decoded, PageRead
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges

__all__ = ["JoinedFieldReader"]

_whole = lru_cache(maxsize=256)(RowRanges.one)


@dataclass(slots=True)
class JoinedSegment(Segment):
    """All rows of a field in adjacent files whose pages have one form.

    Attributes:
        pages: The pages of each leaf, file by file.
        first: The number of the first fragment.
        num_stored: The number of rows of the pages; only some of them may be selected.
    """

    field: JoinedFieldReader
    pages: list[tuple[PageRead, ...]]
    first: int
    num_stored: int

    @classmethod
    def read_all(cls, segments: Sequence[JoinedSegment]) -> list[pa.Array]:
        """Read segments, each into one array."""
        try:
            decoded = iter(decode_picked([pages for one in segments for pages in one.pages]))
            arrays = [one._build([next(decoded) for _ in one.pages]) for one in segments]
        except CorruptFileError:
            # Reading each file on its own names the damaged one.
            arrays = [one._read_alone() for one in segments]
        return [
            array if len(array) == one.rows.num_rows else array.take(pa.array(one.rows.rows()))
            for one, array in zip(segments, arrays, strict=True)
        ]

    def _build(self, decoded: list[Decoded]) -> pa.Array:
        whole = LeafSegment(self.field.first, self.start, self.rows)
        return whole.build(decoded, self.num_stored)

    def _read_alone(self) -> pa.Array:
        every = [
            segment
            for number, page in enumerate(self.pages[0], self.first)
            for segment in self.field.alone(number).segments(page.rows)
        ]
        return pa.concat_arrays(read_segments(every))


class JoinedFieldReader(FieldReader):
    """One field of files that are in memory, whose rows follow each other.

    Attributes:
        first: The field in the first of them.
        alone: Returns the field in one of them.

    Args:
        files: The open files of each fragment; those of one fragment have the same rows.
        bounds: int64, shape (fragments + 1,), the first row of each fragment, and the end.
    """

    def __init__(
        self,
        first: LeafFieldReader,
        files: Sequence[Sequence[FileReader]],
        bounds: NDArray[np.int64],
        alone: Callable[[int], FieldReader],
    ) -> None:
        self.field = first.field
        self.num_rows = int(bounds[-1])
        self.first = first
        self.alone = alone
        self._files = files
        self._bounds = bounds
        self._columns = [
            (files[0].index(leaf.reader), leaf.column.index) for leaf in first.leaves.values()
        ]

    @property
    def bytes_per_row(self) -> float:
        """See `FieldReader.bytes_per_row`; the files are similar."""
        return self.first.bytes_per_row

    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Split rows where the form of pages changes; selected rows are read file by file."""
        if not self.first.columns:  # in no file
            yield LeafSegment(self.first, 0, rows)
            return
        if rows.covers(self.num_rows) and self._can_join:
            yield from self._joined()
            return
        starts = self._bounds.tolist()
        for start, wanted in rows.split(self._bounds):
            yield from self.alone(starts.index(start)).segments(wanted)

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of all files."""
        every = (self.alone(number).explain() for number in range(len(self._files)))
        return chain.from_iterable(every)

    @property
    def _can_join(self) -> bool:
        is_plain = not self.first.has_members
        return is_plain and all(column.elements == 1 for column, _ in self.first.columns)

    def _joined(self) -> Iterator[Segment]:
        bounds = self._bounds.tolist()
        counts = [stop - start for start, stop in pairwise(bounds)]
        reads = [self._pages(*each) for each in zip(self._files, counts, strict=True)]
        forms = [_form(pages) or number for number, pages in enumerate(reads)]
        for form, group in groupby(range(len(forms)), forms.__getitem__):
            first, *more = group
            if isinstance(form, int):  # a page that is not joined with others
                yield from self.alone(first).segments(_whole(0, counts[first]))
                continue
            stop = first + len(more) + 1
            pages = list(zip(*reads[first:stop], strict=True))
            num_rows = bounds[stop] - bounds[first]
            yield JoinedSegment(self, bounds[first], _whole(0, num_rows), pages, first, num_rows)

    def _pages(self, files: Sequence[FileReader], num_rows: int) -> list[PageRead]:
        """Return the page of each leaf, of one fragment; nothing if a leaf has several pages."""
        every, found = _whole(0, num_rows), []
        for part, column in self._columns:
            file = files[part]
            known = file.pages(column)
            if known.num_rows != num_rows or len(known.entries) != 1:
                return []
            layout = known.layouts[0] or file.layout(column, 0)
            found.append(PageRead(layout, known.entries[0][0], every, file.source, column))
        for page, num_layers in zip(found, self.first.num_layers, strict=False):
            page.num_layers = num_layers
        return found


def _form(pages: Sequence[PageRead]) -> tuple[Hashable, ...]:
    """Return a value that pages of all leaves share if they can be joined; empty for others."""
    forms = tuple([joint_form(page) for page in pages])
    return () if None in forms else forms
