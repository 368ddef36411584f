"""Helpers for operations that add fragments: assign ids, and check fragments with the schema."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from pilum.errors import InvalidInputError, SchemaMismatchError, UnsupportedVersionError
from pilum.format.schema import Field, FieldId, Schema
from pilum.format.version import FileVersion
from pilum.table.model.features import Feature
from pilum.table.model.fragment import Fragment, FragmentId
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import data_path
from pilum.table.model.stored_sequence import HIDDEN_IDS

__all__ = [
    "data_format_of",
    "data_paths",
    "numbered",
    "require_fits",
    "require_version",
    "with_needed_files",
]


def numbered(fragments: Iterable[Fragment], highest_id: int) -> tuple[Fragment, ...]:
    """Assign ids above `highest_id` to the fragments whose id is 0, in order."""
    result = []
    for fragment in fragments:
        if fragment.id == 0:
            highest_id += 1
            fragment = replace(fragment, id=FragmentId(highest_id))
        result.append(fragment)
    return tuple(result)


def data_paths(fragments: Iterable[Fragment]) -> tuple[str, ...]:
    """Return paths of data files below the root of the table, without files of base paths."""
    return tuple(
        data_path(file.path)
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
    return replace(fragment, files=files or fragment.files[:1])


def require_fits(
    fragments: Iterable[Fragment], schema: Schema, *, may_have_more: bool = False
) -> None:
    """Check new fragments against the schema.

    Args:
        fragments: The new fragments.
        schema: Schema of the table.
        may_have_more: Whether files may have fields that the table does not have.

    Raises:
        SchemaMismatchError: If a file has a field that the table does not have, or if a
            non-nullable column is missing.
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
    for field in fields:
        path = prefix + field.name
        if found.isdisjoint(inner.id for inner in field.walk()):
            if not field.nullable:
                yield path
        elif field.id not in found:  # otherwise a packed struct, whose members have no columns
            yield from _missing(field.children, found, f"{path}.")


def require_version(fragments: Iterable[Fragment], manifest: Manifest) -> None:
    """Check the file versions of new fragments.

    Raises:
        UnsupportedVersionError: If a version differs from the table's, which does not mix versions.
    """
    if manifest.writer_flags & Feature.MIXED_DATA_FILE_VERSIONS:
        return
    if other := data_format_of(fragments) - {manifest.data_format}:
        raise UnsupportedVersionError(
            f"the table has data files of version {manifest.data_format}; "
            f"files of version {', '.join(sorted(other))} cannot be added"
        )
