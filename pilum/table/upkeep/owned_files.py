"""Classify the files of a table by their names, and collect those that manifests refer to.

    _versions/.tmp…                                     left by a killed writer
    _versions/{…}.manifest-{uuid}                       the same, beside {…}.manifest
    _transactions/{…}.txn
    _deletions/{…}.arrow, {…}.bin
    _indices/{uuid}/…                                   referred to by the folder
    data/{stem}.lance
    data/{stem}/{32 binary digits}.blob                 kept and removed with data/{stem}.lance,
                                                        unless managed blobs refer to it
    _blobs/{…}.blob                                     referred to by managed blobs

Other files in these folders are ignored: they do not belong to the table. A file is *referred to*
by one of its keys: its path, that of its data file, its folder, or for managed blobs what
`blob_key` returns. Source: docs/format/table.md, "Files".
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from pilum.errors import CorruptFileError, NotFoundError, UnsupportedFeatureError
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2
from pilum.storage.base import Entry, Store, entries_below, run_all
from pilum.table.model.base_paths import BasePath
from pilum.table.model.features import Feature
from pilum.table.model.fragment import DeletionFile
from pilum.table.model.manifest import nanoseconds_of, require_writable
from pilum.table.model.manifest_file import load_files_and_indices
from pilum.table.model.names import (
    BLOBS_FOLDER,
    DATA_FOLDER,
    DELETIONS_FOLDER,
    TRANSACTIONS_FOLDER,
    VERSIONS_FOLDER,
    ManifestName,
    data_path,
    final_name,
    index_folder,
    is_detached_name,
    transaction_path,
)
from pilum.table.refs.branches import branch_records
from pilum.table.upkeep.managed_references import (
    BLOB_SUFFIX,
    Bases,
    ManagedReferences,
    blob_key,
)
from pilum.table.versions.commit_handler import list_manifests
from pilum.table.versions.history import Line

__all__ = [
    "FileKind",
    "OwnedFile",
    "References",
    "all_references",
    "detached_paths",
    "fragment_keys",
    "index_folder_of",
    "needed_by_branches",
    "owned_files",
    "references",
]

_INDICES_FOLDER = "_indices"
_READ_AT_ONCE = 64
_TEMPORARY = ".tmp"
_SIDECAR = re.compile(r"[01]{32}\.blob")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class FileKind(Enum):
    """The purpose of a table's file; the names are those of `cleanup_old_versions`."""

    MANIFEST = "manifest"
    TRANSACTION = "transaction"
    DATA = "data"
    DELETION = "deletion"
    INDEX = "index"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class OwnedFile:
    """One file of a table.

    Attributes:
        path: Path below the root.
        kind: Purpose of the file.
        keys: Keys by which versions refer to the file; none if they never refer to such files.
        size: Size in bytes.
        modified: When the file was last written, seconds since 1970; None if unknown.
    """

    path: str
    kind: FileKind
    keys: tuple[str, ...]
    size: int
    modified: float | None

    def is_needed(self, keys: Container[str]) -> bool:
        """Return whether one of the keys of the file is among these."""
        return any(key in keys for key in self.keys)


@dataclass(frozen=True, slots=True)
class References:
    """The files that one manifest refers to.

    Attributes:
        version: Number of the version.
        timestamp: When it was committed, seconds since 1970.
        fragments: Messages of the fragments. In adjacent versions most are the same bytes, so
            messages are compared before they are parsed.
        others: Keys of its transaction and of indices.
        managed: Base paths of the version if it may have managed blobs, else None. Their keys are
            found by `ManagedReferences`.
    """

    version: int
    timestamp: float
    fragments: Sequence[bytes]
    others: Sequence[str]
    managed: Bases | None = None

    def keys(self, managed: ManagedReferences | None) -> set[str]:
        """Return the keys of all files; for managed blobs, data files may have to be read.

        None leaves managed blobs out.
        """
        found = {*self.others, *fragment_keys(self.fragments)}
        if self.managed is not None and managed is not None:
            found.update(*managed.of(dict.fromkeys(self.fragments, self.managed)).values())
        return found


def references(store: Store, path: str) -> References:
    """Read the references of a manifest.

    A file in a base path counts as the table's own file of the same name, so that it is never
    removed. UnsupportedFeatureError is raised if the manifest may refer to files in ways that this
    library does not know.
    """
    files, section = load_files_and_indices(store, path)
    require_writable(files.reader_feature_flags, files.writer_feature_flags, path)
    if files.HasField("fragment_tree"):
        raise UnsupportedFeatureError(f"{path}: the manifest keeps its fragments in a tree")
    others = list(map(index_folder_of, section.indices))
    if files.transaction_file:
        others.append(transaction_path(files.transaction_file))
    try:
        committed = nanoseconds_of(files.timestamp) / 1e9
    except CorruptFileError as error:
        raise error.at(path) from None
    managed = None
    if (files.reader_feature_flags | files.writer_feature_flags) & Feature.MANAGED_BLOBS:
        messages = (parse_message(table_pb2.BasePath, one, path) for one in files.base_paths)
        managed = tuple(map(BasePath.from_proto, messages))
    return References(files.version, committed, list(files.fragments), others, managed)


def all_references(store: Store, names: list[ManifestName]) -> Iterator[References]:
    """Yield the references of manifests, in order; skip those that another cleanup removes."""
    for start in range(0, len(names), _READ_AT_ONCE):
        tasks = [partial(_read, store, name) for name in names[start : start + _READ_AT_ONCE]]
        yield from filter(None, run_all(store, tasks))


def _read(store: Store, name: ManifestName) -> References | None:
    try:
        found = references(store, name.path)
    except NotFoundError:
        return None
    if found.version != name.version:
        raise CorruptFileError(f"expected version {name.version}, found {found.version}", name.path)
    return found


def detached_paths(names: Iterable[str]) -> list[str]:
    """Return the paths of the manifests of detached versions, from names in their folder."""
    return [f"{VERSIONS_FOLDER}/{name}" for name in names if is_detached_name(name)]


def needed_by_branches(line: Line) -> Iterator[str]:
    """Yield the keys of managed blobs to which other branches refer, in data files of their own.

    The other files of this line to which they refer belong to pinned versions, but descriptors may
    refer to objects of any version.
    """
    for name, _ in branch_records(line.root):
        if name == line.branch:
            continue
        store = line.other(name).store
        managed = ManagedReferences(store, own_files_only=True)
        attached = all_references(store, list_manifests(store))
        detached = detached_paths(entry.name for entry in store.list(VERSIONS_FOLDER))
        for one in (*attached, *(references(store, path) for path in detached)):
            if one.managed is not None:
                yield from one.keys(managed)


def fragment_keys(fragments: Iterable[bytes]) -> Iterator[str]:
    """Yield the keys of the files of fragments, given as messages."""
    for data in fragments:
        fragment = parse_message(table_pb2.DataFragment, data, "a fragment of a manifest")
        for file in fragment.files:
            yield data_path(file.path)
        for overlay in fragment.overlays:
            yield data_path(overlay.data_file.path)
        if fragment.HasField("deletion_file"):
            yield DeletionFile.from_proto(fragment.deletion_file).path(fragment.id)


def index_folder_of(index: table_pb2.IndexMetadata) -> str:
    """Return the folder of an index's files, below the root."""
    if len(index.uuid.uuid) != 16:
        raise CorruptFileError(f"a uuid of {len(index.uuid.uuid)} bytes", f"index {index.name!r}")
    return index_folder(str(uuid.UUID(bytes=index.uuid.uuid)))


def owned_files(store: Store, *, with_blobs: bool = True) -> Iterator[OwnedFile]:
    """Yield all files of a table except manifests, hints, tags and branches, in no order.

    Args:
        store: Store of the table.
        with_blobs: Whether to list the folders for blobs, which may have very many files.
    """
    listed = list(store.list(VERSIONS_FOLDER))
    names = {entry.name for entry in listed}
    for entry in listed:
        # A staged manifest may be that of a version as long as the final one does not exist.
        if entry.name.startswith(_TEMPORARY) or final_name(entry.name) in names:
            yield _temporary(VERSIONS_FOLDER, entry)
    yield from _flat(store, TRANSACTIONS_FOLDER, (".txn",), FileKind.TRANSACTION)
    yield from _flat(store, DELETIONS_FOLDER, (".arrow", ".bin"), FileKind.DELETION)
    yield from _flat(store, DATA_FOLDER, (".lance",), FileKind.DATA)
    for name in list(store.folders(_INDICES_FOLDER)):
        if _UUID.fullmatch(name):
            folder = f"{_INDICES_FOLDER}/{name}"
            for path, entry in entries_below(store, folder):
                yield OwnedFile(path, FileKind.INDEX, (folder,), entry.size, entry.modified)
    if with_blobs:
        for file in _flat(store, BLOBS_FOLDER, (BLOB_SUFFIX,), FileKind.DATA):
            yield replace(file, keys=tuple(map(blob_key, file.keys)))
        for stem in list(store.folders(DATA_FOLDER)):
            yield from _sidecars(store, stem)


def _flat(
    store: Store, folder: str, suffixes: tuple[str, ...], kind: FileKind
) -> Iterator[OwnedFile]:
    for entry in store.list(folder):
        if entry.name.startswith(_TEMPORARY):
            yield _temporary(folder, entry)
        elif entry.name.endswith(suffixes):
            path = f"{folder}/{entry.name}"
            yield OwnedFile(path, kind, (path,), entry.size, entry.modified)


def _sidecars(store: Store, stem: str) -> Iterator[OwnedFile]:
    folder = f"{DATA_FOLDER}/{stem}"
    for entry in store.list(folder):
        if entry.name.startswith(_TEMPORARY):
            yield _temporary(folder, entry)
        elif _SIDECAR.fullmatch(entry.name):
            path = f"{folder}/{entry.name}"
            keys = (f"{folder}.lance", blob_key(path))
            yield OwnedFile(path, FileKind.DATA, keys, entry.size, entry.modified)


def _temporary(folder: str, entry: Entry) -> OwnedFile:
    path = f"{folder}/{entry.name}"
    return OwnedFile(path, FileKind.TEMPORARY, (), entry.size, entry.modified)
