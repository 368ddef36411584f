"""`Transaction.clone`: the first transaction of a table or branch with another one's rows."""

from __future__ import annotations

from dataclasses import dataclass

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import Operation
from pilum.table.model.manifest import Manifest

__all__ = ["Clone"]


@dataclass(frozen=True, slots=True)
class Clone(Operation):
    """The first transaction of a clone; `pilum.table.refs.clone` makes its manifest.

    It names the version that was cloned, and the line that it is on: its root, and its name if it
    is a branch. `branch_name` is None for a separate table.
    """

    arm = "clone"
    is_shallow: bool
    ref_version: int
    ref_path: str
    ref_name: str | None = None
    branch_name: str | None = None

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Clone) -> Clone:
        """Read the operation from its message."""
        return cls(
            message.is_shallow,
            message.ref_version,
            message.ref_path,
            message.ref_name if message.HasField("ref_name") else None,
            message.branch_name if message.HasField("branch_name") else None,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Clone:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Clone(
            is_shallow=self.is_shallow,
            ref_name=self.ref_name,
            ref_version=self.ref_version,
            ref_path=self.ref_path,
            branch_name=self.branch_name,
        )

    def footprint(self) -> Footprint:
        """Return a footprint that creates the table, so that no other operation can create it."""
        return Footprint.of(changes=(Kind.REPLACEMENT,))

    def apply(self, manifest: Manifest) -> Manifest:
        """Raise InvalidInputError: a clone creates a table and changes none."""
        raise InvalidInputError(
            f"a clone of {self.ref_path} cannot be committed to a table that exists; use "
            "shallow_clone, deep_clone or create_branch"
        )
