"""`Transaction.create_index`: changes of the index section; no row changes.

An index that was built from an older version covers only fragments that did not change since:

    version 4    fragments 0 1 2           the index is built from 0 1 2
    version 5    1 has new values in an indexed column
    version 6    the index is committed, and covers 0 2

Source: docs/format/table.md, "Indices".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.format.fields import FieldId
from pilum.format.pb import table_pb2, transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import Amount, Operation
from pilum.table.model.coverage import related_fields
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import IndexSegment, is_system_index
from pilum.table.model.manifest import Manifest
from pilum.table.versions.history import load_version

__all__ = ["CreateIndex", "changed_fragments"]

_MEMTABLES = "__lance_mem_wal"
_MAX_FRAGMENTS = 1 << 20


@dataclass(frozen=True, slots=True)
class CreateIndex(Operation):
    """Adds and removes segments of indices.

    Attributes:
        new: Segments to add; a segment with the uuid of an existing one replaces it.
        removed: Segments to remove, if they still exist.
        made_of: The versions that new segments were built from, by number, once `prepared`; not
            part of the transaction.
    """

    arm = "create_index"
    new: tuple[IndexSegment, ...] = ()
    removed: tuple[IndexSegment, ...] = ()
    made_of: Mapping[int, Manifest] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.CreateIndex) -> CreateIndex:
        """Read the operation from its message."""
        new = tuple(map(IndexSegment, message.new_indices))
        return cls(new, tuple(map(IndexSegment, message.removed_indices)))

    def to_proto(self) -> transaction_pb2.Transaction.CreateIndex:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.CreateIndex(
            new_indices=[segment.message for segment in self.new],
            removed_indices=[segment.message for segment in self.removed],
        )

    @property
    def amount(self) -> Amount:
        """Count the files of new segments, without rows."""
        num_files = sum(len(segment.message.files) for segment in self.new)
        return Amount(0, num_files, sum(segment.size_bytes or 0 for segment in self.new))

    def footprint(self) -> Footprint:
        """Return a footprint that relies on unused names, and on rows that new segments cover."""
        new = {segment.name for segment in self.new}
        removed = {segment.name for segment in self.removed}
        fields = {number for segment in self.new for number in segment.field_ids}
        covered = {key for segment in self.new for key in _coverage(segment)}
        memtables = (Kind.MEMTABLES,) if _MEMTABLES in new | removed else ()
        return Footprint.of(
            relies_on=(
                *(Kind.HISTORY, *memtables),
                *resources(Kind.NEW_INDEX, new | removed),
                *resources(Kind.REMOVED_INDEX, new),
                *resources(Kind.ROW_ADDRESSES, covered),
                *resources(Kind.REPLACED_FIELD, fields),
            ),
            changes=(
                *resources(Kind.NEW_INDEX, new),
                *resources(Kind.REMOVED_INDEX, removed),
                *resources(Kind.INDEXED_FRAGMENT, covered),
                *resources(Kind.INDEXED_FIELD, fields),
            ),
        )

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation with the versions that its new segments were built from.

        VersionNotFoundError is raised if one no longer exists, so that changes since are unknown.
        """
        del manifest
        if self.made_of is not None:
            return self
        numbers = {segment.dataset_version for segment in self.new}
        return replace(self, made_of={one: load_version(store, one) for one in numbers})

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the changed index section."""
        gone = {segment.uuid for segment in (*self.removed, *self.new)}
        section = table_pb2.IndexSection.FromString(manifest.index_section)
        kept = [index for index in section.indices if IndexSegment(index).uuid not in gone]
        added = [self._brought_up_to(manifest, segment) for segment in self.new]
        del section.indices[:]
        section.indices.extend([*kept, *added])
        return replace(manifest, index_section=section.SerializeToString(deterministic=True))

    def _brought_up_to(self, manifest: Manifest, segment: IndexSegment) -> table_pb2.IndexMetadata:
        """Return the entry of a new segment, without fragments whose values changed since."""
        for number in segment.field_ids:
            if manifest.schema.find(FieldId(number)) is None:
                raise InvalidInputError(
                    f"index {segment.name!r}: the table has no field {number} any more"
                )
        covered = segment.fragments
        if covered is None or is_system_index(segment.message):
            return segment.message
        if self.made_of is None:
            raise InvalidInputError(f"version {segment.dataset_version} is not prepared")
        before = self.made_of[segment.dataset_version]
        changed = changed_fragments(before, manifest, segment.field_ids)
        message = table_pb2.IndexMetadata()
        message.CopyFrom(segment.message)
        if covered.intersect(changed):
            message.fragment_bitmap = (covered - changed).serialize()
        return message


def changed_fragments(before: Manifest, after: Manifest, field_ids: tuple[int, ...]) -> BitMap:
    """Return ids of fragments that are new, or in which other files supply some fields."""
    fields = related_fields(after.schema, field_ids)
    old = {fragment.id: _suppliers(fragment, fields) for fragment in before.fragments}
    return BitMap(
        fragment.id
        for fragment in after.fragments
        if old.get(fragment.id) != _suppliers(fragment, fields)
    )


def _suppliers(fragment: Fragment, fields: frozenset[int]) -> list[str]:
    return [file.path for file in fragment.files if not fields.isdisjoint(file.fields)]


def _coverage(segment: IndexSegment) -> list[str]:
    """Return keys of the fragments that it covers; a wildcard key if they are unknown."""
    if is_system_index(segment.message):
        return []
    covered = segment.fragments
    if covered is None or len(covered) > _MAX_FRAGMENTS:  # a few bytes can claim very many
        return [""]
    return [str(number) for number in covered]
