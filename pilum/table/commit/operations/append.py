"""`Transaction.append`: new fragments at the end; nothing that exists changes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import CommitConflictError
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import (
    Operation,
    all_by_id,
    data_paths,
    numbered,
    require_fits,
    require_version,
)
from pilum.table.model.fragment import Fragment
from pilum.table.model.manifest import Manifest

__all__ = ["Append"]


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Adds rows.

    Attributes:
        fragments: The new rows; an id of 0 means "give it the next free id".
        written_for: The columns that the table had when the rows were written, None if they are not
            known; not part of the transaction.
    """

    arm = "append"
    fragments: tuple[Fragment, ...]
    written_for: Schema | None = field(default=None, compare=False, repr=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Append) -> Append:
        """Read the operation from its message."""
        return cls(tuple(map(Fragment.from_proto, message.fragments)))

    def to_proto(self) -> transaction_pb2.Transaction.Append:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Append(
            fragments=[fragment.to_proto() for fragment in self.fragments]
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on the same table, with the same required columns."""
        return Footprint.of(
            relies_on=(Kind.HISTORY, Kind.REQUIRED_COLUMNS, Kind.MEMTABLES),
            changes=(Kind.ROWS, Kind.WRITTEN_VALUES, Kind.NEW_ROWS),
        )

    def fits(self, read: Manifest, manifest: Manifest) -> bool:
        """Return whether the table has the same columns, and still some of the same files."""
        if _columns(read.schema) != _columns(manifest.schema):
            return False
        return not set(data_paths(read.fragments)).isdisjoint(data_paths(manifest.fragments))

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments with the new rows."""
        return self.fragments

    def new_files(self) -> tuple[str, ...]:
        """Return the paths of the data files."""
        return data_paths(self.fragments)

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation, if no other columns took the place of its own.

        A column that was dropped since would have been dropped from the new rows too. But one that
        was rewritten under a new id, as by a cast, would be null in them: that is a
        CommitConflictError.
        """
        if self.written_for is None:
            return self
        known = {found.id for found in self.written_for.walk()}
        current = {found.id for found in manifest.schema.walk()}
        lost = known.difference(current).intersection(
            number for one in self.fragments for file in one.files for number in file.fields
        )
        if lost and not current <= known:
            names = [self.written_for.path(number) for number in sorted(lost)]
            raise CommitConflictError(
                f"{store.uri}: the append conflicts with a change of columns up to version "
                f"{manifest.version}: the table has others in the place of {names}; do it again on "
                "the latest version",
                retryable=True,
                operation=self.arm,
                version=manifest.version,
            )
        return self

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new fragments after its own."""
        may_have_more = self.written_for is not None  # some of them were dropped since
        require_fits(self.fragments, manifest.schema, may_have_more=may_have_more)
        require_version(self.fragments, manifest)
        new = numbered(self.fragments, manifest.highest_fragment_id)
        return replace(manifest, fragments=all_by_id(manifest.fragments, new))


def _columns(schema: Schema) -> list[tuple[object, ...]]:
    """Return everything about the columns that files of rows depend on."""
    return [(one.id, one.name, one.logical_type, one.nullable) for one in schema.walk()]
