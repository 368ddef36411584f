"""The interface of operations, and what those share that add fragments or remove rows.

An operation is a message of `Transaction`, a footprint and an effect. New fragments get ids and are
checked against the schema. If the removed rows of an operation are known, it can
follow another one that removed other rows of the same fragment:

    read version     fragment 0    deleted 1
    this operation   fragment 0    deleted 1 + 5        ──▶  1 + 3 + 5, in a new deletion file
    concurrently     fragment 0    deleted 1 + 3

Source: docs/format/table.md, "Conflicts".
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedVersionError
from pilum.format.fields import Field, FieldId
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.commit.footprint import Footprint, Kind, Resource, resources
from pilum.table.commit.operations.indices import retained_indices
from pilum.table.model.base_paths import BasePath
from pilum.table.model.deletion_vector import DeletionVector, load_deletions, store_deletions
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.next_fragments import ChangedFragments, GrownFragments
from pilum.table.model.stored_fragments import StoredFragments
from pilum.table.model.stored_sequence import HIDDEN_IDS

__all__ = [
    "Amount",
    "Marked",
    "Operation",
    "RemovesRows",
    "all_by_id",
    "data_format_of",
    "data_paths",
    "numbered",
    "require_fits",
    "require_known",
    "require_same_rows",
    "require_version",
    "with_fragments",
    "with_needed_files",
]


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount that was written: rows, files of data or of indices, and their bytes."""

    num_rows: int = 0
    num_files: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> Amount:
        """Count the rows and files of new fragments."""
        files = [file for fragment in fragments for file in fragment.files]
        num_rows = sum(fragment.physical_rows for fragment in fragments)
        return cls(num_rows, len(files), sum(file.size_bytes or 0 for file in files))


class Operation(ABC):
    """A change of a table, independent of the version that it is applied to."""

    arm: ClassVar[str]
    """Name of its message in the oneof of `Transaction`."""

    creates: ClassVar[bool] = False
    """Whether it can be the first commit of a table."""

    mends: ClassVar[bool] = False
    """Whether it may follow a damaged version, whose content is discarded."""

    writes_rows: ClassVar[bool] = True
    """Whether rows of fragments that the version before lacks are new or changed."""

    @classmethod
    @abstractmethod
    def from_proto(cls, message: Any) -> Self:
        """Read the operation from its message."""

    @abstractmethod
    def to_proto(self) -> Any:
        """Build the message of the operation."""

    @abstractmethod
    def footprint(self) -> Footprint:
        """Return what the operation relies on and what it changes."""

    def prepared(self, store: Store, manifest: Manifest) -> Self:
        """Return the operation prepared for exactly one preceding version.

        It reads or writes whatever it needs for that version.

        Called before every `apply`, with the same manifest. The next attempt prepares the result,
        so that an operation reads only once what is the same for all versions.

        Raises:
            CommitConflictError: If the operation cannot follow that version.
            NotFoundError: If table data that it needs does not exist.
        """
        del store, manifest
        return self

    @abstractmethod
    def apply(self, manifest: Manifest) -> Manifest:
        """Return the content of the version after `manifest`.

        The parts that all versions share are added later.

        Raises:
            InvalidInputError: If the operation does not fit the table.
            SchemaMismatchError: If new files do not fit the schema.
            UnsupportedVersionError: If the version of new files is not the table's.
            CorruptFileError: If the indices of the table are damaged.
        """

    def new_files(self) -> tuple[str, ...]:
        """Return the paths of files written for it, which are unused if it is not committed."""
        return ()

    @property
    def new_fragments(self) -> tuple[Fragment, ...]:
        """The fragments that it adds; `new_files` lacks their data files in base paths."""
        return ()

    @property
    def amount(self) -> Amount:
        """The amount that was written for it, without columns of rows that stay."""
        return Amount.of(self.new_fragments)

    @property
    def new_bases(self) -> tuple[BasePath, ...]:
        """The base paths of a table that it creates."""
        return ()

    def fits(self, read: Manifest, manifest: Manifest) -> bool:
        """Return whether two versions show that it can follow, although those between are gone.

        `read` is the version that it was made for, `manifest` the newest one.
        """
        del read, manifest
        return False

    @property
    def can_follow_more(self) -> bool:
        """Return whether to call `rebase` also after conflicts that otherwise require a retry."""
        return False

    def rebase(self, store: Store, manifest: Manifest) -> Operation | None:
        """Return the operation for a version with mergeable changes of others; None if impossible.

        New files may be written to the store.

        Raises:
            CommitConflictError: If it cannot be merged for a specific reason.
            DatasetAlreadyExistsError: If the operation was to create the table.
        """
        del store, manifest
        return None


def numbered(fragments: Iterable[Fragment], highest_id: int) -> tuple[Fragment, ...]:
    """Assign ids above `highest_id` to the fragments whose id is 0, in order."""
    result = []
    for fragment in fragments:
        if fragment.id == 0:
            highest_id += 1
            fragment = replace(fragment, id=FragmentId(highest_id))
        result.append(fragment)
    return tuple(result)


def all_by_id(kept: Iterable[Fragment], new: Iterable[Fragment]) -> Fragments:
    """Return the fragments of a table and new ones by ascending id, which must not be taken."""
    added = sorted(new, key=lambda fragment: fragment.id)
    if isinstance(kept, Fragments) and _are_followed_by(kept, added):
        return GrownFragments(kept, added)
    fragments = sorted((*kept, *added), key=lambda fragment: fragment.id)
    if len({fragment.id for fragment in fragments}) < len(fragments):
        ids = [fragment.id for fragment in added]
        raise InvalidInputError(f"new fragments have ids that are taken: among {ids}")
    return Fragments(fragments)


def _are_followed_by(kept: Fragments, added: Sequence[Fragment]) -> bool:
    """Return whether all ids ascend, so that the kept fragments need not be looked at."""
    ids = np.concatenate((kept.ids, [fragment.id for fragment in added]))
    return bool((ids[1:] > ids[:-1]).all())


def with_fragments(
    manifest: Manifest,
    fragments: Iterable[Fragment],
    *,
    schema: Schema | None = None,
    section: bytes | None = None,
) -> Manifest:
    """Return a manifest with other fragments and columns, and the indices that these still need.

    The indices are chosen from `section`, or else from those of the manifest.
    """
    schema = manifest.schema if schema is None else schema
    section = manifest.index_section if section is None else section
    content = fragments if isinstance(fragments, Fragments) else Fragments(fragments)
    indices = retained_indices(section, schema, content) if section else b""
    return replace(manifest, schema=schema, fragments=content, index_section=indices)


def data_paths(fragments: Iterable[Fragment]) -> tuple[str, ...]:
    """Return paths of data files below the root of the table, without files of base paths."""
    return tuple(
        file.path_in_table
        for fragment in fragments
        for file in fragment.files
        if file.base_id is None
    )


def data_format_of(fragments: Iterable[Fragment]) -> set[str]:
    """Return the file versions that the fragments use, as a manifest spells them."""
    files = (file for fragment in fragments for file in fragment.files)
    return {_data_format(file.major, file.minor) for file in files}


def _data_format(major: int, minor: int) -> str:
    try:
        return str(FileVersion.from_numbers(major, minor))
    except UnsupportedVersionError:
        return f"{major}.{minor}"


def with_needed_files(fragment: Fragment, field_ids: Collection[FieldId]) -> Fragment:
    """Return the fragment without files that have none of the fields.

    If no file has one, the first file stays.

    Files that have one keep all of their entries, and so do files with row ids.
    """
    needed = HIDDEN_IDS.union(field_ids)
    files = tuple(file for file in fragment.files if not needed.isdisjoint(file.fields))
    overlays = tuple(one for one in fragment.overlays if one.covers(needed))
    return replace(fragment, files=files or fragment.files[:1], overlays=overlays)


def require_fits(
    fragments: Iterable[Fragment], schema: Schema, *, may_have_more: bool = False
) -> None:
    """Check new fragments against the schema of the table.

    Raises:
        SchemaMismatchError: If a file has a field that the table does not have and that is not
            allowed, or if a non-nullable column is missing.
        InvalidInputError: If a fragment has no rows or no files.
    """
    known = {field.id for field in schema.walk()}
    for fragment in fragments:
        if not fragment.files or fragment.physical_rows <= 0:
            raise InvalidInputError(f"a new fragment without rows: {fragment}")
        found = {field for file in fragment.files for field in file.fields if field >= 0}
        if not may_have_more and (extra := found - known):
            raise SchemaMismatchError(
                f"fragment file {fragment.files[0].path} has the field ids {sorted(extra)}, "
                "which the table does not have"
            )
        for path in _missing(schema.fields, found):
            raise SchemaMismatchError(
                f"fragment file {fragment.files[0].path} lacks column {path!r}, "
                "which must not be null"
            )


def _missing(fields: Iterable[Field], found: set[FieldId], prefix: str = "") -> Iterator[str]:
    for one in fields:
        path = prefix + one.name
        if found.isdisjoint(inner.id for inner in one.walk()):
            if not one.nullable:
                yield path
        elif one.id not in found:  # otherwise a packed struct, whose members have no columns
            yield from _missing(one.children, found, f"{path}.")


def require_version(fragments: Iterable[Fragment], manifest: Manifest) -> None:
    """Raise UnsupportedVersionError if new files differ from a table that does not mix versions."""
    if manifest.writer_flags & Feature.MIXED_DATA_FILE_VERSIONS:
        return
    if other := data_format_of(fragments) - {manifest.data_format}:
        raise UnsupportedVersionError(
            f"the table has data files of version {manifest.data_format:.40}; "
            f"files of version {', '.join(sorted(other))} cannot be added"
        )


@dataclass(frozen=True, slots=True)
class Marked:
    """The rows of a fragment that an operation selected.

    Attributes:
        before: The fragment in the version that was read.
        rows: The selected rows that were not already deleted; None for all rows.
    """

    before: Fragment
    rows: DeletionVector | None


@dataclass(frozen=True, slots=True)
class RemovesRows(Operation):
    """An operation that removes rows from fragments.

    Attributes:
        updated: Changed fragments, with their new deletion files.
        removed: Fragments without live rows.
        marked: The selected rows of each of these fragments; None where they are unknown, as in an
            operation of another writer. Not part of the transaction.
    """

    updated: tuple[Fragment, ...] = ()
    removed: tuple[FragmentId, ...] = ()
    marked: Mapping[FragmentId, Marked] | None = field(default=None, compare=False, kw_only=True)

    @property
    def touched(self) -> frozenset[Resource]:
        """Return the resources of the fragments that must not change."""
        ids = (*(fragment.id for fragment in self.updated), *self.removed)
        return resources(Kind.DELETED_ROWS, ids) | resources(Kind.FRAGMENT, ids)

    @property
    def changed(self) -> frozenset[Resource]:
        """Return the resources of the fragments that change for others."""
        updated = resources(Kind.DELETED_ROWS, (fragment.id for fragment in self.updated))
        return updated | resources(Kind.FRAGMENT, self.removed)

    def new_files(self) -> tuple[str, ...]:
        """Return the deletion files, unless another writer wrote them."""
        return tuple(
            fragment.deletion_file.path(fragment.id)
            for fragment in self.updated
            if fragment.deletion_file and self.marked and fragment.id in self.marked
        )

    def remaining(self, fragments: Fragments) -> Fragments:
        """Return a table's fragments with the new deletion files, without the removed fragments."""
        require_known(fragments, (*self.removed, *(fragment.id for fragment in self.updated)))
        updated, removed = {image.id: image for image in self.updated}, set(self.removed)
        if isinstance(fragments, StoredFragments) and fragments.are_distinct:
            touched = [fragments[fragments.place_of(number)] for number in updated]
            changed = {one.id: _updated(one, updated[one.id]) for one in touched}
            return ChangedFragments(fragments, changed, removed)
        return Fragments(
            _updated(one, updated[one.id]) if one.id in updated else one
            for one in fragments
            if one.id not in removed
        )

    def rebase(self, store: Store, manifest: Manifest) -> Self | None:
        """Add the rows that others deleted concurrently to the deletion files.

        It cannot be merged if the rows are unknown, were changed by others too, or have moved.
        """
        if self.marked is None:
            return None
        current = {fragment.id: fragment for fragment in manifest.fragments}
        merged: dict[FragmentId, DeletionVector] = {}
        for number, marked in self.marked.items():
            theirs = current.get(number)
            if theirs != marked.before:
                vector = _merged(store, marked, theirs)
                if vector is None:
                    return None
                merged[number] = vector
        full = [number for number in merged if len(merged[number]) == current[number].physical_rows]
        parts = [(current[number], merged[number]) for number in merged if number not in full]
        written = store_deletions(store, parts, manifest.version, as_bitmap=True)
        again = {fragment.id: fragment for fragment in written}
        return replace(
            self,
            updated=tuple(again.get(own.id, own) for own in self.updated if own.id not in full),
            removed=(*self.removed, *full),
            marked={
                number: replace(marked, before=current[number])
                for number, marked in self.marked.items()
            },
        )


def require_known(fragments: Fragments, ids: Iterable[FragmentId]) -> None:
    """Raise InvalidInputError if a table does not have one of the fragments."""
    if missing := set(ids).difference(fragments.ids.tolist()):
        raise InvalidInputError(f"the table has no fragments {sorted(missing)}")


def _merged(store: Store, mine: Marked, theirs: Fragment | None) -> DeletionVector | None:
    """Return all deleted rows of a fragment; None if unknown, or if rows are deleted twice."""
    if theirs is None or mine.rows is None or theirs.files != mine.before.files:
        return None
    deleted = load_deletions(store, theirs)
    if deleted is None:
        return mine.rows
    return None if deleted.meets(mine.rows) else deleted.union(mine.rows)


def _updated(fragment: Fragment, image: Fragment) -> Fragment:
    """Return a fragment with other deleted rows.

    Others may have dropped some of its files concurrently.
    """
    require_same_rows(fragment, image)
    return replace(fragment, deletion_file=image.deletion_file)


def require_same_rows(fragment: Fragment, image: Fragment) -> None:
    """Raise InvalidInputError if a changed fragment has another number of rows; 0 is unknown."""
    if image.physical_rows not in {0, fragment.physical_rows}:
        raise InvalidInputError(
            f"fragment {fragment.id} has {fragment.physical_rows} rows, not {image.physical_rows}"
        )
