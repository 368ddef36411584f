"""`Transaction.rewrite`: the rows of some fragments moved to others, unchanged.

group 0    fragments 0 1 2    ──▶    7
group 1    fragments 5 6      ──▶    8 9

A compaction keeps the order of rows, a clustering does not. After a clustering, only its id
identifies a row, so no index of addresses may cover it.

Source: docs/format/table.md, "Compaction".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self
from uuid import UUID

from pilum.errors import CommitConflictError, InvalidInputError
from pilum.format.pb import table_pb2, transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import (
    Amount,
    Operation,
    all_by_id,
    data_format_of,
    data_paths,
    numbered,
    require_fits,
)
from pilum.table.commit.operations.indices import with_rewritten_fragments
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment
from pilum.table.model.index_segments import IndexSegment, RewrittenIndex, with_rewritten_indices
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import index_folder
from pilum.table.model.reuse_index import Coverage, Move, with_moves
from pilum.table.model.row_id_sequence import RowIdSequence

__all__ = ["Rewrite"]

_LEGACY = "0.1"


@dataclass(frozen=True, slots=True)
class Rewrite(Operation):
    """Replaces fragments with others that have the same rows.

    Attributes:
        moves: The groups. New fragments have ids that were reserved, or 0.
        rewritten: Segments of indices with new files for the new places of rows.
        left: Uuids of segments that no longer cover the rows; not part of the transaction.
        records_moves: Whether the moves are recorded for indices, even if none needs them yet; None
            to record them for segments that are neither rewritten nor left. Not part of the
            transaction.
        keeps_order: Whether the rows of a group keep their order; not part of the transaction.
        indices: The `IndexSection` of the new version, once `prepared`; not part of the
            transaction.
        written: Paths of files that were written for `indices`.
    """

    arm = "rewrite"
    moves: tuple[Move, ...]
    rewritten: tuple[RewrittenIndex, ...] = ()
    left: tuple[str, ...] = field(default=(), compare=False)
    records_moves: bool | None = field(default=None, compare=False)
    keeps_order: bool = field(default=True, compare=False)
    indices: bytes | None = field(default=None, compare=False, repr=False)
    written: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Rewrite) -> Rewrite:
        """Read the operation from its message, in its old or new form."""
        groups = list(message.groups)
        if message.old_fragments:
            groups.append(
                transaction_pb2.Transaction.Rewrite.Group(
                    old_fragments=message.old_fragments, new_fragments=message.new_fragments
                )
            )
        return cls(
            tuple(
                Move(
                    tuple(map(Fragment.from_proto, group.old_fragments)),
                    tuple(map(Fragment.from_proto, group.new_fragments)),
                )
                for group in groups
            ),
            tuple(map(_rewritten, message.rewritten_indices)),
        )

    def to_proto(self) -> transaction_pb2.Transaction.Rewrite:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Rewrite(
            groups=[
                transaction_pb2.Transaction.Rewrite.Group(
                    old_fragments=[fragment.to_proto() for fragment in move.old],
                    new_fragments=[fragment.to_proto() for fragment in move.new],
                )
                for move in self.moves
            ],
            rewritten_indices=[
                transaction_pb2.Transaction.Rewrite.RewrittenIndex(
                    old_id=table_pb2.UUID(uuid=UUID(one.old_uuid).bytes),
                    new_id=one.new.uuid,
                    new_index_details=one.new.index_details,
                    new_index_version=one.new.index_version,
                    new_index_files=one.new.files,
                )
                for one in self.rewritten
            ],
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the old fragments, with the same deleted rows."""
        ids = [fragment.id for fragment in self._old()]
        files = resources(Kind.FRAGMENT, ids)
        deleted = resources(Kind.DELETED_ROWS, ids)
        return Footprint.of(
            relies_on=(
                *(Kind.HISTORY, Kind.FRAGMENT_LIST),
                *(*files, *deleted, *resources(Kind.OVERLAYS, ids)),
            ),
            changes=(
                *(Kind.ROWS, Kind.ROW_ADDRESSES),
                *files,
                *resources(Kind.ROW_ADDRESSES, ids),
                *resources(Kind.PLACES, ids),
            ),
        )

    def new_files(self) -> tuple[str, ...]:
        """Return the data files and the files written for the indices."""
        indices = (
            f"{index_folder(IndexSegment(one.new).uuid)}/{file.path}"
            for one in self.rewritten
            for file in one.new.files
        )
        return (*data_paths(self._new()), *indices, *self.written)

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation with the indices of the new version.

        CommitConflictError is raised if an index covers only some of the fragments of a group, or
        needs the order of rows and it is not kept; UnsupportedFeatureError if one does not record
        what it covers.
        """
        for path in self.written:  # for a version number that another writer has taken
            store.delete(path)
        if manifest.reader_flags & Feature.STABLE_ROW_IDS:
            return replace(self, indices=self._indices_of_ids(manifest), written=())
        if not self.records_moves and not manifest.index_section:
            return replace(self, indices=b"", written=())
        if not self.keeps_order:
            return replace(self, indices=self._untouched_indices(store, manifest), written=())
        indices, written = self._indices_of_addresses(store, manifest)
        return replace(self, indices=indices, written=written)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest in which the new fragments replace the old ones."""
        if self.indices is None:
            raise InvalidInputError("the rewrite is not prepared for this version")
        old, new = {fragment.id for fragment in self._old()}, self._new()
        self._require_same(manifest)
        if manifest.reader_flags & Feature.STABLE_ROW_IDS:
            _require_lineage(new)
        # The rows were written for an earlier version: columns may have been dropped since.
        require_fits(new, manifest.schema, may_have_more=True)
        kept = [fragment for fragment in manifest.fragments if fragment.id not in old]
        new = numbered(new, manifest.highest_fragment_id)
        fragments = all_by_id(kept, new)
        changed = replace(manifest, fragments=fragments, index_section=self.indices)
        return _with_formats(changed, new)

    def _untouched_indices(self, store: Store, manifest: Manifest) -> bytes:
        """Return the indices unchanged, since none of them contains the rows."""
        if Coverage(store, manifest).needs(self.moves):
            raise CommitConflictError(
                "rows that an index covers were put in another order; drop the index, cluster, and "
                "create it again"
            )
        return manifest.index_section

    def _indices_of_addresses(
        self, store: Store, manifest: Manifest
    ) -> tuple[bytes, tuple[str, ...]]:
        """Return the indices of a table without stable row ids, and files written for them."""
        section = table_pb2.IndexSection.FromString(manifest.index_section)
        with_rewritten_indices(section, self.rewritten)
        manifest = replace(manifest, index_section=_bytes(section))
        coverage = Coverage(store, manifest)
        uuids = {IndexSegment(one.new).uuid for one in self.rewritten}
        moves = [move for move in self.moves if move.new]
        needed = coverage.needs(moves, but_for={*uuids, *self.left})
        if needed and self.records_moves is False:
            raise CommitConflictError(
                f"the indices {needed} were not rewritten for the rows that moved; compact the "
                "latest version",
                retryable=True,
            )
        if needed or self.records_moves:
            return with_moves(store, manifest, self.moves)
        coverage.move(self.moves, uuids)
        return (_bytes(coverage.section) if uuids else manifest.index_section), ()

    def _indices_of_ids(self, manifest: Manifest) -> bytes:
        """Return the indices of a table with stable row ids, which need no record of moves."""
        groups = [([one.id for one in m.old], [one.id for one in m.new]) for m in self.moves]
        try:
            return with_rewritten_fragments(
                manifest.index_section, groups, stable_row_ids=True, rewritten=self.rewritten
            )
        except InvalidInputError as error:
            raise CommitConflictError(
                f"{error}; plan the compaction again on the latest version", retryable=True
            ) from error

    def _require_same(self, manifest: Manifest) -> None:
        """Check that no rows were deleted since; other operations may have dropped files."""
        current = {fragment.id: fragment for fragment in manifest.fragments}
        for fragment in self._old():
            found = current.get(fragment.id)
            same = (fragment.deletion_file, fragment.overlays)
            if found is None or (found.deletion_file, found.overlays) != same:
                raise InvalidInputError(f"fragment {fragment.id} is not what was rewritten")
        for move in self.moves:
            expected = sum(current[one.id].num_rows for one in move.old)
            found_rows = sum(one.physical_rows for one in move.new)
            if expected != found_rows:
                raise InvalidInputError(
                    f"the fragments {[one.id for one in move.old]} have {expected} rows, the new "
                    f"ones {found_rows}"
                )

    def _old(self) -> Iterator[Fragment]:
        return (fragment for move in self.moves for fragment in move.old)

    @property
    def amount(self) -> Amount:
        """Count the rows that were moved."""
        return Amount.of(self._new())

    def _new(self) -> tuple[Fragment, ...]:
        return tuple(fragment for move in self.moves for fragment in move.new)


def _bytes(section: table_pb2.IndexSection) -> bytes:
    data: bytes = section.SerializeToString(deterministic=True)
    return data


def _rewritten(message: transaction_pb2.Transaction.Rewrite.RewrittenIndex) -> RewrittenIndex:
    new = table_pb2.IndexMetadata(
        uuid=message.new_id,
        index_details=message.new_index_details,
        index_version=message.new_index_version,
        files=message.new_index_files,
    )
    old = table_pb2.IndexMetadata(uuid=message.old_id)
    return RewrittenIndex(IndexSegment(old).uuid, new)


def _require_lineage(new: tuple[Fragment, ...]) -> None:
    for fragment in new:
        stored = fragment.row_ids
        if None in (stored, fragment.created_at, fragment.updated_at):
            raise InvalidInputError("rows with stable ids are rewritten without ids and versions")
        if isinstance(stored, bytes):
            found = len(RowIdSequence.from_bytes(stored, fragment.physical_rows))
            if found < fragment.physical_rows:
                raise InvalidInputError(f"{found} row ids for {fragment.physical_rows} rows")


def _with_formats(manifest: Manifest, new: tuple[Fragment, ...]) -> Manifest:
    """Mark a table that now mixes files of several versions."""
    formats = data_format_of(new) | {manifest.data_format}
    if len(formats) == 1:
        return manifest
    if _LEGACY in formats:
        raise InvalidInputError("files of version 0.1 and others cannot be in one table")
    mixed = int(Feature.MIXED_DATA_FILE_VERSIONS)
    return replace(
        manifest,
        reader_flags=manifest.reader_flags | mixed,
        writer_flags=manifest.writer_flags | mixed,
    )
