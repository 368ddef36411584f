"""Changes of the index section: which indices stay, and which fragments they cover.

Only entries that an operation changes are decoded, and unknown members are kept:

    index a_idx    fields 0    covers 0 1 2      delete of all rows of 0: no change is needed
                                                 new values of field 0 in 1: covers 0 2
                                                 field 0 is dropped: the index is removed
    index b_idx    fields 1    covers 0 1        several segments may share a name; those that
    index b_idx    fields 1    covers 2          cover no existing fragment go, but for the last

An index covers a fragment either completely or not at all. Reducing its coverage is always correct,
only slower. Source: docs/format/table.md, "Indices".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.model.coverage import fields_of, with_coverage, with_indices
from pilum.table.model.fragments import Fragments
from pilum.table.model.index_segments import (
    IndexSegment,
    RewrittenIndex,
    covered_fragments,
    is_system_index,
    with_rewritten_indices,
)

__all__ = [
    "retained_indices",
    "with_moved_rows",
    "with_rewritten_fragments",
    "without_fragments",
]

_FRAGMENT_REUSE = "__lance_frag_reuse"
_ADDRESS_KINDS = frozenset({"unknown", "btree", "zonemap", "bloomfilter"})
"""Kinds of indices that store row addresses, or may do so, even with stable row ids."""


def retained_indices(section: bytes, schema: Schema, fragments: Fragments) -> bytes:
    """Return an `IndexSection` without the indices that a new version no longer needs.

    An index is removed with any of its columns. Of several segments with one name, those that no
    longer cover a fragment are removed; if none covers one, the oldest stays. System indices always
    stay.
    """
    if not section:
        return section
    message = table_pb2.IndexSection.FromString(section)
    known = {field.id for field in schema.walk()}
    kept = [
        index
        for index in message.indices
        if is_system_index(index) or known.issuperset(fields_of(index))
    ]
    if not any(index.name == _FRAGMENT_REUSE for index in kept):  # else ids may mean others
        kept = _without_empty_segments(kept, BitMap(fragments.ids.tolist()))
    return section if len(kept) == len(message.indices) else with_indices(message, kept)


def without_fragments(
    section: bytes, fragment_ids: Collection[int], field_ids: Collection[int]
) -> bytes:
    """Return an `IndexSection` that does not cover fragments in which fields have new values.

    The fields include their `related_fields`.
    """
    gone, fields = BitMap(fragment_ids), set(field_ids)

    def change(index: table_pb2.IndexMetadata, covered: BitMap) -> BitMap:
        return covered if fields.isdisjoint(fields_of(index)) else covered - gone

    return with_coverage(section, change)


def with_rewritten_fragments(
    section: bytes,
    groups: Iterable[tuple[Collection[int], Collection[int]]],
    *,
    stable_row_ids: bool,
    rewritten: Collection[RewrittenIndex] = (),
) -> bytes:
    """Return an `IndexSection` after all rows of some fragments moved to others, unchanged.

    With stable row ids, indices of ids still cover the rows, and so do rewritten ones. Other
    indices of addresses do not: the new fragments are read without them. Each group has the old and
    the new ids. InvalidInputError is raised if an index that still covers the rows covers only a
    part of a group.
    """
    if not stable_row_ids:
        return section
    moves = [(BitMap(old), BitMap(new)) for old, new in groups]
    if rewritten:
        message = table_pb2.IndexSection.FromString(section)
        with_rewritten_indices(message, rewritten)
        section = with_indices(message, list(message.indices))
    follows = {IndexSegment(one.new).uuid for one in rewritten}

    def change(index: table_pb2.IndexMetadata, covered: BitMap) -> BitMap:
        is_lost = _keeps_addresses(index) and IndexSegment(index).uuid not in follows
        for old, new in moves:
            if is_lost:
                covered = covered - old
            elif old <= covered:
                covered = (covered - old) | new
            elif part := old & covered:
                raise InvalidInputError(
                    f"index {index.name!r} covers the fragments {list(part)} of {list(old)}, which "
                    "are rewritten together; rewrite only fragments that the same indices cover"
                )
        return covered

    return with_coverage(section, change)


def with_moved_rows(
    section: bytes,
    moved_from: Collection[int],
    new_fragment_ids: Collection[int],
    changed_fields: Collection[int],
) -> bytes:
    """Return an `IndexSection` after updated rows with stable ids moved to new fragments.

    An index of other columns refers to these rows by id, in any fragment. It covers the new
    fragments if it covered all fragments that the rows came from. The new fragments have moved rows
    only, none of them inserted; the changed fields include their `related_fields`.
    """
    old, new, fields = BitMap(moved_from), BitMap(new_fragment_ids), set(changed_fields)

    def change(index: table_pb2.IndexMetadata, covered: BitMap) -> BitMap:
        covers_all = old <= covered and fields.isdisjoint(fields_of(index))
        return covered | new if covers_all and not _keeps_addresses(index) else covered

    return with_coverage(section, change)


def _without_empty_segments(
    indices: list[table_pb2.IndexMetadata], existing: BitMap
) -> list[table_pb2.IndexMetadata]:
    by_name: dict[str, list[table_pb2.IndexMetadata]] = {}
    for index in indices:
        by_name.setdefault(index.name, []).append(index)
    kept = list(chain.from_iterable(_useful(group, existing) for group in by_name.values()))
    return [index for index in indices if any(index is one for one in kept)]


def _useful(
    segments: list[table_pb2.IndexMetadata], existing: BitMap
) -> list[table_pb2.IndexMetadata]:
    if len(segments) == 1 or is_system_index(segments[0]):
        return segments
    useful = [segment for segment in segments if _covers_any(segment, existing)]
    return useful or [min(segments, key=lambda segment: segment.dataset_version)]


def _covers_any(index: table_pb2.IndexMetadata, existing: BitMap) -> bool:
    covered = covered_fragments(index)
    return covered is None or covered.intersect(existing)


def _keeps_addresses(index: table_pb2.IndexMetadata) -> bool:
    return IndexSegment(index).kind.lower() in _ADDRESS_KINDS
