"""Read a field of a fragment whose files are legacy files.

A segment holds some megabytes of rows from many batches and is read with one plan per file. Members
of a struct may be in files of their own. Source: docs/format/legacy.md, "Reading".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pilum.container.explain import PageExplanation
from pilum.container.legacy.file import LegacyFile, explain_field, page_owners, read_field
from pilum.container.legacy.page_kinds import is_var_binary, width_bits
from pilum.container.legacy.pages import Pages
from pilum.container.legacy.statistics import read_zones
from pilum.container.segments import FieldReader, FilePart, Segment, read_by_file
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.expressions.prune import Zones
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.lazy import cached_property
from pilum.storage.base import Plan, gather

__all__ = ["LegacyFieldReader"]

_SEGMENT_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Part:
    """The part of a field that one file supplies: pages and dictionaries by field id."""

    file: LegacyFile
    pages: Mapping[int, Pages]
    dictionaries: Mapping[FieldId, pa.Array]

    def read(self, field: Field, rows: RowRanges) -> Plan[pa.Array]:
        try:
            slots = self.file.slots(rows)
            return (yield from read_field(field, self.pages, self.dictionaries, slots))
        except CorruptFileError as error:
            raise error.at(self.file.source.path) from None


@dataclass(slots=True)
class LegacySegment(Segment):
    """Some rows of a field, counted from the start of the fragment."""

    field: LegacyFieldReader

    @classmethod
    def read_all(cls, segments: Sequence[LegacySegment]) -> list[pa.Array]:
        """Read segments with one plan per part, all parts of a file in lockstep."""
        plans = [
            (part.file.source, part.read(segment.field.field, segment.rows))
            for segment in segments
            for part in segment.field.parts
        ]
        found = iter(read_by_file(plans, gather))
        return [
            _merged(
                segment.field.field,
                [(frozenset(part.pages), next(found)) for part in segment.field.parts],
            )
            for segment in segments
        ]


class LegacyFieldReader(FieldReader):
    """One field of a fragment, with only the projected members, from the files with parts of it."""

    def __init__(self, field: Field, parts: Sequence[_Part], num_rows: int) -> None:
        self.field = field
        self.parts = parts
        self.num_rows = num_rows

    @classmethod
    def of(cls, field: Field, parts: Sequence[FilePart], num_rows: int) -> LegacyFieldReader:
        """Find the pages of a field in files; see `pilum.container.open.field_reader`."""
        return cls(field, [_part(field, part) for part in parts], num_rows)

    @cached_property
    def bytes_per_row(self) -> float:
        """The approximate bytes of a row in memory; strings count as if nothing else was stored."""
        total = 0.0
        for part in self.parts:
            owned = [owner for owner in page_owners(self.field) if owner.id in part.pages]
            fixed = sum(_fixed_bytes(owner, part.pages[owner.id]) for owner in owned)
            strings = any(is_var_binary(owner.arrow_type) for owner in owned)
            total += max(fixed, part.file.source.size) if strings else fixed
        return total / max(self.num_rows, 1)

    def segments(self, rows: RowRanges) -> Iterator[LegacySegment]:
        """Split large numbers of rows at batch boundaries."""
        if rows.num_rows * self.bytes_per_row <= _SEGMENT_BYTES:
            if len(rows.bounds):
                yield LegacySegment(self, 0, rows)
            return
        step = _SEGMENT_BYTES / self.bytes_per_row
        bounds = self.parts[0].file.metadata.batch_bounds
        cuts = bounds[np.unique(bounds // step, return_index=True)[1]]
        for start, stop in zip(cuts, [*cuts[1:], self.num_rows], strict=True):
            wanted = rows.within(int(start), int(stop))
            if len(wanted.bounds):
                yield LegacySegment(self, int(start), RowRanges(wanted.bounds + start))

    def explain(self) -> Iterator[PageExplanation]:
        """Describe the pages of all batches."""
        for part in self.parts:
            try:
                yield from explain_field(
                    part.file, self.field, part.pages, part.dictionaries, self.field.name
                )
            except CorruptFileError as error:
                raise error.at(f"column {self.field.name!r}").at(part.file.source.path) from None

    def zones(self, path: tuple[str, ...]) -> Zones | None:
        """Return the zone map of the batches from their statistics."""
        field = self.field
        for name in path:
            field = next(child for child in field.children if child.name == name)
        part = next((part for part in self.parts if field.id in part.pages), None)
        return None if part is None else read_zones(part.file, field)


def _part(field: Field, part: FilePart) -> _Part:
    file = part.reader
    assert isinstance(file, LegacyFile)
    try:
        ids = frozenset(part.columns)
        pages = file.pages(field, ids, file.first_id(part.ids))
        _require_whole_lists(field, frozenset(pages), ids)
        dictionaries = {
            owner.id: owner.dictionary if owner.dictionary is not None else file.dictionary(owner)
            for owner in page_owners(field)
            if owner.id in pages and pt.is_dictionary(owner.arrow_type)
        }
    except CorruptFileError as error:
        if file.source.path in error.where:
            raise
        raise error.at(f"column {field.name!r}").at(file.source.path) from None
    return _Part(file, pages, dictionaries)


def _require_whole_lists(field: Field, owners: frozenset[int], ids: frozenset[int]) -> None:
    """Raise an error if list items are in another file than the list offsets."""
    for item in field.walk():
        if item.is_list and item.id not in owners and not ids.isdisjoint(item.ids):
            raise UnsupportedFormatError(f"column {field.name!r}: a list spread over several files")


def _fixed_bytes(field: Field, pages: Pages) -> float:
    count = float(pages.lengths.sum())
    kind = field.arrow_type
    if is_var_binary(kind) or pt.is_large_list(kind):
        return count * 8
    if pt.is_list(kind) or pt.is_dictionary(kind):
        return count * 4
    return (
        0
        if pt.is_null(kind) or (pt.is_nested(kind) and not pt.is_fixed_size_list(kind))
        else (count * width_bits(kind) / 8)
    )


def _merged(field: Field, found: Sequence[tuple[frozenset[int], pa.Array]]) -> pa.Array:
    """Merge the parts of a field from several files into one array."""
    having = [(ids, array) for ids, array in found if not ids.isdisjoint(field.ids)]
    if len(having) <= 1 or not field.is_struct:
        return (having or found)[0][1]
    members = [
        _merged(child, [(ids, array.field(index)) for ids, array in having])
        for index, child in enumerate(field.children)
    ]
    return pa.Array.from_buffers(field.arrow_type, len(having[0][1]), [None], 0, children=members)
