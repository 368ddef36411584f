"""Manual commits: fragments that were written elsewhere become a version in one step.

fragments = write_fragments(data, uri)                  on many machines
operation = LanceOperation.Append(fragments)            on one
LanceDataset.commit(uri, operation, read_version=7)
"""

from __future__ import annotations

import uuid as uuids
from collections.abc import Mapping
from dataclasses import dataclass, field

from pilum.dataset.lance_operation import LanceOperation
from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.operation_forms import operation_for_users, operation_to_commit
from pilum.table.commit import transaction

__all__ = ["LanceOperation", "Transaction"]


@dataclass
class Transaction:
    """An operation with the facts that its commit needs.

    Attributes:
        read_version: The version that the operation is based on; 0 if there was no table.
        operation: The operation to commit.
        uuid: Globally unique id.
        transaction_properties: Properties that are recorded in the history.
    """

    read_version: int
    operation: LanceOperation.BaseOperation
    uuid: str = field(default_factory=lambda: str(uuids.uuid4()))
    transaction_properties: Mapping[str, str] | None = field(default_factory=dict)

    @property
    def fragments(self) -> list[FragmentMetadata]:
        """The fragments that the operation adds."""
        if isinstance(self.operation, LanceOperation.Update):
            return list(self.operation.new_fragments)
        return list(getattr(self.operation, "fragments", ()))

    @classmethod
    def from_table(cls, found: transaction.Transaction | transaction.Committed) -> Transaction:
        """Convert a transaction, committed or not, to its public form."""
        operation = operation_for_users(found.operation)
        return cls(found.read_version, operation, found.uuid, dict(found.properties))

    def to_table(self) -> transaction.Transaction:
        """Convert to the form that is committed.

        Raises:
            InvalidInputError: If the operation is not one of `LanceOperation`.
        """
        operation = operation_to_commit(self.operation)
        properties = dict(self.transaction_properties or {})
        return transaction.Transaction(self.read_version, operation, self.uuid, properties)
