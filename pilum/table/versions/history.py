"""The history of a table: the main line and its branches, and the versions of each line.

    table.lance/                 root of the main line; the names of tags and branches are here
    └── tree/dev/feature/        root of the branch "dev/feature": a table of its own

A version is identified by its line and its number. The version numbers of a branch continue from
the version where the branch began. Source: docs/format/table.md, "Branches".
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from pilum.errors import (
    CorruptFileError,
    DatasetNotFoundError,
    NotFoundError,
    UnsupportedFeatureError,
    UnsupportedFormatError,
    VersionNotFoundError,
)
from pilum.format.pb import table_pb2
from pilum.storage.base import Store, run_all, write_object
from pilum.table.model.base_paths import own_store
from pilum.table.model.manifest import Manifest, moment_of, nanoseconds_of
from pilum.table.model.manifest_file import (
    keep_version,
    load_manifest,
    load_message,
    load_named,
    remove_copies,
)
from pilum.table.model.names import (
    TREE_FOLDER,
    VERSIONS_FOLDER,
    ManifestName,
    NamingScheme,
    branch_folder,
    detached_manifest_path,
    is_detached,
)
from pilum.table.versions.commit_handler import (
    handler_of,
    latest_manifest,
    list_manifests,
    open_line,
)

__all__ = [
    "MAIN",
    "Line",
    "VersionInfo",
    "describe_version",
    "list_versions",
    "load_version",
    "manifest_place",
    "manifest_size",
    "migrate_to_v2_names",
    "newest_sound",
    "no_table",
    "uri_of_line",
]

_T = TypeVar("_T")

_MAX_VERSION = 2**64 - 1

MAIN = "main"
"""Name by which users may refer to the main line."""


@dataclass(frozen=True, slots=True)
class VersionInfo:
    """A version in the history.

    Attributes:
        version: Number of the version.
        timestamp: Commit time in UTC, truncated to microseconds.
        metadata: Counts as decimal strings: `total_fragments`, `total_data_files`,
            `total_files_size` (bytes of data files), `total_deletion_files`; and, if the writer was
            recent enough to record row counts, `total_data_file_rows`, `total_deletion_file_rows`
            and `total_rows` (rows that are not deleted). If the manifest is damaged, only
            `damaged`: a description of the damage. The timestamp is then the time at which the
            manifest was written, or 1970 if the store does not know it.
    """

    version: int
    timestamp: datetime
    metadata: dict[str, str]


def load_version(store: Store, version: int) -> Manifest:
    """Read the manifest of one version, attached or detached.

    Raises:
        DatasetNotFoundError: If there is no table.
        VersionNotFoundError: If the table has no such version.
    """
    return _found(store, version, lambda path: load_manifest(store, path, version))


def manifest_size(store: Store, version: int) -> int:
    """Return the size of a version's manifest in bytes; the errors are those of `load_version`."""
    return manifest_place(store, version)[1]


def manifest_place(store: Store, version: int) -> tuple[str, int]:
    """Return path and size of a version's manifest; the errors are those of `load_version`."""

    def place(path: str) -> tuple[str, int]:
        source = store.source(path)
        source.close()
        return path, source.size

    return _found(store, version, place)


def describe_version(store: Store, version: int) -> VersionInfo:
    """Describe one version, attached or detached; the errors are those of `load_version`."""
    return _describe(load_message(store, manifest_place(store, version)[0]))


def list_versions(store: Store) -> list[VersionInfo]:
    """Describe all versions in the history, oldest first, including damaged ones.

    DatasetNotFoundError is raised if there is no table.
    """
    names = list_manifests(store)
    if not names:
        raise no_table(store)
    return run_all(store, [partial(_described, store, name) for name in names])


def newest_sound(store: Store, before: int = _MAX_VERSION + 1) -> Manifest | None:
    """Return the newest intact version before another one, with its fragments; None without any."""
    for name in reversed(list_manifests(store)):
        if name.version < before:
            with suppress(CorruptFileError, UnsupportedFormatError, NotFoundError):
                return load_named(store, name).sound()
    return None


def _found(store: Store, version: int, load: Callable[[str], _T]) -> _T:
    """Call `load` with the path of a version's manifest, whatever its name; return the result."""
    candidates = _candidates(version)
    for path in candidates:
        with suppress(NotFoundError):
            return load(path)
    if candidates and (settled := handler_of(store).settle(store, version)):
        with suppress(NotFoundError):
            return load(settled)
    latest = latest_manifest(store)
    if latest is not None and latest.version == version and latest.path not in candidates:
        with suppress(NotFoundError):
            return load(latest.path)
    raise _no_version(store, version)


def _no_version(store: Store, version: int) -> NotFoundError:
    known = [name.version for name in list_manifests(store)]
    if not known:
        return no_table(store)
    return VersionNotFoundError(
        f"{store.uri} has no version {version}; it has {known[0]} to {known[-1]}"
    )


def _candidates(version: int) -> list[str]:
    if not 0 < version <= _MAX_VERSION:
        return []
    if is_detached(version):
        return [detached_manifest_path(version)]
    return [scheme.manifest_path(version) for scheme in (NamingScheme.V2, NamingScheme.V1)]


def _described(store: Store, name: ManifestName) -> VersionInfo:
    try:
        info = _describe(load_message(store, name.path))
        if info.version == name.version:
            return info
        what = f"it says version {info.version}"
    except CorruptFileError as error:
        what = error.what
    return VersionInfo(name.version, _written_at(store, name), {"damaged": what})


def _written_at(store: Store, name: ManifestName) -> datetime:
    folder, _, file_name = name.path.rpartition("/")
    times = (entry.modified for entry in store.list(folder) if entry.name == file_name)
    return moment_of(int((next(times, None) or 0) * 1e9))


def _describe(message: table_pb2.Manifest) -> VersionInfo:
    files = [file for fragment in message.fragments for file in fragment.files]
    deletions = [
        fragment.deletion_file
        for fragment in message.fragments
        if fragment.HasField("deletion_file")
    ]
    counts = {
        "total_fragments": len(message.fragments),
        "total_data_files": len(files),
        "total_files_size": sum(file.file_size_bytes for file in files),
        "total_deletion_files": len(deletions),
    }
    if _has_row_counts(message):
        physical = sum(fragment.physical_rows for fragment in message.fragments)
        deleted = sum(deletion.num_deleted_rows for deletion in deletions)
        counts |= {
            "total_data_file_rows": physical,
            "total_deletion_file_rows": deleted,
            "total_rows": physical - deleted,
        }
    metadata = {name: str(count) for name, count in sorted(counts.items())}
    return VersionInfo(message.version, moment_of(nanoseconds_of(message.timestamp)), metadata)


def _has_row_counts(message: table_pb2.Manifest) -> bool:
    return message.HasField("writer_version") and all(
        fragment.physical_rows
        and (fragment.deletion_file.num_deleted_rows or not fragment.HasField("deletion_file"))
        for fragment in message.fragments
    )


def no_table(store: Store) -> DatasetNotFoundError:
    """Return the error to raise; its text points out if the location is a file."""
    if not store.is_remote and os.path.isfile(store.uri):
        return DatasetNotFoundError(
            f"{store.uri} is a file, and a Lance table is a folder; pilum.file opens single files"
        )
    return DatasetNotFoundError(f"there is no Lance table at {store.uri}")


def migrate_to_v2_names(store: Store) -> None:
    """Rename all manifests from V1 to V2 names; a table that already has these is not changed.

        2.manifest   1.manifest        ──▶   18446744073709551613.manifest   1844…614.manifest

    The newest version is renamed first, so that at any time the newest versions have the newer
    names. An interrupted migration leaves a table that this library can read, write and continue to
    migrate. The bytes of manifests do not change.

    No one may write to the table concurrently. Copies of the newest manifest at the root are
    removed, because the readers that need them cannot read the newer names.

    Raises:
        DatasetNotFoundError: If there is no table.
        UnsupportedFeatureError: If an external manifest store contains the older names.
        OSError: If the store failed.
    """
    name = latest_manifest(store)
    if name is None:
        raise no_table(store)
    if name.scheme is NamingScheme.V1 and handler_of(store).settle(store, name.version):
        raise UnsupportedFeatureError(
            f"{store.uri}: the external manifest store has the older names of the manifests; "
            "they cannot be changed there"
        )
    keep_version(store, name)
    parsed = (ManifestName.parse(entry.name) for entry in store.list(VERSIONS_FOLDER))
    old = {name for name in parsed if name and name.scheme is NamingScheme.V1}
    for name in sorted(old, key=lambda name: name.version, reverse=True):
        write_object(store, NamingScheme.V2.manifest_path(name.version), store.read(name.path))
        store.delete(name.path)
    remove_copies(store)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of history: the main line or a branch (None is the main line).

    `root` is the store at the root of the main line, `store` the one at the root of this line.
    """

    root: Store
    branch: str | None
    store: Store

    @classmethod
    def of(cls, store: Store, branch: str | None) -> Line:
        """Return the line that a manifest in a store is on, by the branch that it names.

        A branch that was copied elsewhere is a main line there.
        """
        store = own_store(store)
        uri = store.uri.rstrip("/")
        suffix = f"/{branch_folder(branch)}" if branch else ""
        if not branch or not uri.endswith(suffix):
            return cls(store, None, store)
        return cls(open_line(store, uri.removesuffix(suffix)), branch, store)

    @classmethod
    def at(cls, store: Store) -> Line:
        """Return the line with this root; a manifest is read only below a folder of branches."""
        if f"/{TREE_FOLDER}/" not in store.uri:
            return cls(store, None, store)
        name = latest_manifest(store)
        if name is None:
            return cls.of(store, None)
        try:
            return cls.of(store, load_named(store, name).branch)
        except CorruptFileError:
            if (whole := newest_sound(store, name.version)) is None:
                raise
            return cls.of(store, whole.branch)

    def other(self, branch: str | None) -> Line:
        """Return another line of the same table, without checking that it exists."""
        if branch in {None, MAIN}:
            return Line(self.root, None, self.root)
        if branch == self.branch:
            return self
        uri = f"{self.root.uri.rstrip('/')}/{branch_folder(str(branch))}"
        return Line(self.root, branch, open_line(self.root, uri))

    def newest(self) -> int:
        """Return the number of the newest version; raise DatasetNotFoundError if there is none."""
        name = latest_manifest(self.store)
        if name is None:
            raise no_table(self.store)
        return name.version


def uri_of_line(uri: str, current: str | None, wanted: str | None) -> str:
    """Return the location of a line as users write it, from that of another line of the table.

    `uri` is the location of the branch `current`; None is the main line.
    """
    if current == wanted:
        return uri
    path, mark, query = uri.partition("?") if "://" in uri else (uri, "", "")
    path = path.rstrip("/")
    if current:
        path = path.removesuffix(f"/{branch_folder(current)}")
    if wanted:
        path = f"{path}/{branch_folder(wanted)}"
    return f"{path}{mark}{query}"
