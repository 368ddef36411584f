"""Rows that an operation removes from fragments, and the rebase on other such operations.

If an operation's rows are known, it can follow another one that marked other rows of the same
fragment:

    read version     fragment 0    deleted 1
    this operation   fragment 0    deleted 1 + 5        ──▶  1 + 3 + 5, in a new deletion file
    concurrently     fragment 0    deleted 1 + 3

Source: docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.commit.footprint import Kind, Resource, fragments_of
from pilum.table.model.deletion_vector import DeletionVector, load_deletions, store_deletions
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest

__all__ = ["Marked", "MarkedRows", "require_known"]


@dataclass(frozen=True, slots=True)
class Marked:
    """The rows of a fragment that an operation selected.

    Attributes:
        before: The fragment in the version that was read.
        rows: The selected rows that were not already deleted; None for all rows.
    """

    before: Fragment
    rows: DeletionVector | None


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """The changes of the fragments that rows are removed from.

    Attributes:
        updated: Fragments with their new deletion files.
        removed: Fragments without live rows.
        marked: The selected rows of each of these fragments; None where they are unknown, as in an
            operation of another writer.
    """

    updated: tuple[Fragment, ...] = ()
    removed: tuple[FragmentId, ...] = ()
    marked: Mapping[FragmentId, Marked] | None = None

    @property
    def touched(self) -> frozenset[Resource]:
        """Return the resources of the fragments that must not change."""
        ids = (*(fragment.id for fragment in self.updated), *self.removed)
        return fragments_of(Kind.DELETED_ROWS, ids) | fragments_of(Kind.FRAGMENT, ids)

    @property
    def changed(self) -> frozenset[Resource]:
        """Return the resources of the fragments that change for others."""
        updated = fragments_of(Kind.DELETED_ROWS, (fragment.id for fragment in self.updated))
        return updated | fragments_of(Kind.FRAGMENT, self.removed)

    @property
    def new_files(self) -> tuple[str, ...]:
        """Return the deletion files, unless another writer wrote them."""
        return tuple(
            fragment.deletion_file.path(fragment.id)
            for fragment in self.updated
            if fragment.deletion_file and self.marked and fragment.id in self.marked
        )

    def applied(self, fragments: Iterable[Fragment]) -> tuple[Fragment, ...]:
        """Return a table's fragments with the new deletion files, without the removed fragments.

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
        """Add the rows that others deleted concurrently to the deletion files.

        Args:
            store: The store for new files.
            manifest: The version with the changes of others.

        Returns:
            The rows; None if they are unknown, were deleted by others too, or have moved.
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
    """Check that a table has fragments.

    Raises:
        InvalidInputError: If a fragment is missing.
    """
    if missing := set(ids) - {fragment.id for fragment in fragments}:
        raise InvalidInputError(f"the table has no fragments {sorted(missing)}")


def _merged(store: Store, mine: Marked, theirs: Fragment | None) -> DeletionVector | None:
    """Return all deleted rows of a fragment; None if unknown, or if rows are deleted twice."""
    if theirs is None or mine.rows is None or theirs.files != mine.before.files:
        return None
    deleted = load_deletions(store, theirs)
    if deleted is None:
        return mine.rows
    return None if deleted.meets(mine.rows) else deleted.union(mine.rows)


def _updated(fragment: Fragment, image: Fragment) -> Fragment:
    """Return a fragment with other deleted rows.

    Others may have dropped some of its files concurrently.
    """
    if image.physical_rows not in {0, fragment.physical_rows}:
        raise InvalidInputError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows, not {image.physical_rows}"
        )
    return replace(fragment, deletion_file=image.deletion_file)
