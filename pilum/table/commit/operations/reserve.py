"""`Transaction.reserve_fragments`: fragment ids that no other writer will get.

A writer that needs the ids of new fragments before their commit reserves them first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.format.rows import MAX_FRAGMENT_ID
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import Operation
from pilum.table.model.manifest import Manifest

__all__ = ["ReserveFragments"]


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Raises the highest fragment id; the ids up to the new one belong to the caller."""

    arm = "reserve_fragments"
    num_fragments: int

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.ReserveFragments) -> ReserveFragments:
        """Read the operation from its message."""
        return cls(message.num_fragments)

    def to_proto(self) -> transaction_pb2.Transaction.ReserveFragments:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.ReserveFragments(num_fragments=self.num_fragments)

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the same table."""
        return Footprint.of(relies_on=(Kind.HISTORY,))

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with a higher maximum fragment id."""
        highest = max(manifest.highest_fragment_id, 0) + self.num_fragments
        if self.num_fragments < 0 or highest > MAX_FRAGMENT_ID:
            raise InvalidInputError(
                f"{self.num_fragments} fragment ids above {manifest.highest_fragment_id}"
            )
        return replace(manifest, max_fragment_id=highest)
