"""`Transaction.update_bases`: additional folders that may contain files of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pilum.format.pb import transaction_pb2
from pilum.table.commit.footprint import Footprint, Kind, resources
from pilum.table.commit.operations.base import Operation
from pilum.table.model.base_paths import BasePath, with_new_bases
from pilum.table.model.manifest import Manifest

__all__ = ["UpdateBases"]


@dataclass(frozen=True, slots=True)
class UpdateBases(Operation):
    """Adds base paths.

    Attributes:
        new: The base paths; an id of 0 means "give it the next free id".
    """

    arm = "update_bases"
    new: tuple[BasePath, ...]

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.UpdateBases) -> UpdateBases:
        """Read the operation from its message."""
        return cls(tuple(map(BasePath.from_proto, message.new_bases)))

    def to_proto(self) -> transaction_pb2.Transaction.UpdateBases:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.UpdateBases(
            new_bases=[base.to_proto() for base in self.new]
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on ids, names and paths that no other commit has taken."""
        own = resources(Kind.BASE_PATH, (key for base in self.new for key in _keys(base)))
        return Footprint(own, own)

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new base paths."""
        return replace(manifest, base_paths=with_new_bases(manifest.base_paths, self.new))


def _keys(base: BasePath) -> Iterator[str]:
    yield f"path {base.path}"
    if base.name is not None:
        yield f"name {base.name}"
    if base.id:
        yield f"id {base.id}"
