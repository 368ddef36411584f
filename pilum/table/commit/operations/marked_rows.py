"""Rows that an operation takes out of fragments, and how it follows others that did the same.

An operation that knows its rows can follow another one that marked other rows of the same fragment:

    read version     fragment 0    deleted 1
    this operation   fragment 0    deleted 1 + 5        ──▶  1 + 3 + 5, in a new deletion file
    meanwhile        fragment 0    deleted 1 + 3

Source: docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.commit.footprint import Kind, Resource, fragments_of
from pilum.table.model.deletion_bytes import load_deletions, store_deletions
from pilum.table.model.deletion_vector import DeletionVector
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest

__all__ = ["Marked", "MarkedRows", "require_known"]


@dataclass(frozen=True, slots=True)
class Marked:
    """The rows of a fragment that an operation chose.

    Attributes:
        before: The fragment as it was then.
        rows: Those that were not deleted before; None if they are all.
    """

    before: Fragment
    rows: DeletionVector | None


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """What becomes of the fragments that rows are taken out of.

    Attributes:
        updated: Fragments with their new deletion files.
        removed: Fragments of which no row is left.
        marked: The rows of each of these fragments; None where they are not known, as in an
            operation of somebody else.
    """

    updated: tuple[Fragment, ...] = ()
    removed: tuple[FragmentId, ...] = ()
    marked: Mapping[FragmentId, Marked] | None = None

    @property
    def touched(self) -> frozenset[Resource]:
        """What must stay as it is of the fragments."""
        ids = (*(fragment.id for fragment in self.updated), *self.removed)
        return fragments_of(Kind.DELETED_ROWS, ids) | fragments_of(Kind.FRAGMENT, ids)

    @property
    def changed(self) -> frozenset[Resource]:
        """What others see changed of the fragments."""
        updated = fragments_of(Kind.DELETED_ROWS, (fragment.id for fragment in self.updated))
        return updated | fragments_of(Kind.FRAGMENT, self.removed)

    @property
    def new_files(self) -> tuple[str, ...]:
        """The deletion files, unless they were written by somebody else."""
        return tuple(
            fragment.deletion_file.path(fragment.id)
            for fragment in self.updated
            if fragment.deletion_file and self.marked and fragment.id in self.marked
        )

    def applied(self, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
        """The fragments of a table with the other deletion files, without those that are removed.

        Raises:
            InvalidInputError: If the table does not have one of the fragments.
        """
        present = tuple(fragments)
        require_known(present, (*self.removed, *(fragment.id for fragment in self.updated)))
        updated = {fragment.id: fragment for fragment in self.updated}
        removed = set(self.removed)
        return tuple(
            _updated(fragment, updated[fragment.id]) if fragment.id in updated else fragment
            for fragment in present
            if fragment.id not in removed
        )

    def rebased(self, store: Store, manifest: Manifest) -> MarkedRows | None:
        """Adds the rows that others deleted meanwhile to the deletion files.

        Args:
            store: Where new files are written.
            manifest: The version with what others changed.

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
        return MarkedRows(
            updated=tuple(again.get(own.id, own) for own in self.updated if own.id not in full),
            removed=(*self.removed, *full),
            marked={
                number: replace(marked, before=current[number])
                for number, marked in self.marked.items()
            },
        )


def require_known(fragments: Iterable[Fragment], ids: Iterable[FragmentId]) -> None:
    """Checks that a table has fragments.

    Raises:
        InvalidInputError: If it does not.
    """
    if missing := set(ids) - {fragment.id for fragment in fragments}:
        raise InvalidInputError(f"the table has no fragments {sorted(missing)}")


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
