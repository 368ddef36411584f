"""`Transaction.merge`: added or changed columns; every fragment may get one more file.

fragment 0     f: 0, 1                 f: 0, 1    h: 2
fragment 1     g: 0, 1        ──▶      g: 0, 1    i: 2

A file that no longer has any of the columns is removed, as after a `Project`. New fragments are
possible too: then the operation appends rows with more columns. It can follow any concurrent change
of the other rows as long as the columns are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

from pilum.errors import InvalidInputError, SchemaMismatchError
from pilum.format.pb import transaction_pb2
from pilum.format.schema import Schema
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind
from pilum.table.commit.operations.base import (
    Operation,
    numbered,
    require_fits,
    require_version,
    with_fragments,
    with_needed_files,
)
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import data_path
from pilum.table.read.lineage import with_changed_rows
from pilum.table.write.align import require_sound_keys

__all__ = ["Merge", "appended_to"]


@dataclass(frozen=True, slots=True)
class Merge(Operation):
    """Adds columns.

    Attributes:
        schema: All columns; existing columns keep their ids.
        fragments: All fragments, with their new files.
        preserves_nullability: Whether rows may lack the new columns.
        written: Paths of the data files that are useless if it is not committed; not part of the
            transaction.
        appended: The new fragments in `fragments`, if nothing else in them is new; not part of the
            transaction.
        read_schema: The columns of the version that was read, if there are `appended` fragments.
    """

    arm = "merge"
    schema: Schema
    fragments: tuple[Fragment, ...]
    preserves_nullability: bool = False
    written: tuple[str, ...] = field(default=(), compare=False)
    appended: tuple[Fragment, ...] = field(default=(), compare=False)
    read_schema: Schema | None = field(default=None, compare=False)

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.Merge) -> Merge:
        """Read the operation from its message."""
        return cls(
            Schema.from_proto(message.schema, message.schema_metadata),
            tuple(map(Fragment.from_proto, message.fragments)),
            message.preserves_nullability,
        )

    def to_proto(self) -> transaction_pb2.Transaction.Merge:
        """Build the message of the operation."""
        return transaction_pb2.Transaction.Merge(
            fragments=[fragment.to_proto() for fragment in self.fragments],
            schema=self.schema.to_proto(),
            schema_metadata=self.schema.metadata_to_proto(),
            preserves_nullability=self.preserves_nullability,
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on all rows and columns being unchanged."""
        required = () if self.preserves_nullability else (Kind.REQUIRED_COLUMNS,)
        return Footprint.of(
            relies_on=(
                Kind.HISTORY,
                Kind.MEMTABLES,
                Kind.FRAGMENT_LIST,
                Kind.ROWS,
                Kind.PROJECTION,
                Kind.DESCRIPTIONS,
            ),
            changes=(Kind.FRAGMENT_LIST, Kind.COLUMNS, Kind.SCHEMA, *required),
        )

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments with the new rows."""
        return self.appended

    def new_files(self) -> tuple[str, ...]:
        """Return the data files, unless another writer wrote them."""
        return tuple(map(data_path, self.written))

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new schema and the new files."""
        require_sound_keys(self.schema)
        ours = {fragment.id: fragment for fragment in manifest.fragments}
        theirs = {one.id: one for one in self.fragments if one.id in ours}
        new = tuple(one for one in self.fragments if one.id not in ours)
        if theirs.keys() != ours.keys() or len(theirs) + len(new) != len(self.fragments):
            raise InvalidInputError(
                f"a merge of the fragments {[one.id for one in self.fragments]}; "
                f"the table has {[*ours]}"
            )
        for number, fragment in theirs.items():
            _require_grown(ours[number], fragment, self.schema)
        ids = {field.id for field in self.schema.walk()}
        version = manifest.version + 1
        kept = (
            with_needed_files(_grown(ours[number], theirs[number], version), ids) for number in ours
        )
        fragments = (*kept, *self._numbered(new, manifest))
        return with_fragments(manifest, fragments, schema=self.schema)

    @property
    def can_follow_more(self) -> bool:
        """Return whether it only appends: then the existing fragments are unchanged."""
        return bool(self.appended)

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Return the operation with its rows after those that the table has now.

        It cannot be merged if the table has other columns now.
        """
        del store
        if not self.appended or manifest.schema != self.read_schema:
            return None
        known = {field.id for field in manifest.schema.walk()}
        added = {field.id for field in self.schema.walk()} - known
        in_files = (file for one in manifest.fragments for file in one.files)
        if any(not added.isdisjoint(file.fields) for file in in_files):
            return None
        return replace(self, fragments=appended_to(manifest, self.appended))

    def _numbered(self, new: tuple[Fragment, ...], manifest: Manifest) -> tuple[Fragment, ...]:
        """Assign ids to new fragments; others may have reserved their ids."""
        require_fits(new, self.schema)
        require_version(new, manifest)
        return appended_to(manifest, new)[len(manifest.fragments) :]


def appended_to(manifest: Manifest, new: tuple[Fragment, ...]) -> tuple[Fragment, ...]:
    """Return all fragments of a version, followed by new ones."""
    unassigned = (replace(fragment, id=FragmentId(0)) for fragment in new)
    return (*manifest.fragments, *numbered(unassigned, manifest.highest_fragment_id))


def _grown(old: Fragment, new: Fragment, version: int) -> Fragment:
    """Return a fragment with more files.

    Its rows stay, and have new values if a file supplies some.
    """
    if new.files == old.files:
        return old
    return with_changed_rows(replace(old, files=new.files), None, version)


def _require_grown(old: Fragment, new: Fragment, schema: Schema) -> None:
    same = (old.physical_rows, old.deletion_file) == (new.physical_rows, new.deletion_file)
    kept, added = new.files[: len(old.files)], new.files[len(old.files) :]
    # Before 2.0 files list structs too, and only the file with the newest member still lists them.
    moved = {field.id for field in schema.walk() if field.is_struct}.intersection(
        field for file in added if not file.column_indices for field in file.fields
    )
    files = tuple(file.without(moved) for file in old.files)
    if not same or kept != files:
        raise InvalidInputError(
            f"fragment {old.id}: a merge adds files; it replaces none, and no rows"
        )
    known = {field.id for field in schema.walk()}
    present = {field for file in files for field in file.fields}
    for file in added:
        if extra := {field for field in file.fields if field >= 0} - (known - present):
            raise SchemaMismatchError(
                f"data file {file.path} has the field ids {sorted(extra)}, which are in another "
                "file or not in the schema"
            )
