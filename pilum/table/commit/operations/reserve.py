"""`Transaction.reserve_fragments`: ids of fragments to come, which nobody else will get.

Whoever must know the ids of new fragments before these are committed takes them first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import Operation
from pilum.table.model.manifest import Manifest

__all__ = ["ReserveFragments"]

_MAX_FRAGMENT_ID = 2**32 - 1


@dataclass(frozen=True, slots=True)
class ReserveFragments(Operation):
    """Raises the highest fragment id; the ids up to the new one belong to the caller.

    Attributes:
        num_fragments: How many ids.
    """

    arm = "reserve_fragments"
    num_fragments: int

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.ReserveFragments) -> ReserveFragments:
        """Reads the message of the arm."""
        return cls(message.num_fragments)

    def to_proto(self) -> transaction_pb2.Transaction.ReserveFragments:
        """Builds the message of the arm."""
        return transaction_pb2.Transaction.ReserveFragments(num_fragments=self.num_fragments)

    def footprint(self) -> Footprint:
        """The table must still be the same one."""
        return Footprint.of(relies_on=(Kind.HISTORY,))

    def apply(self, manifest: Manifest) -> Manifest:
        """The manifest with a higher count of ids.

        Raises:
            InvalidInputError: If there are not as many ids left.
        """
        highest = max(manifest.highest_fragment_id, 0) + self.num_fragments
        if self.num_fragments < 0 or highest > _MAX_FRAGMENT_ID:
            raise InvalidInputError(
                f"{self.num_fragments} fragment ids above {manifest.highest_fragment_id}"
            )
        return replace(manifest, max_fragment_id=highest)
