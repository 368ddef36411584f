"""Read a field of a fragment whose files have version 2.1 or newer.

Leaf columns have pages of their own, cut at different rows, and may lie in several files. A
segment is a range of rows that lies within one page of every leaf; it becomes one Arrow array, so
that members of a struct are combined without copying:

    field s {a, b}    leaf a   | page 0        | page 1        |
                      leaf b   | page 0   | page 1  | page 2   |
    segments                   |          |    |    |          |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import from_zero
from pilum.container.assemble import assemble, assemble_leaf
from pilum.container.explain import PageExplanation
from pilum.container.packed import members_of
from pilum.container.plain_rows import PlainRows
from pilum.container.reader import Column, FileReader
from pilum.container.segments import FilePart, PagedFieldReader, Segment, read_by_file
from pilum.container.zone_summary import has_zones
from pilum.encodings.base import Decoded, Layout, PageRead
from pilum.encodings.registry import read_pages
from pilum.encodings.structural.constant import (
    ConstantLayout,
    ConstantRows,
    constant_form,
    read_constants,
)
from pilum.encodings.structural.full_zip import FullZipLayout
from pilum.encodings.structural.indexed_pages import indexed_form, read_indexed
from pilum.encodings.structural.known_pages import KnownPage, known_page
from pilum.encodings.structural.mini_block import is_picked, joint_key, read_picked
from pilum.encodings.structural.plain_pages import plain_form, read_plain
from pilum.errors import CorruptFileError
from pilum.format.fields import Field, FieldId
from pilum.format.paths import LeafPath
from pilum.format.rows import BATCH_ROWS, RowRanges
from pilum.format.types import width_bits
from pilum.kernels import Condition
from pilum.lazy import cached_property
from pilum.storage.base import run_plan

if TYPE_CHECKING:
    from pilum.expressions.prune import Zones

__all__ = ["Leaf", "LeafFieldReader", "LeafSegment", "decode_picked", "joint_form"]

_Groups: TypeAlias = "Sequence[Sequence[PageRead]]"
_Reader: TypeAlias = "Callable[[_Groups], list[Decoded]]"

_FIRST_ROW = RowRanges.one(0, 1)
_PAGE_BYTES = 8 * 1024 * 1024
_NARROW_BYTES = 256


class Leaf(NamedTuple):
    """The place of one leaf: a column of a file.

    `members` are all stored members of a packed struct, in the file's order.
    """

    reader: FileReader
    column: Column
    members: tuple[Field, ...] = ()


@dataclass(slots=True)
class LeafSegment(Segment):
    """Some rows of a field that lie within one page of each leaf."""

    field: LeafFieldReader
    kept: pa.BooleanArray | None = None

    @classmethod
    def read_all(cls, segments: Sequence[LeafSegment]) -> list[pa.Array]:
        """Read segments; pages in memory of one form become one array, which is then split."""
        reads = [segment._reads() for segment in segments]
        groups = _joint_groups(segments, reads)
        try:
            return _read_groups(segments, reads, groups)
        except CorruptFileError:
            if len(groups) == len(segments):
                raise
        # Reading each segment on its own names the damaged one.
        return _read_groups(segments, reads, [[place] for place in range(len(segments))])

    @classmethod
    def read_columns(cls, columns: Sequence[Sequence[LeafSegment]]) -> list[list[pa.Array]]:
        """Read some rows of columns; adjacent segments of pages of one form become one array."""
        runs: list[tuple[list[pa.Array], list[LeafSegment], int]] = []
        pages: list[tuple[PageRead, ...]] = []
        found: list[list[pa.Array]] = []
        for segments in columns:
            arrays: list[pa.Array] = []
            found.append(arrays)
            reads = [segment._reads() for segment in segments]
            for own in _joint_runs(segments, reads):
                leaves = list(zip(*[reads[place] for place in own], strict=True))
                runs.append((arrays, [segments[place] for place in own], len(leaves)))
                pages += leaves
        try:
            decoded = decode_picked(pages)
        except CorruptFileError:
            # Reading each segment on its own names the damaged one.
            return [[segment.read() for segment in segments] for segments in columns]
        start = 0
        for arrays, joint, num_leaves in runs:
            rows = list(decoded[start : start + num_leaves])
            start += num_leaves
            arrays.append(joint[0].build(rows, sum(map(_num_rows, joint))))
        return found

    def _reads(self) -> list[PageRead]:
        """Return a read of each leaf."""
        start, rows = self.start, self.rows
        reads = [column.read(start, rows, source) for column, source in self.field.columns]
        if len(reads) > 1:
            for read, num_layers in zip(reads, self.field.num_layers, strict=True):
                read.num_layers = num_layers
        if self.kept is not None:
            bitmap = np.frombuffer(self.kept.buffers()[1], np.uint8)
            for read in reads:
                read.kept = bitmap, self.kept.offset
        return reads

    @property
    def is_mapped(self) -> bool:
        """See `Segment.is_mapped`."""
        return self._is_range and all(read.is_mapped for read in self._reads())

    @property
    def _is_range(self) -> bool:
        return len(self.rows.bounds) == 1 and self.kept is None

    def parts(self, num_parts: int) -> list[LeafSegment]:
        """Split one range of rows, unless its page is stored as it is: such a page is mapped."""
        if not self._is_range or any(read.layout.plain_bytes for read in self._reads()):
            return [self]
        start, stop = self.rows.bounds[0].tolist()
        step = -(-(stop - start) // (num_parts * BATCH_ROWS)) * BATCH_ROWS  # whole batches
        cuts = [*range(start, stop, step), stop]
        ranges = [RowRanges.one(first, last) for first, last in pairwise(cuts)]
        return [LeafSegment(self.field, self.start, rows) for rows in ranges]

    @property
    def num_rows(self) -> int:
        """The number of rows to return."""
        return self.rows.num_rows if self.kept is None else int(self.kept.true_count)

    def keep(self, kept: pa.BooleanArray) -> bool:
        """Restrict the segment to some rows, if all its pages decode single rows."""
        columns = self.field.columns
        if not columns or any(column.elements > 1 for column, _ in columns):
            return False
        if not all(read.layout.keeps_rows for read in self._reads()):
            return False
        self.kept = kept
        return True

    def mask(self, condition: Condition) -> NDArray[np.uint8] | None:
        """Test the rows without decoding them; see `Segment.mask`."""
        if not self.field.has_masks:
            return None
        [page] = self._reads()
        with page.located():
            return run_plan(page.layout.mask(page, condition), page.source)

    def build(self, decoded: list[Decoded], num_rows: int) -> pa.Array:
        """Build the array of `num_rows` rows of the field from the rows of each leaf."""
        own = self.field
        try:
            if own.is_one_leaf:
                return assemble_leaf(own.field, decoded[0], num_rows)
            leaves = {
                number: rows._replace(members=leaf.members) if leaf.members else rows
                for (number, leaf), rows in zip(own.leaves.items(), decoded, strict=True)
            }
            return assemble(own.field, leaves, num_rows)
        except CorruptFileError as error:
            files = {leaf.column.path for leaf in own.leaves.values()}
            where = f"column {own.field.name!r}, rows from {self.start}"
            raise error.at(where).at(", ".join(sorted(files))) from None


_num_rows = attrgetter("num_rows")


def _joint_runs(
    segments: Sequence[LeafSegment], reads: Sequence[list[PageRead]]
) -> list[list[int]]:
    """Group adjacent segments of a column whose pages can be decoded into one array."""
    if len(segments) == 1:
        return [[0]]
    groups: list[list[int]] = []
    last: Hashable = None
    for place, (segment, pages) in enumerate(zip(segments, reads, strict=True)):
        key = _joint_key(place, segment, pages)
        if key == last:
            groups[-1].append(place)
        else:
            groups.append([place])
        last = key
    return groups


def _joint_key(place: int, segment: LeafSegment, pages: Sequence[PageRead]) -> Hashable:
    """Return a key that the segments share whose pages can be decoded into one array."""
    own = segment.field
    if not pages or own.has_members:
        return place
    if len(pages) == 1:
        form = joint_form(pages[0])
        return place if form is None else (id(own.field), own.joint_id, form)
    forms = [joint_form(page) for page in pages]
    return place if None in forms else (id(own.field), own.joint_id, *forms)


def joint_form(page: PageRead) -> Hashable | None:
    """Return a value that pages share which one call can decode into one array; None for others."""
    if (form := joint_key(page)) is not None:
        return form
    for form_of, _ in _READERS.get(type(page.layout), ()):
        if (form := form_of(page)) is not None:
            return form
    return None


def _joint_groups(
    segments: Sequence[LeafSegment], reads: Sequence[list[PageRead]]
) -> list[list[int]]:
    """Group the segments whose pages can be decoded into one array: the same leaves of one field.

    Reading one segment of a small file in memory costs nearly as much as reading many.
    """
    if len(segments) == 1:
        return [[0]]
    groups: dict[Hashable, list[int]] = {}
    for place, (segment, pages) in enumerate(zip(segments, reads, strict=True)):
        is_in_memory = bool(pages) and pages[0].memory is not None
        key = _joint_key(place, segment, pages) if is_in_memory else place
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _read_groups(
    segments: Sequence[LeafSegment], reads: Sequence[list[PageRead]], groups: list[list[int]]
) -> list[pa.Array]:
    """Read groups of segments, each into one array, and return the array of each segment."""
    pages = [
        pages for group in groups for pages in zip(*[reads[place] for place in group], strict=True)
    ]
    decoded = iter(_decode_all(pages))
    arrays: list[pa.Array] = [None] * len(segments)
    for group in groups:
        first = segments[group[0]]
        rows = [next(decoded) for _ in reads[group[0]]]
        if len(group) == 1:
            arrays[group[0]] = first.build(rows, first.num_rows)
            continue
        counts = [segments[place].num_rows for place in group]
        whole, start = first.build(rows, sum(counts)), 0
        for place, count in zip(group, counts, strict=True):
            arrays[place] = from_zero(whole.slice(start, count))
            start += count
    return arrays


def _decode_all(groups: _Groups) -> Sequence[Decoded]:
    """Read groups of pages, each into one array; groups of several pages are in memory."""
    return _decode_by(groups, lambda page: None if page.memory is None else _joint_reader(page))


def decode_picked(groups: _Groups) -> Sequence[Decoded]:
    """Read groups of pages of local files, each into one array; those of a group have one form."""
    return _decode_by(groups, _joint_reader)


def _joint_reader(page: PageRead) -> _Reader | None:
    """Return what reads groups of pages like this one; None if it is read by itself."""
    if is_picked(page):
        return read_picked
    for form_of, reader in _READERS.get(type(page.layout), ()):
        if form_of(page) is not None:
            return reader
    return None


_READERS: dict[type[Layout], tuple[tuple[Callable[[PageRead], Hashable | None], _Reader], ...]] = {
    ConstantLayout: ((constant_form, read_constants),),
    FullZipLayout: ((plain_form, read_plain), (indexed_form, read_indexed)),
}
"""What reads groups of pages, and the form that they share."""


def _decode_by(groups: _Groups, reader_of: Callable[[PageRead], _Reader | None]) -> list[Decoded]:
    """Read groups of pages; those without a reader of groups are single pages."""
    readers = [reader_of(pages[0]) for pages in groups]
    kinds = set(readers)
    if len(kinds) == 1:
        return (kinds.pop() or _read_alone)(groups)
    decoded: dict[int, Decoded] = {}
    for reader in kinds:
        places = [place for place, one in enumerate(readers) if one is reader]
        found = (reader or _read_alone)([groups[place] for place in places])
        decoded.update(zip(places, found, strict=True))
    return [decoded[place] for place in range(len(groups))]


def _read_alone(groups: _Groups) -> list[Decoded]:
    """Read groups of one page each."""
    return read_by_file([(pages[0].source, pages[0]) for pages in groups], read_pages)


class LeafFieldReader(PagedFieldReader):
    """One field of a fragment, with only the projected members.

    Attributes:
        leaves: The places of its leaves; leaves that are in no file are left out and read as null.
        is_one_leaf: Whether it is a single leaf that is in some file.
        columns: The column of each leaf, with its file.
        num_layers: How many inner-most layers each leaf supplies.
        has_members: Whether a leaf is a packed struct.
        joint_id: A value that two readers of one field share if they have the same leaves.
        has_other_pages: Whether rows were read of a page that is not known, plain or constant.
    """

    segment = LeafSegment

    def __init__(self, field: Field, leaves: Mapping[FieldId, Leaf], num_rows: int) -> None:
        self.field = field
        self.leaves = leaves
        self.is_one_leaf = field.id in self.leaves and not field.children
        self.columns = [(leaf.column, leaf.reader.source) for leaf in leaves.values()]
        self.has_members = bool(field.children) and any(leaf.members for leaf in leaves.values())
        self.joint_id = field.id if self.is_one_leaf else tuple(leaves)
        self.num_layers = _num_layers(field, leaves) if len(leaves) > 1 else []
        self.num_rows = num_rows
        self._bytes_per_row: float | None = None
        self.has_other_pages = False
        self._known: dict[int, KnownPage | None] = {}
        self.cuts = self._page_bounds()

    @classmethod
    def of(cls, field: Field, parts: Sequence[FilePart], num_rows: int) -> LeafFieldReader:
        """Find the leaves of a field in files; see `pilum.container.open.field_reader`."""
        leaves: dict[FieldId, Leaf] = {}
        for leaf in (field,) if field.is_leaf else field.leaves():
            for part in parts:
                number = part.columns.get(leaf.id)
                if number is not None:
                    assert isinstance(part.reader, FileReader)
                    column = part.reader.column(number)
                    _require_rows(column, num_rows)
                    members = members_of(leaf, part.reader) if leaf.children else ()
                    leaves[leaf.id] = Leaf(part.reader, column, members)
                    break
        return cls(field, leaves, num_rows)

    def _page_bounds(self) -> NDArray[np.int64]:
        """Return the rows at which a page of any leaf begins, and the end."""
        if len(self.columns) == 1:
            return self.columns[0][0].row_bounds
        bounds = [column.row_bounds for column, _ in self.columns]
        return np.unique(np.concatenate(bounds)) if bounds else np.array([0, self.num_rows])

    def known_page(self, number: int) -> KnownPage | None:
        """Return the page that begins at a cut; None if few rows of it are not read by themselves.

        Pages are kept, as everything is that is known of the file.
        """
        if number not in self._known:
            page = None
            if self.is_one_leaf and not self.has_members and self.columns[0][0].elements == 1:
                [(column, source)] = self.columns
                page = known_page(column.read(self.page_cuts[number], _FIRST_ROW, source))
            self._known[number] = page
        return self._known[number]

    @cached_property
    def constant(self) -> ConstantRows | None:
        """The value of all rows if the field has one page, with one value or nulls only."""
        if not self.is_one_leaf or self.has_members:
            return None
        [(column, source)] = self.columns
        if column.num_pages != 1 or column.elements > 1:
            return None
        layout = column.layout(0)
        if not isinstance(layout, ConstantLayout):
            return None
        return layout.without_levels(column.entries[0][0], source)

    @cached_property
    def members(self) -> list[LeafFieldReader]:
        """The readers of the members of a struct of leaves; the field itself if it is a leaf.

        None of them for any other field, and if a member is in no file.
        """
        if self.is_one_leaf:
            return [self]
        children, known = self.field.children, self.leaves
        is_plain = self.field.is_struct and not self.has_members
        if not is_plain or any(child.children or child.id not in known for child in children):
            return []
        return [type(self)(child, {child.id: known[child.id]}, self.num_rows) for child in children]

    @property
    def has_masks(self) -> bool:
        """Whether pages of the field may be tested without decoding them: it has one leaf."""
        return len(self.columns) == 1 and not self.has_members and self.columns[0][0].elements == 1

    @cached_property
    def has_dictionary(self) -> bool:
        """See `FieldReader.has_dictionary`."""
        if not self.has_masks:
            return False
        [(column, _)] = self.columns
        return column.num_pages > 0 and column.layout(0).has_dictionary

    def zones(self, path: tuple[str, ...]) -> Zones | None:
        """See `FieldReader.zones`; members of structs have none."""
        if path or not self.is_one_leaf or self.has_members:
            return None
        [(column, source)] = self.columns
        if not (column.has_buffers and has_zones(self.field)):
            return None
        return column.zones(self.field.arrow_type, source)

    def plain_values(self, rows: NDArray[np.int64]) -> NDArray[np.uint8] | None:
        """See `FieldReader.plain_values`."""
        offsets = None if self.plain is None else self.plain.offsets(rows)
        return None if self.plain is None or offsets is None else self.plain.fetch(offsets)

    @cached_property
    def plain(self) -> PlainRows | None:
        """The rows of pages that store values of fixed width as they are; None for other types."""
        width = width_bits(self.field.arrow_type)
        if not self.is_one_leaf or self.has_members or width is None or width % 8:
            return None
        [(column, source)] = self.columns
        return PlainRows(column, source, width // 8)

    @property
    def bytes_per_row(self) -> float:
        """The approximate mean bytes of a row in memory; at least its stored bytes."""
        if self._bytes_per_row is None:
            self._bytes_per_row = self._average_bytes()
        return self._bytes_per_row

    def _average_bytes(self) -> float:
        total = 0.0
        for field in self.field.leaves():
            leaf = self.leaves.get(field.id)
            if leaf is not None:
                total += _memory_bytes(field.arrow_type, leaf.column)
        return total / max(self.num_rows, 1)

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of all leaves."""
        for path in self.field.leaf_paths():
            leaf = self.leaves.get(path[-1].id)
            if leaf is not None:
                column = ".".join(field.name for field in path)
                yield from leaf.column.explain(column, path[-1].arrow_type)


def _num_layers(field: Field, leaves: Mapping[FieldId, Leaf]) -> list[int]:
    """Return how many inner-most layers each leaf supplies, in the order of the leaves.

    A layer is supplied by its first leaf in a file, see `pilum.container.assemble`.
    """
    found: list[int] = []
    last: LeafPath = ()
    for path in field.leaf_paths():
        if path[-1].id in leaves:
            shared = sum(1 for one, other in zip(path, last, strict=False) if one is other)
            found.append(len(path) - shared)
            last = path
    return found


def _require_rows(column: Column, num_rows: int) -> None:
    found = column.row_bounds[-1]
    if found != num_rows:
        raise CorruptFileError(
            f"rows: expected {num_rows}, found {found}", f"column {column.index}", column.path
        )


def _memory_bytes(kind: pa.DataType, column: Column) -> float:
    """Estimate the bytes of all values of a leaf in memory: zeros are stored in almost none."""
    width = width_bits(kind)
    if width is None:
        # Writers cut pages by the uncompressed size of their values; only values that are stored
        # uncompressed are longer than the others.
        full = (column.num_pages - 1) * _PAGE_BYTES
        stored = column.stored_bytes
        return max(stored, min(full, column.num_values * _NARROW_BYTES)) if full else stored
    return max(column.stored_bytes, column.num_values * width / 8)
