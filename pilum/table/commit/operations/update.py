"""`Transaction.update`: rows with new values, stored in one of two ways.

    REWRITE_ROWS       the rows are marked as deleted and rewritten, in fragments after the
                       others; inserted rows may be among them
    REWRITE_COLUMNS    rows stay where they are; fragments get other files for some columns

Fragment 0 with an update of its rows 2 and 5:

    REWRITE_ROWS       fragment 0, deleted 2 5     fragment 7 (new): the rows 2 and 5
    REWRITE_COLUMNS    fragment 0, its column a in another file

Source: docs/format/table.md, "Updates".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray
from pyroaring import BitMap

from pilum.errors import InvalidInputError
from pilum.format.fields import FieldId
from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind, cells_of, resources
from pilum.table.commit.operations.base import (
    Amount,
    RemovesRows,
    all_by_id,
    data_paths,
    numbered,
    require_fits,
    require_known,
    require_same_rows,
    with_fragments,
)
from pilum.table.commit.operations.indices import (
    with_moved_rows,
    without_fragments,
)
from pilum.table.model.coverage import related_fields
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.row_id_sequence import RowIdSequence
from pilum.table.read.lineage import with_changed_rows

__all__ = ["Update", "UpdateMode"]


class UpdateMode(Enum):
    """The way in which values were replaced; the value is the name that Lance tools exchange."""

    ROWS = "rewrite_rows"
    COLUMNS = "rewrite_columns"


_TOMBSTONE = -2
_Message = transaction_pb2.Transaction.Update
_MODES = {
    UpdateMode.ROWS: _Message.REWRITE_ROWS,
    UpdateMode.COLUMNS: _Message.REWRITE_COLUMNS,
}


@dataclass(frozen=True, slots=True)
class Update(RemovesRows):
    """Changes rows, and may add and remove some.

    Attributes:
        updated: Changed fragments, with new deletion files or new data files.
        new: Fragments with the rows that were written.
        mode: How the rows were stored.
        fields_modified: Fields with new values in `updated`: indices of them no longer cover these
            fragments.
        fields_updated: Fields with new values in `new` (`fields_for_preserving_frag_bitmap`): with
            stable row ids, all other indices cover `new` as they covered the old places.
        offsets: With REWRITE_COLUMNS and stable row ids, the physical rows of each fragment that
            have new values, as Roaring bitmaps.
        key_filter: The inserted keys as a `KeyExistenceFilter`, byte for byte; None if they are not
            recorded.
        inserts_keys: Whether it inserted rows because their keys did not exist, so that no other
            operation may have added rows. Not part of the transaction.
    """

    arm = "update"
    new: tuple[Fragment, ...] = ()
    mode: UpdateMode = UpdateMode.ROWS
    fields_modified: tuple[FieldId, ...] = ()
    fields_updated: tuple[FieldId, ...] = ()
    offsets: Mapping[int, bytes] = field(default_factory=dict)
    key_filter: bytes | None = None
    inserts_keys: bool = field(default=False, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Update) -> Update:
        """Read the operation from its message."""
        moves = message.update_mode == _Message.REWRITE_ROWS
        keys = message.HasField("inserted_rows")
        return cls(
            tuple(map(Fragment.from_proto, message.updated_fragments)),
            tuple(map(FragmentId, message.removed_fragment_ids)),
            tuple(map(Fragment.from_proto, message.new_fragments)),
            UpdateMode.ROWS if moves else UpdateMode.COLUMNS,
            tuple(map(FieldId, message.fields_modified)),
            tuple(map(FieldId, message.fields_for_preserving_frag_bitmap)),
            dict(message.updated_fragment_offset_bitmaps),
            message.inserted_rows.SerializeToString(deterministic=True) if keys else None,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Update:
        """Build the message of the operation."""
        message = transaction_pb2.Transaction.Update(
            updated_fragments=[fragment.to_proto() for fragment in self.updated],
            removed_fragment_ids=self.removed,
            new_fragments=[fragment.to_proto() for fragment in self.new],
            fields_modified=self.fields_modified,
            fields_for_preserving_frag_bitmap=self.fields_updated,
            update_mode=_MODES[self.mode],
            updated_fragment_offset_bitmaps=dict(self.offsets),
        )
        if self.key_filter is not None:
            message.inserted_rows.ParseFromString(self.key_filter)
        return message

    def footprint(self) -> Footprint:
        """Return a footprint that relies on files, on deleted rows and on columns.

        The files and the deleted rows are those of its fragments.
        """
        keys = (Kind.NEW_ROWS,) if self.inserts_keys or self.key_filter is not None else ()
        updated = [fragment.id for fragment in self.updated]
        changed = self.changed | resources(Kind.PLACES, updated)
        if self.mode is UpdateMode.COLUMNS:
            cells = cells_of((number, self.fields_modified) for number in updated)
            changed = resources(Kind.FRAGMENT, (*updated, *self.removed)) | cells
        return Footprint.of(
            relies_on=(
                *(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST, Kind.REQUIRED_COLUMNS),
                *keys,
                *self.touched,
                *resources(Kind.OVERLAYS, (*updated, *self.removed)),
            ),
            changes=(
                *(Kind.ROWS, Kind.WRITTEN_VALUES, Kind.NEW_ROWS),
                *changed,
                *resources(Kind.WHOLE_FRAGMENT, self.removed),
                *resources(Kind.PLACES, self.removed),
            ),
        )

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the changed fragments, followed by the new ones."""
        # Rows that were written for an earlier version may contain columns dropped since.
        require_fits(self.new, manifest.schema, may_have_more=self.marked is not None)
        new = numbered(self.new, manifest.highest_fragment_id)
        fragments = all_by_id(self._changed(manifest), new)
        return with_fragments(manifest, fragments, section=self._indices(manifest, new))

    def new_files(self) -> tuple[str, ...]:
        """Return data and deletion files, unless another writer wrote them."""
        if self.marked is None:
            return ()
        return (*data_paths(self.new), *RemovesRows.new_files(self))

    @property
    def amount(self) -> Amount:
        """Count the rows that were written."""
        return Amount.of(self.new)

    def _indices(self, manifest: Manifest, new: Iterable[Fragment]) -> bytes:
        """Return the index section with its coverage of the changed and the new fragments."""
        if not manifest.index_section:
            return b""
        updated = [fragment.id for fragment in self.updated]
        modified = related_fields(manifest.schema, self.fields_modified)
        section = without_fragments(manifest.index_section, updated, modified)
        moved = [fragment.id for fragment in new if _has_moved(fragment)]
        fields = related_fields(manifest.schema, self.fields_updated)
        return with_moved_rows(section, (*updated, *self.removed), moved, fields)

    def _changed(self, manifest: Manifest) -> Iterable[Fragment]:
        if self.marked is not None:
            return self.remaining(manifest.fragments)
        # In transactions made by hand, fragments may have new data files in any mode, as with the
        # reference.
        images = {fragment.id: fragment for fragment in self.updated}
        require_known(manifest.fragments, (*images, *self.removed))
        return [
            self._in_place(fragment, images[fragment.id], manifest.version + 1)
            if fragment.id in images
            else fragment
            for fragment in manifest.fragments
            if fragment.id not in self.removed
        ]

    def _in_place(self, fragment: Fragment, image: Fragment, version: int) -> Fragment:
        if self.mode is UpdateMode.COLUMNS and image.deletion_file != fragment.deletion_file:
            raise InvalidInputError(
                f"fragment {fragment.id}: an update of columns does not change which rows are "
                "deleted"
            )
        changed = _with_files(fragment, image).with_other_values(self.fields_modified)
        rows = self.changed_rows(fragment)
        return changed if rows is None else with_changed_rows(changed, rows, version)

    def changed_rows(self, fragment: Fragment) -> NDArray[np.int64] | None:
        """Return the physical rows of a fragment that changed in place; None if not recorded."""
        offsets = self.offsets.get(fragment.id)
        return None if offsets is None else _rows_of(offsets, fragment)


def _rows_of(data: bytes, fragment: Fragment) -> NDArray[np.int64]:
    """Return the physical rows that an operation lists."""
    try:
        rows = np.asarray(BitMap.deserialize(data).to_array(), dtype=np.int64)
    except (ValueError, IndexError) as error:
        raise InvalidInputError(
            f"fragment {fragment.id}: not a Roaring bitmap of changed rows: {error}"
        ) from error
    if rows.max(initial=-1) >= fragment.physical_rows:
        raise InvalidInputError(f"changed rows: fragment {fragment.id} has no row {rows.max()}")
    return rows


def _has_moved(fragment: Fragment) -> bool:
    """Return whether all rows of a new fragment moved there: then they have ids."""
    if not isinstance(fragment.row_ids, bytes):
        return False
    return len(RowIdSequence.from_bytes(fragment.row_ids, fragment.physical_rows)) == (
        fragment.physical_rows
    )


def _with_files(fragment: Fragment, image: Fragment) -> Fragment:
    """Return a fragment with other files, without those that supply no column any more."""
    require_same_rows(fragment, image)
    # Hidden columns, such as spilled row ids, have negative ids too: only -2 marks a dropped
    # column.
    files = tuple(file for file in image.files if set(file.fields) != {_TOMBSTONE})
    return replace(fragment, files=files, deletion_file=image.deletion_file)
