"""`Transaction.append`: new fragments at the end; nothing that exists changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pilum.errors import InvalidInputError
from pilum.format.pb import transaction_pb2
from pilum.table.commits.footprint import Footprint, Kind
from pilum.table.fragment import Fragment
from pilum.table.manifest import Manifest
from pilum.table.operations.base import Operation
from pilum.table.operations.fragments import (
    data_paths,
    numbered,
    require_fits,
    require_version,
)

__all__ = ["Append"]


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Adds rows.

    Attributes:
        fragments: The new rows; an id of 0 means "give it the next free id".
    """

    arm = "append"
    fragments: tuple[Fragment, ...]

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Append) -> Append:
        """Reads the message of the arm."""
        return cls(tuple(map(Fragment.from_proto, message.fragments)))

    def to_proto(self) -> transaction_pb2.Transaction.Append:
        """Builds the message of the arm."""
        return transaction_pb2.Transaction.Append(
            fragments=[fragment.to_proto() for fragment in self.fragments]
        )

    def footprint(self) -> Footprint:
        """The table must still be the same one, with the same required columns."""
        return Footprint.of(
            relies_on=(Kind.HISTORY, Kind.REQUIRED_COLUMNS, Kind.MEMTABLES),
            changes=(Kind.ROWS, Kind.WRITTEN_VALUES, Kind.NEW_ROWS),
        )

    def new_files(self) -> tuple[str, ...]:
        """The data files."""
        return data_paths(self.fragments)

    def apply(self, manifest: Manifest) -> Manifest:
        """The manifest with the new fragments after its own.

        Raises:
            SchemaMismatchError: If the files do not fit the schema.
            UnsupportedVersionError: If their version is not the table's.
            InvalidInputError: If a fragment has an id that is taken.
        """
        require_fits(self.fragments, manifest.schema)
        require_version(self.fragments, manifest)
        new = numbered(self.fragments, manifest.highest_fragment_id)
        fragments = sorted((*manifest.fragments, *new), key=lambda fragment: fragment.id)
        if len({fragment.id for fragment in fragments}) != len(fragments):
            ids = sorted(fragment.id for fragment in self.fragments if fragment.id)
            raise InvalidInputError(f"new fragments have ids that are taken: among {ids}")
        return replace(manifest, fragments=tuple(fragments))
