"""`Transaction.delete`: rows are marked as deleted, fragments without live rows are dropped."""

from __future__ import annotations

from dataclasses import dataclass

from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import RemovesRows, with_fragments
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest

__all__ = ["Delete"]


@dataclass(frozen=True, slots=True)
class Delete(RemovesRows):
    """Deletes rows that a filter, the predicate, selected; it is for readers of the history."""

    arm = "delete"
    predicate: str = ""

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
        gone = resources(Kind.WHOLE_FRAGMENT, self.removed)
        return Footprint.of(
            relies_on=(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST, *self.touched),
            changes=(Kind.ROWS, *self.changed, *gone, *resources(Kind.PLACES, self.removed)),
        )

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new deletion files and without the removed fragments."""
        return with_fragments(manifest, self.remaining(manifest.fragments))
