"""The coverage of indices: the fragments whose values they have as they are now.

An index covers a fragment either completely or not at all. Reducing its coverage is always correct,
only slower. An overlay that is newer than an index has values that the index lacks, although the
index section of the manifest is unchanged: its fragments count as not covered.

    index    built at version 3, covers 0 1 2
    overlay  of fragment 1, committed at version 5, for an indexed field    ──▶  covers 0 2

Source: docs/format/table.md, "Indices" and "Overlays".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from pyroaring import BitMap

from pilum.format.pb import table_pb2
from pilum.format.schema import Schema
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import covered_fragments, is_system_index

__all__ = ["fields_of", "related_fields", "with_coverage", "with_indices", "without_overlaid"]


def without_overlaid(section: bytes, schema: Schema, overlaid: Collection[Fragment]) -> bytes:
    """Return an `IndexSection` that does not cover fragments with newer overlays of its fields.

    An index that does not record what it covers then covers nothing, if it has such a fragment.
    """
    if not section or not overlaid:
        return section
    message = table_pb2.IndexSection.FromString(section)
    has_changed = False
    for index in message.indices:
        if is_system_index(index):
            continue
        fields, covered = related_fields(schema, fields_of(index)), covered_fragments(index)
        stale = BitMap(_newer(index.dataset_version, fields, overlaid))
        if not stale or (covered is not None and not covered.intersect(stale)):
            continue
        index.fragment_bitmap = (BitMap() if covered is None else covered - stale).serialize()
        has_changed = True
    return with_indices(message, list(message.indices)) if has_changed else section


def _newer(version: int, fields: Collection[int], overlaid: Iterable[Fragment]) -> Iterable[int]:
    """Yield the ids of fragments with an overlay of some fields after a version."""
    for fragment in overlaid:
        if any(one.committed_version > version and one.covers(fields) for one in fragment.overlays):
            yield fragment.id


def related_fields(schema: Schema, field_ids: Collection[int]) -> frozenset[int]:
    """Return the fields, all of their ancestors and all of their descendants.

    Values of a member are also values of its parent, and the other way round. Data files list one
    or the other, depending on their version.
    """
    wanted = set(field_ids)
    related = set(wanted)
    for field in schema.fields:
        for inner in field.walk():
            below = set(inner.ids)
            if inner.id in wanted:
                related |= below
            elif not wanted.isdisjoint(below):
                related.add(inner.id)
    return frozenset(related)


def with_coverage(
    section: bytes, change: Callable[[table_pb2.IndexMetadata, BitMap], BitMap]
) -> bytes:
    """Return the section with other bitmaps; unchanged entries keep their bytes."""
    message = table_pb2.IndexSection.FromString(section)
    has_changed = False
    for index in message.indices:
        covered = None if is_system_index(index) else covered_fragments(index)
        if covered is None:
            continue
        changed = change(index, covered)
        if changed != covered:
            index.fragment_bitmap = changed.serialize()
            has_changed = True
    return with_indices(message, list(message.indices)) if has_changed else section


def fields_of(index: table_pb2.IndexMetadata) -> list[int]:
    """Return the fields whose values an index has."""
    return [*index.fields, *index.covering_fields]


def with_indices(message: table_pb2.IndexSection, indices: list[table_pb2.IndexMetadata]) -> bytes:
    """Return an `IndexSection` with other indices."""
    changed = table_pb2.IndexSection()
    changed.CopyFrom(message)
    del changed.indices[:]
    changed.indices.extend(indices)
    data: bytes = changed.SerializeToString(deterministic=True)
    return data
