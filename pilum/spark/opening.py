"""Resolution of the options to a version, and of its columns to the schema that Spark sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from pilum.errors import InvalidInputError
from pilum.spark.names import stored_paths
from pilum.spark.options import Options
from pilum.table.read.json_columns import text_schema
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference, locate
from pilum.table.versions.branch_root import Line, uri_of_line
from pilum.table.versions.open import open_table

__all__ = ["asked_schema", "branch_uri", "open_snapshot", "pin", "seen_schema", "to_write"]


def open_snapshot(options: Options) -> Snapshot:
    """Return the version that the options name, or the latest one.

    Raises:
        DatasetNotFoundError: If there is no table at the path.
        VersionNotFoundError: If the table has no such version.
        TagNotFoundError: If there is no such tag.
        BranchNotFoundError: If there is no such branch.
    """
    return pin(options)[1]


def pin(options: Options) -> tuple[Options, Snapshot]:
    """Return the version that the options name, and options pinned to this version.

    Raises:
        The errors of `open_snapshot`.
    """
    here = Line.at(open_table(options.path, options.storage_options))
    reference = _reference(options)
    if reference is None:
        line = here if options.branch is None else locate(here, (options.branch, None)).line
        store = line.store
        found = Snapshot.as_of(store, options.as_of) if options.as_of else Snapshot.latest(store)
    else:
        located = locate(here, reference)
        line, found = located.line, Snapshot.at(located.line.store, located.version)
    path = uri_of_line(options.path, here.branch, line.branch)
    version = found.manifest.version
    return replace(options, path=path, version=version, as_of=None, branch=None), found


def to_write(options: Options) -> Options:
    """Return the options of a writer, with the location of the branch that they name.

    Raises:
        InvalidInputError: If the options name a version.
        DatasetNotFoundError: If they name a branch of a table that does not exist.
        BranchNotFoundError: If there is no such branch.
    """
    for name, value in (("version", options.version), ("asOf", options.as_of)):
        if value is not None:
            raise InvalidInputError(
                f"option {name!r}: only the latest version can be written to, of a table or, with "
                'the option "branch", of a branch'
            )
    path = branch_uri(options.path, options.branch, options.storage_options)
    return replace(options, path=path, branch=None)


def branch_uri(uri: str, branch: str | None, storage_options: Mapping[str, str] | None) -> str:
    """Return the location of a branch; the location of the table if no branch is named.

    Raises:
        DatasetNotFoundError: If there is no table.
        BranchNotFoundError: If there is no such branch.
    """
    if branch is None:
        return uri
    here = Line.at(open_table(uri, storage_options))
    return uri_of_line(uri, here.branch, locate(here, (branch, None)).line.branch)


def seen_schema(
    snapshot: Snapshot, columns: Sequence[str] | None, *, payloads: bool = False
) -> pa.Schema:
    """Return the Arrow schema of a scan, with JSON as text.

    Args:
        snapshot: The version.
        columns: Names or dotted paths; all if None.
        payloads: Whether blob columns contain bytes instead of descriptors.

    Raises:
        ColumnNotFoundError: If there is no such column.
    """
    names = None if columns is None else tuple(columns)
    return text_schema(scan_schema(snapshot, ScanOptions(columns=names, with_payloads=payloads)))


def asked_schema(snapshot: Snapshot, options: Options) -> pa.Schema:
    """Return the columns that the options select, under the names that the options use.

    Raises:
        ColumnNotFoundError: If there is no such column.
        InvalidInputError: If a name is ambiguous.
    """
    payloads = options.blobs == "payloads"
    if options.columns is None:
        return seen_schema(snapshot, None, payloads=payloads)
    paths = stored_paths(
        options.columns, snapshot.described.arrow, case_sensitive=options.case_sensitive
    )
    seen = seen_schema(snapshot, paths, payloads=payloads)
    return pa.schema(
        [field.with_name(name) for name, field in zip(options.columns, seen, strict=True)]
    )


def _reference(options: Options) -> Reference | None:
    """Return the version or tag that the options name; None for a version found by time."""
    if options.version is None or options.branch is None:
        return options.version
    if isinstance(options.version, str):
        raise InvalidInputError(
            f"the tag {options.version!r} is on one branch; leave the option branch out"
        )
    return options.branch, options.version
