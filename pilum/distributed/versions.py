"""Pinned versions: a location, a version number and store settings, which any process can open.

    driver    find_version(uri, "tag") ──▶ TableVersion(uri, 7) ──pickled──▶ tasks: scan version 7

The driver looks up the version once. A process that receives the value opens the version when it
first uses it, and keeps it open: also for later tasks, whose values are equal. A manifest may list
very many fragments, and reading it in each task would cost more than most tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any

import pyarrow as pa

from pilum.errors import InvalidInputError, VersionNotFoundError
from pilum.expressions import BoundFilter, bind
from pilum.format.blobs import has_blobs
from pilum.lazy import cached_property
from pilum.table.model.fragment import Fragment
from pilum.table.read.columns import scan_columns
from pilum.table.read.json_columns import text_schema
from pilum.table.read.scan import ScanOptions, scan_schema
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference, locate
from pilum.table.versions.commit_handler import open_table
from pilum.table.versions.history import Line, uri_of_line
from pilum.table.write.forms import plain_schema

__all__ = ["TableVersion", "branch_uri", "find_version"]

# Size of a value in a column that no file contains, such as `_rowaddr`.
_META_BYTES = 8
_MOST_KEPT = 4
"""Number of versions that a process keeps open for later tasks."""


@dataclass(frozen=True)
class TableVersion:
    """One version of a table; picklable.

    Attributes:
        uri: Location of the table, or of the branch.
        version: Number of the version.
        storage_options: Options of the object store.
        identity: What distinguishes the version from one with this number of another table that
            was at the location: its time and its transaction. None if it was not opened yet.
    """

    uri: str
    version: int
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: str | None = field(default=None, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        identity = _identity(vars(self)["snapshot"]) if "snapshot" in vars(self) else self.identity
        return TableVersion, (self.uri, self.version, self.storage_options, identity)

    @classmethod
    def latest(cls, uri: str, storage_options: Mapping[str, str] | None = None) -> TableVersion:
        """Pin the latest version of a table.

        Raises:
            DatasetNotFoundError: If there is no table.
        """
        access = dict(storage_options or {})
        return cls.opened(uri, Snapshot.latest(open_table(uri, access)), access)

    @classmethod
    def opened(
        cls, uri: str, snapshot: Snapshot, storage_options: Mapping[str, str]
    ) -> TableVersion:
        """Return the value for a version that this process has open."""
        found = cls(uri, snapshot.manifest.version, storage_options)
        vars(found)["snapshot"] = snapshot
        return found

    @cached_property
    def snapshot(self) -> Snapshot:
        """The open version; for the modules of this package.

        Raises:
            VersionNotFoundError: If the version no longer exists, also if another table took its
                place.
        """
        if self.identity is None:
            return Snapshot.at(open_table(self.uri, self.storage_options), self.version)
        options = tuple(sorted(self.storage_options.items()))
        return _kept_open(self.uri, self.version, options, self.identity)

    @property
    def schema(self) -> pa.Schema:
        """The stored columns."""
        return self.snapshot.schema.arrow

    @property
    def columns(self) -> pa.Schema:
        """The columns as scans and conditions see them: descriptors in place of blobs."""
        return self.snapshot.described.arrow

    @property
    def plain_schema(self) -> pa.Schema:
        """The columns as writers pass them: bytes for blobs, text for JSON."""
        return plain_schema(self.snapshot.schema)

    @property
    def blob_columns(self) -> frozenset[str]:
        """The names of columns that contain blobs."""
        return frozenset(one.name for one in self.snapshot.schema.fields if has_blobs(one))

    @property
    def has_stable_row_ids(self) -> bool:
        """Whether rows keep their ids when they move."""
        return self.snapshot.has_stable_row_ids

    @property
    def num_rows(self) -> int:
        """The number of rows that are not deleted."""
        return self.snapshot.num_rows

    def fragment(self, fragment_id: int) -> Fragment:
        """Return a fragment of the version; for the modules of this package."""
        found = self.snapshot.manifest.fragments.find(fragment_id)
        assert found is not None  # ids are those of this version
        return found

    def read_schema(
        self, columns: Iterable[str] | None = None, *, with_payloads: bool = False
    ) -> pa.Schema:
        """Return the schema of the rows that `read_split` yields with JSON as text.

        Args:
            columns: Names or dotted paths; all if None.
            with_payloads: Whether blob columns contain bytes instead of descriptors.

        Raises:
            ColumnNotFoundError: If there is no such column.
        """
        names = None if columns is None else tuple(columns)
        options = ScanOptions(columns=names, with_payloads=with_payloads)
        return text_schema(scan_schema(self.snapshot, options))

    def row_bytes(self, columns: Iterable[str], fragment_id: int | None = None) -> float:
        """Estimate the size in memory of some columns of a row.

        Args:
            columns: Names or dotted paths; also of columns that no file contains.
            fragment_id: The fragment to look at; the first one if None.
        """
        if fragment_id is None:
            fragment = self.snapshot.manifest.fragments[0]
        else:
            fragment = self.fragment(fragment_id)
        fields = [one.field for one in scan_columns(self.snapshot.described, columns)]
        opened = self.snapshot.reader(fragment).fields(one for one in fields if one)
        return max(1, sum(one.bytes_per_row for one in opened) + _META_BYTES * fields.count(None))

    def condition(self, text: str) -> BoundFilter:
        """Bind a SQL condition to the columns of the version; the result is picklable.

        Raises:
            FilterError: If it does not parse or does not fit the columns.
        """
        return bind(text, self.columns)


@lru_cache(_MOST_KEPT)
def _kept_open(
    uri: str, version: int, storage_options: tuple[tuple[str, str], ...], identity: str
) -> Snapshot:
    """Open a version, or return it if this process has it open."""
    found = Snapshot.at(open_table(uri, dict(storage_options)), version)
    if _identity(found) != identity:
        raise VersionNotFoundError(
            f"{uri}: version {version} is another one than before: the table was replaced"
        )
    return found


def _identity(snapshot: Snapshot) -> str:
    return f"{snapshot.manifest.timestamp_ns} {snapshot.manifest.transaction_file}"


def find_version(
    uri: str,
    version: int | str | None = None,
    *,
    branch: str | None = None,
    as_of: datetime | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> TableVersion:
    """Look up the version that the arguments name, or the latest one, and pin it.

    Args:
        uri: Location of the table.
        version: A number or the name of a tag.
        branch: The branch; version numbers are those of the branch.
        as_of: The latest version at this time instead.
        storage_options: Options of the object store.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If the table has no such version.
        TagNotFoundError: If there is no such tag.
        BranchNotFoundError: If there is no such branch.
        InvalidInputError: If a tag and a branch are given.
    """
    access = dict(storage_options or {})
    here = Line.at(open_table(uri, access))
    reference = _reference(version, branch)
    if reference is None:
        line = here if branch is None else locate(here, (branch, None)).line
        found = Snapshot.as_of(line.store, as_of) if as_of else Snapshot.latest(line.store)
    else:
        located = locate(here, reference)
        line, found = located.line, Snapshot.at(located.line.store, located.version)
    return TableVersion.opened(uri_of_line(uri, here.branch, line.branch), found, access)


def branch_uri(uri: str, branch: str | None, storage_options: Mapping[str, str] | None) -> str:
    """Return the location of a branch; the location of the table if no branch is named."""
    if branch is None:
        return uri
    here = Line.at(open_table(uri, storage_options))
    return uri_of_line(uri, here.branch, locate(here, (branch, None)).line.branch)


def _reference(version: int | str | None, branch: str | None) -> Reference | None:
    """Return the reference to a version or tag; None for a version found by time."""
    if version is None or branch is None:
        return version
    if isinstance(version, str):
        raise InvalidInputError(
            f"the tag {version!r} is on one branch; leave the option branch out"
        )
    return branch, version
