"""`Transaction.delete`: rows are marked as deleted, fragments without any others are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, fragments_of
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.indices import retained_indices
from pilum.table.commit.operations.marked_rows import Marked, MarkedRows
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest

__all__ = ["Delete"]


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
        plain = Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST), changes=(Kind.ROWS,)
        )
        rows = self._rows
        gone = fragments_of(Kind.WHOLE_FRAGMENT, self.removed)
        return Footprint(plain.relies_on | rows.touched, plain.changes | rows.changed | gone)

    def apply(self, manifest: Manifest) -> Manifest:
        """The manifest with the other deletion files and without the removed fragments.

        Raises:
            InvalidInputError: If the table does not have one of the fragments.
        """
        fragments = self._rows.applied(manifest.fragments)
        indices = retained_indices(manifest.index_section, manifest.schema, fragments)
        return replace(manifest, fragments=fragments, index_section=indices)

    def new_files(self) -> tuple[str, ...]:
        """The deletion files, unless they were written by somebody else."""
        return self._rows.new_files

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Adds the rows that others deleted meanwhile to the deletion files.

        Returns:
            None if the rows are not known, were deleted by others too, or are elsewhere now.
        """
        rows = self._rows.rebased(store, manifest)
        if rows is None:
            return None
        return replace(self, updated=rows.updated, removed=rows.removed, marked=rows.marked)

    @property
    def _rows(self) -> MarkedRows:
        return MarkedRows(self.updated, self.removed, self.marked)
