"""`Transaction.restore`: the content of an old version becomes the newest version.

version 1    a            ids up to 0
version 2    a b          ids up to 1
version 3    a            ids up to 1     <- restore of 1: its content, but ids continue
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import Operation
from pilum.table.model.features import Feature
from pilum.table.model.manifest import Manifest, require_readable
from pilum.table.versions.history import load_version

__all__ = ["Restore"]


@dataclass(frozen=True, slots=True)
class Restore(Operation):
    """Restores the schema, rows, indices, config and metadata of a version.

    Attributes:
        version: Number of the version.
        content: Its content, once `prepared`. It is not part of the transaction.
    """

    arm = "restore"
    mends = True
    writes_rows = False
    version: int
    content: Manifest | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Restore) -> Restore:
        """Read the operation from its message."""
        return cls(message.version)

    def to_proto(self) -> transaction_pb2.Transaction.Restore:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Restore(version=self.version)

    def footprint(self) -> Footprint:
        """Return a footprint that ignores changes of rows, but not new metadata of columns."""
        return Footprint.of(relies_on=(Kind.METADATA, Kind.MEMTABLES), changes=(Kind.HISTORY,))

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation with the content of its version, which must exist.

        UnsupportedFeatureError is raised if the version uses a feature that would be lost.
        """
        del manifest
        if self.content is not None:
            return self
        content = load_version(store, self.version)
        where = f"{store.uri}, version {self.version}"
        require_readable(content.reader_flags, where)
        content.require_continuable(where)
        return replace(self, content=content)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the old manifest, with its own writer; id counters are never set back."""
        if self.content is None:
            raise InvalidInputError(f"version {self.version} is not prepared")
        lost = manifest.reader_flags & ~self.content.reader_flags
        if lost & Feature.STABLE_ROW_IDS:
            raise InvalidInputError(f"version {self.version} has no stable row ids")
        highest = max(self.content.highest_fragment_id, manifest.highest_fragment_id)
        marks = (self.content.max_allocated_field_id, manifest.max_allocated_field_id)
        managed = manifest.reader_flags & Feature.MANAGED_BLOBS
        return replace(
            self.content,
            reader_flags=self.content.reader_flags | managed,
            max_fragment_id=None if highest < 0 else highest,
            next_row_id=max(self.content.next_row_id, manifest.next_row_id),
            max_allocated_field_id=max((one for one in marks if one is not None), default=None),
        )
