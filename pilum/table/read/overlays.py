"""Cells with values from overlays, in place of those of the data files: the one place for them.

    field of the fragment     0  1  2  3  4  5
    overlay of version 5         ●  ●                  ranks 0 1
    overlay of version 4      ●     ●     ●            ranks 0 1 2
    value from                4  5  5  –  4  –

For every part of a field whose values are replaced as a whole, the overlay and the rank of each
covered row are found once. A segment then reads the rows of the data files and those of the
overlays that it needs together, and puts them in order. The parts of a struct are those of its
members: whether the struct itself is null is never replaced. Rows are physical ones, so that
deleted rows stay deleted. Source: docs/format/table.md, "Overlays".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import join_arrays, taken
from pilum.blocks import number_array
from pilum.container.explain import PageExplanation
from pilum.container.open import field_reader
from pilum.container.segments import FieldReader, FilePart, Segment, read_segments
from pilum.errors import CorruptFileError, UnsupportedFeatureError
from pilum.format.fields import Field
from pilum.format.rows import RowRanges
from pilum.table.model.fragment import OverlayFile

__all__ = ["OverlaidFieldReader", "overlaid"]

_OpenPart = Callable[[OverlayFile, Field, int], FilePart]
"""Function that opens the columns of an overlay for a field, given their number of rows."""


def overlaid(
    base: FieldReader, overlays: Sequence[OverlayFile], open_part: _OpenPart
) -> FieldReader:
    """Return a reader of a field with the values of overlays; `base` if they have none of it.

    Args:
        base: The field in the data files of a fragment.
        overlays: The overlays of the fragment, as the manifest lists them.
        open_part: Opens an overlay.

    Raises:
        CorruptFileError: If an overlay is damaged.
        UnsupportedFeatureError: If an overlay has blobs, or only some members of a list.
    """
    newest_first = sorted(overlays, key=lambda one: one.committed_version)[::-1]
    # Among overlays of one version, the last in the list is the newest: the sort is stable.
    cells = [
        found
        for path in _replaced_paths((base.field,))
        if (found := _cells(base, path, newest_first, open_part)) is not None
    ]
    return OverlaidFieldReader(base, cells) if cells else base


def _replaced_paths(above: tuple[Field, ...]) -> Iterator[tuple[Field, ...]]:
    """Yield the paths to the parts of a field whose values are replaced as a whole."""
    field = above[-1]
    if field.is_leaf or not field.is_struct:
        yield above
        return
    for child in field.children:
        yield from _replaced_paths((*above, child))


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """The covered rows of a part of a field.

    Attributes:
        places: The place of the part among the members of each struct above it.
        rows: The covered physical rows, ascending, uint32.
        overlay: For each of them, the number of the overlay with its value, int64.
        rank: The row of that overlay, int64.
        readers: The readers of the overlays, with only this part of the field.
    """

    places: tuple[int, ...]
    rows: NDArray[np.uint32]
    overlay: NDArray[np.int64]
    rank: NDArray[np.int64]
    readers: tuple[FieldReader, ...]

    def needed(self, rows: NDArray[np.int64]) -> Iterator[_Values]:
        """Yield the values that replace those of ascending physical rows."""
        first, last = np.searchsorted(self.rows, (rows[0], rows[-1] + 1)) if len(rows) else (0, 0)
        covered = self.rows[first:last].astype(np.int64)
        at = np.searchsorted(rows, covered)
        is_there = rows[np.minimum(at, len(rows) - 1)] == covered
        at, overlay = at[is_there], self.overlay[first:last][is_there]
        rank = self.rank[first:last][is_there]
        for number in np.unique(overlay).tolist():
            own = overlay == number
            wanted = RowRanges.of_rows(rank[own])
            yield _Values(self, at[own], list(self.readers[number].segments(wanted)))


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Values of one overlay, and the places in a segment that they belong to."""

    cells: _Cells
    at: NDArray[np.int64]
    segments: list[Segment]


def _cells(
    base: FieldReader,
    path: tuple[Field, ...],
    overlays: Sequence[OverlayFile],
    open_part: _OpenPart,
) -> _Cells | None:
    """Find the value of each covered row of a part of a field; None if no overlay has it."""
    part = path[-1]
    own = [one for one in overlays if one.covers(part.ids)]
    if not own:
        return None
    if any(field.is_blob for field in part.walk()):
        raise UnsupportedFeatureError(
            f"column {base.field.name!r}: the overlay {own[0].file.path} has blobs, which other "
            "readers of the format ignore; write blobs with update or merge_insert"
        )
    top = base.field.project([tuple(field.name for field in path[1:])])
    covered = [_covered(one, part, base.num_rows) for one in own]
    rows = np.concatenate(covered)
    counts = np.array([len(one) for one in covered], np.int64)
    order = np.argsort(rows, kind="stable")
    is_newest = np.ones(len(order), np.bool_)
    is_newest[1:] = rows[order[1:]] != rows[order[:-1]]
    chosen = order[is_newest]
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    return _Cells(
        tuple(above.children.index(below) for above, below in pairwise(path)),
        rows[chosen],
        np.repeat(np.arange(len(own)), counts)[chosen],
        chosen - starts[chosen],
        tuple(
            field_reader(top, [open_part(one, top, count)], count)
            for one, count in zip(own, counts.tolist(), strict=True)
        ),
    )


def _covered(overlay: OverlayFile, part: Field, num_rows: int) -> NDArray[np.uint32]:
    """Return the rows with values of a part of a field, which has one bitmap for all its leaves."""
    leaves = [leaf.id for leaf in part.leaves()]
    listed = [number for number in part.ids if number in overlay.file.fields]
    if part.id not in listed and not set(leaves) <= set(listed):
        raise UnsupportedFeatureError(
            f"column {part.name!r}: the overlay {overlay.file.path} has only some of the members "
            "of its lists; an overlay replaces lists as a whole"
        )
    rows = overlay.rows_of(listed[0], num_rows)
    if any(not np.array_equal(rows, overlay.rows_of(number, num_rows)) for number in listed[1:]):
        raise CorruptFileError(
            f"column {part.name!r}: its members have values in different rows",
            f"overlay {overlay.file.path}",
        )
    return rows


@dataclass(slots=True)
class OverlaidSegment(Segment):
    """Some rows of a field that its data files store together."""

    field: OverlaidFieldReader
    base: Segment

    @classmethod
    def read_all(cls, segments: Sequence[OverlaidSegment]) -> list[pa.Array]:
        """Read segments with the values of the overlays that they need."""
        for segment in segments:
            segment.base.rows = segment.rows
        needed = [
            list(segment.field.needed(segment.rows.rows(segment.start))) for segment in segments
        ]
        wanted = [segment.base for segment in segments]
        wanted += [one for values in needed for part in values for one in part.segments]
        arrays = read_segments(wanted)
        others = iter(arrays[len(segments) :])
        return [
            _with_values(array, segment.field.field, values, others)
            for array, segment, values in zip(arrays, segments, needed, strict=False)
        ]


def _with_values(
    array: pa.Array, field: Field, needed: Sequence[_Values], read: Iterator[pa.Array]
) -> pa.Array:
    """Return the rows of a segment with other values at some places."""
    what = f"column {field.name!r}"
    for values in needed:
        own = [_member(next(read), len(values.cells.places)) for _ in values.segments]
        array = _replaced(array, values.cells.places, values.at, own, what)
    return array


def _member(array: pa.Array, depth: int) -> pa.Array:
    """Return the only member of structs in each other, null where one of them is."""
    for _ in range(depth):
        [array] = array.flatten()
    return array


def _replaced(
    array: pa.Array,
    places: tuple[int, ...],
    at: NDArray[np.int64],
    values: list[pa.Array],
    what: str,
) -> pa.Array:
    """Return the rows with other values at places; the array is a struct if it has members."""
    if places:
        members = [array.field(number) for number in range(array.type.num_fields)]
        members[places[0]] = _replaced(members[places[0]], places[1:], at, values, what)
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(members, fields=list(array.type), mask=mask)
    order = np.arange(len(array))
    order[at] = np.arange(len(array), len(array) + len(at))
    return taken(join_arrays([array, *values], what), number_array(order))


class OverlaidFieldReader(FieldReader):
    """A field of a fragment of which some values are in overlays."""

    def __init__(self, base: FieldReader, cells: Sequence[_Cells]) -> None:
        self.field = base.field
        self.num_rows = base.num_rows
        self._base = base
        self._cells = cells

    @property
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory, as that of the data files."""
        return self._base.bytes_per_row

    @property
    def held_bytes(self) -> int:
        """The approximate size of the covered rows in memory."""
        return sum(one.rows.nbytes + one.overlay.nbytes + one.rank.nbytes for one in self._cells)

    def segments(self, rows: RowRanges) -> Iterator[Segment]:
        """Split rows of the fragment as the data files do."""
        for base in self._base.segments(rows):
            yield OverlaidSegment(self, base.start, base.rows, base)

    def needed(self, rows: NDArray[np.int64]) -> Iterator[_Values]:
        """Yield the values that replace those of ascending physical rows."""
        for cells in self._cells:
            yield from cells.needed(rows)

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of the data files, then those of the overlays."""
        yield from self._base.explain()
        for cells in self._cells:
            for reader in cells.readers:
                yield from reader.explain()
