"""`Transaction.delete`: rows are marked as deleted, fragments without any others are dropped.

A delete that knows its rows can follow another one that marked other rows of the same fragment:

    read version    fragment 0    deleted 1
    this delete     fragment 0    deleted 1 + 5        ──▶  1 + 3 + 5, in a new deletion file
    meanwhile       fragment 0    deleted 1 + 3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.deletion_bytes import load_deletions, store_deletions
from pilum.table.deletion_vector import DeletionVector
from pilum.table.footprint import Footprint, Kind, fragments_of
from pilum.table.fragment import Fragment, FragmentId
from pilum.table.manifest import Manifest
from pilum.table.operations.base import Operation
from pilum.table.operations.indices import retained_indices

__all__ = ["Delete", "Marked"]


@dataclass(frozen=True, slots=True)
class Marked:
    """The rows of a fragment that a delete chose.

    Attributes:
        before: The fragment as it was then.
        rows: Those that were not deleted before; None if they are all.
    """

    before: Fragment
    rows: DeletionVector | None


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Deletes rows.

    Attributes:
        updated: Fragments with their new deletion files.
        removed: Fragments of which no row is left.
        predicate: What chose the rows, for readers of the history.
        marked: The rows of each of these fragments, where they are known. They are not part of the
            transaction.
    """

    arm = "delete"
    updated: tuple[Fragment, ...] = ()
    removed: tuple[FragmentId, ...] = ()
    predicate: str = ""
    marked: Mapping[FragmentId, Marked] | None = field(default=None, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Delete) -> Delete:
        """Reads the message of the arm."""
        return cls(
            tuple(map(Fragment.from_proto, message.updated_fragments)),
            tuple(map(FragmentId, message.deleted_fragment_ids)),
            message.predicate,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Delete:
        """Builds the message of the arm."""
        return transaction_pb2.Transaction.Delete(
            updated_fragments=[fragment.to_proto() for fragment in self.updated],
            deleted_fragment_ids=self.removed,
            predicate=self.predicate,
        )

    def footprint(self) -> Footprint:
        """The files of its fragments must stay, and which other rows of them are deleted."""
        updated = fragments_of(Kind.DELETED_ROWS, (fragment.id for fragment in self.updated))
        removed = fragments_of(Kind.FRAGMENT, self.removed)
        ids = (*(fragment.id for fragment in self.updated), *self.removed)
        plain = Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST), changes=(Kind.ROWS,)
        )
        touched = fragments_of(Kind.DELETED_ROWS, ids) | fragments_of(Kind.FRAGMENT, ids)
        return Footprint(plain.relies_on | touched, plain.changes | updated | removed)

    def apply(self, manifest: Manifest) -> Manifest:
        """The manifest with the other deletion files and without the removed fragments.

        Raises:
            InvalidInputError: If the table does not have one of the fragments.
        """
        known = {fragment.id for fragment in manifest.fragments}
        updated = {fragment.id: fragment for fragment in self.updated}
        if missing := (set(self.removed) | set(updated)) - known:
            raise InvalidInputError(f"the table has no fragments {sorted(missing)}")
        fragments = tuple(
            _updated(fragment, updated[fragment.id]) if fragment.id in updated else fragment
            for fragment in manifest.fragments
            if fragment.id not in self.removed
        )
        indices = retained_indices(manifest.index_section, manifest.schema, fragments)
        return replace(manifest, fragments=fragments, index_section=indices)

    def new_files(self) -> tuple[str, ...]:
        """The deletion files, unless they were written by somebody else."""
        return tuple(
            fragment.deletion_file.path(fragment.id)
            for fragment in self.updated
            if fragment.deletion_file and self.marked and fragment.id in self.marked
        )

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Adds the rows that others deleted meanwhile to the deletion files.

        Returns:
            None if the rows are not known, were deleted by others too, or are elsewhere now.
        """
        if self.marked is None:
            return None
        current = {fragment.id: fragment for fragment in manifest.fragments}
        merged: dict[FragmentId, DeletionVector] = {}
        for number, marked in self.marked.items():
            theirs = current.get(number)
            if theirs != marked.before:
                vector = _merged(store, marked, theirs)
                if vector is None:
                    return None
                merged[number] = vector
        full = [number for number in merged if len(merged[number]) == current[number].physical_rows]
        parts = [(current[number], merged[number]) for number in merged if number not in full]
        written = store_deletions(store, parts, manifest.version, as_bitmap=True)
        again = {fragment.id: fragment for fragment in written}
        return replace(
            self,
            updated=tuple(again.get(own.id, own) for own in self.updated if own.id not in full),
            removed=(*self.removed, *full),
            marked={
                number: replace(marked, before=current[number])
                for number, marked in self.marked.items()
            },
        )


def _merged(store: Store, mine: Marked, theirs: Fragment | None) -> DeletionVector | None:
    """All deleted rows of a fragment; None if it cannot be told, or rows are deleted twice."""
    if theirs is None or mine.rows is None or theirs.files != mine.before.files:
        return None
    deleted = load_deletions(store, theirs)
    if deleted is None:
        return mine.rows
    return None if deleted.meets(mine.rows) else deleted.union(mine.rows)


def _updated(fragment: Fragment, image: Fragment) -> Fragment:
    """A fragment with other deleted rows; of its files, others may have dropped some meanwhile."""
    if image.physical_rows not in {0, fragment.physical_rows}:
        raise InvalidInputError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows, not {image.physical_rows}"
        )
    return replace(fragment, deletion_file=image.deletion_file)
