"""`Transaction.data_replacement`: new files for some columns of some fragments.

    fragment 0    f: 0, 1    g: 2      a file h: 2 replaces g
                                       a file h: 1 is added, and 1 no longer counts in f
    fragment 1    f: 0, 1              2 is null there: a file h: 2 is added

Source: docs/format/table.md, "Columns come and go".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedVersionError
from pilum.format.fields import FieldId
from pilum.format.pb import transaction_pb2
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, cells_of, resources
from pilum.table.commit.operations.base import Operation, require_version, with_fragments
from pilum.table.commit.operations.indices import without_fragments
from pilum.table.model.coverage import related_fields
from pilum.table.model.fragment import DataFile, Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.read.fragment_files import open_data_file
from pilum.table.read.lineage import with_changed_rows
from pilum.table.read.session import DEFAULT_SESSION

__all__ = ["DataReplacement", "Replacement"]

_TOMBSTONE = FieldId(-2)
_Message = transaction_pb2.Transaction.DataReplacement


@dataclass(frozen=True, slots=True)
class Replacement:
    """A new file of a fragment."""

    fragment_id: FragmentId
    file: DataFile


@dataclass(frozen=True, slots=True)
class DataReplacement(Operation):
    """Replaces the values of columns by one new file per fragment, all with the same fields."""

    arm = "data_replacement"
    replacements: tuple[Replacement, ...]

    @classmethod
    def from_proto(cls, message: transaction_pb2.Transaction.DataReplacement) -> DataReplacement:
        """Read the operation from its message."""
        return cls(
            tuple(
                Replacement(FragmentId(one.fragment_id), DataFile.from_proto(one.new_file))
                for one in message.replacements
            )
        )

    def to_proto(self) -> transaction_pb2.Transaction.DataReplacement:
        """Build the message of the operation."""
        return _Message(
            replacements=[
                _Message.Replacement(fragment_id=one.fragment_id, new_file=one.file.to_proto())
                for one in self.replacements
            ]
        )

    def footprint(self) -> Footprint:
        """Return a footprint that relies on its fragments and their rows.

        No other operation may replace the same values.
        """
        ids = [one.fragment_id for one in self.replacements]
        cells = cells_of((one.fragment_id, one.file.fields) for one in self.replacements)
        fields = {number for one in self.replacements for number in one.file.fields}
        return Footprint.of(
            relies_on=(
                *(Kind.HISTORY, Kind.MEMTABLES, Kind.FRAGMENT_LIST, Kind.REQUIRED_COLUMNS),
                *resources(Kind.WHOLE_FRAGMENT, ids),
                *resources(Kind.PLACES, ids),
                *resources(Kind.INDEXED_FIELD, fields),
                *cells,
            ),
            changes=(
                *(Kind.ROWS, Kind.WRITTEN_VALUES),
                *resources(Kind.FRAGMENT, ids),
                *resources(Kind.REPLACED_FIELD, fields),
                *cells,
            ),
        )

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation after opening and checking the new files.

        InvalidInputError is raised if a file does not have the rows of its fragment, or the table
        does not have the fragment.
        """
        fragments = {fragment.id: fragment for fragment in manifest.fragments}
        for one in self.replacements:
            if one.fragment_id not in fragments:
                raise InvalidInputError(f"the table has no fragment {one.fragment_id}")
            found = open_data_file(DEFAULT_SESSION, store, one.file).num_rows
            expected = fragments[one.fragment_id].physical_rows
            if found != expected:
                raise InvalidInputError(
                    f"data file {one.file.path} has {found} rows, fragment {one.fragment_id} "
                    f"{expected}"
                )
        return self

    def apply(self, manifest: Manifest) -> Manifest:
        """Return the manifest with the new files, and without files that they fully replace."""
        files = {one.fragment_id: one.file for one in self.replacements}
        fields = self._fields(manifest)
        version = manifest.version + 1
        fragments = tuple(
            with_changed_rows(_with_file(fragment, files[fragment.id]), None, version)
            if fragment.id in files
            else fragment
            for fragment in manifest.fragments
        )
        related = related_fields(manifest.schema, fields)
        section = without_fragments(manifest.index_section, [*files], related)
        return with_fragments(manifest, fragments, section=section)

    def _fields(self, manifest: Manifest) -> set[FieldId]:
        """Return the fields that all files have."""
        found = [one.fragment_id for one in self.replacements]
        if len(set(found)) < len(found) or not found:
            raise InvalidInputError(f"expected one file for each fragment, found some for {found}")
        fields = set(self.replacements[0].file.fields)
        for one in self.replacements:
            if set(one.file.fields) != fields:
                raise InvalidInputError(
                    f"data file {one.file.path} has the fields {sorted(one.file.fields)}, another "
                    f"{sorted(fields)}"
                )
        if unknown := {one for one in fields if manifest.schema.find(one) is None}:
            raise SchemaMismatchError(f"the table has no fields {sorted(unknown)}")
        new = [Fragment(one.fragment_id, (one.file,), 1) for one in self.replacements]
        require_version(new, manifest)
        return fields


def _with_file(fragment: Fragment, new: DataFile) -> Fragment:
    """Return the fragment in which a file supplies its fields."""
    fragment = fragment.with_other_values(new.fields)
    files = list(fragment.files)
    for index, file in enumerate(files):
        if file.fields == new.fields and (file.major, file.minor) == (new.major, new.minor):
            files[index] = new
            return replace(fragment, files=tuple(files))
    if not new.column_indices:
        raise UnsupportedVersionError(
            f"fragment {fragment.id}: files of version 0.1 can only be replaced by files with the "
            "same fields"
        )
    left = (_without(file, new.fields) for file in files)
    return replace(fragment, files=(*(file for file in left if file is not None), new))


def _without(file: DataFile, fields: tuple[FieldId, ...]) -> DataFile | None:
    """Return the file with some fields disabled; None if no field is left."""
    left = file.without(fields)
    return None if set(left.fields) == {_TOMBSTONE} else left
