"""`Transaction.delete`: rows are marked as deleted, fragments without live rows are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, fragments_of
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.operations.fragments import Marked, MarkedRows
from pilum.table.commit.operations.indices import retained_indices
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest

__all__ = ["Delete"]


@dataclass(frozen=True, slots=True)
class Delete(Operation):
    """Deletes rows.

    Attributes:
        updated: Fragments with their new deletion files.
        removed: Fragments without live rows.
        predicate: The filter that selected the rows, for readers of the history.
        marked: The deleted rows of each of these fragments, where they are known. They are not part
            of the transaction.
    """

    arm = "delete"
    updated: tuple[Fragment, ...] = ()
    removed: tuple[FragmentId, ...] = ()
    predicate: str = ""
    marked: Mapping[FragmentId, Marked] | None = field(default=None, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Delete) -> Delete:
        """Read the operation from its message."""
        return cls(
            tuple(map(Fragment.from_proto, message.updated_fragments)),
            tuple(map(FragmentId, message.deleted_fragment_ids)),
            message.predicate,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Delete:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Delete(
            updated_fragments=[fragment.to_proto() for fragment in self.updated],
            deleted_fragment_ids=self.removed,
            predicate=self.predicate,
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the files and the deleted rows of its fragments."""
        plain = Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST), changes=(Kind.ROWS,)
        )
        rows = self._rows
        gone = fragments_of(Kind.WHOLE_FRAGMENT, self.removed)
        return Footprint(plain.relies_on | rows.touched, plain.changes | rows.changed | gone)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new deletion files and without the removed fragments.

        Raises:
            InvalidInputError: If the table does not have one of the fragments.
        """
        fragments = self._rows.applied(manifest.fragments)
        indices = retained_indices(manifest.index_section, manifest.schema, fragments)
        return replace(manifest, fragments=Fragments(fragments), index_section=indices)

    def new_files(self) -> tuple[str, ...]:
        """Return the deletion files, unless another writer wrote them."""
        return self._rows.new_files

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Add the rows that others deleted concurrently to the deletion files.

        Returns:
            The operation; None if the rows are unknown, were deleted by others too, or have moved.
        """
        rows = self._rows.rebased(store, manifest)
        if rows is None:
            return None
        return replace(self, updated=rows.updated, removed=rows.removed, marked=rows.marked)

    @property
    def _rows(self) -> MarkedRows:
        return MarkedRows(self.updated, self.removed, self.marked)
