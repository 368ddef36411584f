"""Clones: tables and branches that begin from one version of another table.

    shallow    the manifest alone; files stay where they are, below a base path
    deep       the manifest and all files that it names; external blobs stay where they are

Numbers of versions, fragments and rows continue from those of the source. The put of the manifest
comes last, and is the only visible step. Source: docs/format/table.md, "Clones".
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from threading import Event

from pilum.errors import (
    DatasetAlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    PilumError,
    UnsupportedFeatureError,
)
from pilum.format.blobs import BlobKind
from pilum.format.pb import table_pb2
from pilum.parallel import submit
from pilum.storage.base import Ranges, Store, entries_below, finish_new, write_object
from pilum.table.commit.operations.clone import Clone
from pilum.table.commit.transaction import Transaction, uuid_at
from pilum.table.model.base_paths import (
    BasePath,
    data_file_place,
    deletion_file_place,
    free_base_id,
    index_place,
    managed_blob_place,
    own_store,
)
from pilum.table.model.features import Feature
from pilum.table.model.fragment import DataFile, Fragment
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import THIS_WRITER, Manifest
from pilum.table.model.manifest_file import encode_manifest_file
from pilum.table.model.names import (
    HINT_PATH,
    VERSIONS_FOLDER,
    NamingScheme,
    index_folder,
    is_detached,
    new_data_file_name,
    sidecar_folder,
    transaction_path,
)
from pilum.table.read.blob_references import BlobReference, blob_references
from pilum.table.read.snapshot import Snapshot
from pilum.table.versions.commit_handler import handler_of, latest_manifest

__all__ = [
    "Copy",
    "CopyProgress",
    "begin_referring",
    "copy_files",
    "deep_clone",
    "reserved",
    "shallow_clone",
    "withdraw",
]

_RESERVATION = f"{VERSIONS_FOLDER}/.tmp_clone"
_PIECE_BYTES = 8 << 20


def shallow_clone(source: Snapshot, target: Store) -> Manifest:
    """Create a table that refers to the files of another one; return its first manifest.

    The version number is that of the source. The errors are those of `LanceDataset.shallow_clone`.
    """
    with reserved(target):
        return begin_referring(source, target, None)


def deep_clone(
    source: Snapshot, target: Store, progress: Callable[[CopyProgress], None] | None = None
) -> Manifest:
    """Create a table with copies of all files of a version, and report after each copied file.

    The errors are those of `shallow_clone`. After any exception, an interrupt included, no file is
    left.
    """
    with reserved(target):
        _require_clonable(source, target)
        blobs = list(_blobs_outside(source))
        external = {blob.base_id for _, blob in blobs if blob.kind == BlobKind.EXTERNAL}
        content = _independent(source, external)
        copies = _distinct((*_copies(source, content), *_managed_copies(source, blobs)))
        transaction = _transaction(source, is_shallow=False, branch=None)

        def is_needed() -> bool:
            return _may_be_published(target, source.manifest.version, transaction)

        with copy_files(copies, target, progress, is_needed):
            return _publish(target, content, transaction)


@contextmanager
def reserved(target: Store) -> Iterator[None]:
    """Reserve a place for a new table until the block ends; only one writer succeeds.

    Without a reservation, clones of different versions would become versions of one table. If
    another writer has it, DatasetAlreadyExistsError is raised.
    """
    token = uuid.uuid4().hex.encode()
    if not target.put_if_absent(_RESERVATION, token) and not _holds(target, token):
        raise DatasetAlreadyExistsError(
            f"{target.uri}: a clone is being made there, or one was interrupted and its files are "
            "still there; in that case remove them first"
        )
    try:
        yield
    finally:
        with suppress(OSError):
            target.delete(_RESERVATION)


def _holds(target: Store, token: bytes) -> bool:
    """Return whether a reservation is the caller's own, in case the answer to its put was lost."""
    try:
        return target.read(_RESERVATION) == token
    except NotFoundError:
        return False


def begin_referring(source: Snapshot, target: Store, branch: str | None) -> Manifest:
    """Create a table that refers to the source, as `shallow_clone`, at a place already reserved.

    It is the first version of a branch, or of a separate table.
    """
    _require_clonable(source, target)
    transaction = _transaction(source, is_shallow=True, branch=branch)
    return _publish(target, replace(_referring(source), branch=branch), transaction)


def withdraw(target: Store, manifest: Manifest) -> None:
    """Remove the first version of a table that is not in use yet."""
    target.delete(NamingScheme.V2.manifest_path(manifest.version))
    target.delete(transaction_path(manifest.transaction_file))


def _require_clonable(source: Snapshot, target: Store) -> None:
    manifest = source.manifest
    where = f"{source.store.uri}, version {manifest.version}"
    if is_detached(manifest.version):
        raise InvalidInputError(f"{where} is detached: numbers of versions cannot go on from it")
    manifest.require_continuable(where)
    _require_no_table(target)


def _require_no_table(target: Store) -> None:
    if latest_manifest(target):
        raise _exists(target)


def _exists(target: Store) -> DatasetAlreadyExistsError:
    return DatasetAlreadyExistsError(f"there is a table at {target.uri} already")


def _referring(source: Snapshot) -> Manifest:
    """Return the manifest with the files of the source below a base path."""
    manifest, line = source.manifest, source.line
    number = free_base_id(manifest.base_paths)
    base = BasePath(number, line.store.uri, is_dataset_root=True, name=line.branch)

    def refer(index: table_pb2.IndexMetadata) -> None:
        if not index.HasField("base_id"):
            index.base_id = number

    return replace(
        manifest,
        fragments=Fragments(_in_base(fragment, number) for fragment in manifest.fragments),
        index_section=_with_indices(manifest.index_section, refer),
        base_paths=(*manifest.base_paths, base),
    )


def _in_base(fragment: Fragment, number: int) -> Fragment:
    deleted = fragment.deletion_file
    if deleted and deleted.base_id is None:
        deleted = replace(deleted, base_id=number)
    moved = fragment.with_files(
        lambda file: replace(file, base_id=number) if file.base_id is None else file
    )
    return replace(moved, deletion_file=deleted)


def _independent(source: Snapshot, external: Container[int]) -> Manifest:
    """Return the manifest with all files in the table's own folder.

    Args:
        source: The version.
        external: Ids of the base paths to which external blobs are relative; these are kept.
    """
    taken: set[str] = set()

    def own_file(file: DataFile) -> DataFile:
        # Files below two base paths may have the same name.
        path = new_data_file_name() if file.path in taken else file.path
        taken.add(path)
        return replace(file, path=path, base_id=None)

    def own(fragment: Fragment) -> Fragment:
        deleted = fragment.deletion_file and replace(fragment.deletion_file, base_id=None)
        return replace(fragment.with_files(own_file), deletion_file=deleted)

    manifest = source.manifest
    return replace(
        manifest,
        fragments=Fragments(map(own, manifest.fragments)),
        index_section=_with_indices(
            manifest.index_section, lambda index: index.ClearField("base_id")
        ),
        base_paths=tuple(base for base in manifest.base_paths if base.id in external),
        branch=None,
    )


def _with_indices(section: bytes, change: Callable[[table_pb2.IndexMetadata], None]) -> bytes:
    message = table_pb2.IndexSection.FromString(section)
    for index in message.indices:
        change(index)
    data: bytes = message.SerializeToString(deterministic=True)
    return data


def _copies(source: Snapshot, content: Manifest) -> Iterator[Copy]:
    """Yield every file of the source with the path that it is copied to."""
    store = source.store
    for fragment, new in zip(source.manifest.fragments, content.fragments, strict=True):
        for file, copy in zip(fragment.all_files, new.all_files, strict=True):
            place, path = data_file_place(store, file)
            yield Copy(place, path, copy.path_in_table)
            yield from _below(place, path.removesuffix(".lance"), sidecar_folder(copy.path))
        if (found := deletion_file_place(store, fragment)) and new.deletion_file:
            yield Copy(*found, new.deletion_file.path(new.id))
    for index in table_pb2.IndexSection.FromString(source.manifest.index_section).indices:
        place, folder = index_place(store, index)
        yield from _below(place, folder, index_folder(folder.rpartition("/")[2]))


def _blobs_outside(source: Snapshot) -> Iterator[tuple[DataFile, BlobReference]]:
    """Yield the references of data files to managed blobs, and to those relative to base paths."""
    manifest = source.manifest
    if manifest.reader_flags & Feature.MANAGED_BLOBS or manifest.base_paths:
        for fragment in manifest.fragments:
            for file in fragment.files:
                for blob in blob_references(source.store, file):
                    if blob.kind != BlobKind.EXTERNAL or blob.base_id:
                        yield file, blob


def _managed_copies(
    source: Snapshot, blobs: Iterable[tuple[DataFile, BlobReference]]
) -> Iterator[Copy]:
    """Yield the objects of managed blobs, with their paths below the folder of the table.

    UnsupportedFeatureError is raised if one is in a base path, as data files are copied without
    changes.
    """
    for file, (kind, base_id, uri) in blobs:
        if kind == BlobKind.MANAGED:
            yield Copy(*managed_blob_place(source.store, file, uri), uri)
        elif kind == BlobKind.MANAGED_IN_BASE:
            raise UnsupportedFeatureError(
                f"{source.store.uri}: the blob {uri!r} in {file.path} is in base path {base_id}, "
                "which a deep clone does not have; make a shallow clone"
            )


def _distinct(copies: Iterable[Copy]) -> list[Copy]:
    """Return copies, each once; UnsupportedFeatureError if two files would get one path."""
    found: dict[str, Copy] = {}
    for copy in copies:
        other = found.setdefault(copy.target, copy)
        if (other.store.uri, other.path) != (copy.store.uri, copy.path):
            raise UnsupportedFeatureError(
                f"{other.store.uri}/{other.path} and {copy.store.uri}/{copy.path} would both be "
                f"copied to {copy.target}"
            )
    return list(found.values())


def _below(store: Store, folder: str, target: str) -> Iterator[Copy]:
    for path, _ in entries_below(store, folder):
        yield Copy(store, path, target + path.removeprefix(folder))


def _transaction(source: Snapshot, *, is_shallow: bool, branch: str | None) -> Transaction:
    line, version = source.line, source.manifest.version
    return Transaction(version, Clone(is_shallow, version, line.store.uri, line.branch, branch))


def _publish(target: Store, content: Manifest, transaction: Transaction) -> Manifest:
    manifest = replace(
        content,
        timestamp_ns=time.time_ns(),
        transaction_file=transaction.file_name,
        writer_version=THIS_WRITER,
    ).with_flags()
    _put(own_store(target), manifest, transaction)
    return manifest


def _put(target: Store, manifest: Manifest, transaction: Transaction) -> None:
    data, path = transaction.to_bytes(), transaction_path(transaction.file_name)
    write_object(target, path, data)
    name, body = (
        NamingScheme.V2.manifest_name(manifest.version),
        encode_manifest_file(manifest, data),
    )
    is_free = not latest_manifest(target)  # checked again: copying may have taken long
    won = is_free and handler_of(target).publish(target, name, body)
    if not won and not _is_published(target, name.path, transaction):
        with suppress(OSError):
            target.delete(path)
        raise _exists(target)
    with suppress(OSError):  # a hint for other writers
        target.put(HINT_PATH, f'{{"version":{manifest.version}}}'.encode())


def _is_published(target: Store, path: str, transaction: Transaction) -> bool:
    """Return whether a manifest was written by a transaction, in case the put's answer was lost."""
    try:
        return uuid_at(target, path) == transaction.uuid
    except NotFoundError:
        return False


def _may_be_published(target: Store, version: int, transaction: Transaction) -> bool:
    try:
        return _is_published(target, NamingScheme.V2.manifest_path(version), transaction)
    except (OSError, PilumError):
        return True  # unknown; unused files do no harm


@dataclass(frozen=True, slots=True)
class Copy:
    """One file to copy: its store and path there, and its path in the target store."""

    store: Store
    path: str
    target: str


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy.

    Attributes:
        files: Number of files copied so far.
        num_files: Number of files in all.
        size_bytes: Size in bytes of the files copied so far.
    """

    files: int
    num_files: int
    size_bytes: int


@contextmanager
def copy_files(
    copies: Sequence[Copy],
    target: Store,
    progress: Callable[[CopyProgress], None] | None = None,
    is_needed: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Copy files before the block runs; remove them all if anything fails, the block included.

    After a failure, `is_needed` is called; if it returns true, the files are in use and stay.
    """
    stop = Event()
    tasks: list[Future[int]] = []
    try:
        tasks += (submit(partial(_copy_file, copy, target, stop)) for copy in copies)
        size_bytes = 0
        for number, task in enumerate(tasks, 1):
            size_bytes += task.result()
            if progress is not None:
                progress(CopyProgress(number, len(copies), size_bytes))
        yield
    except BaseException:
        stop.set()
        for task in tasks:
            task.cancel()
        wait(tasks)
        if not is_needed():
            for copy in copies:
                with suppress(OSError):
                    target.delete(copy.target)
        raise


def _copy_file(copy: Copy, target: Store, stop: Event) -> int:
    """Copy one file and return its size in bytes."""
    source = copy.store.source(copy.path)
    sink = target.sink(copy.target)
    try:
        for start in range(0, source.size, _PIECE_BYTES):
            if stop.is_set():
                break
            size = min(_PIECE_BYTES, source.size - start)
            sink.write(source.read(Ranges.of((start, size)))[0])
        if not stop.is_set():
            finish_new(sink)
    finally:
        sink.abort()
        source.close()
    return source.size
