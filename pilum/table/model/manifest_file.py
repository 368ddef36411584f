"""Manifest files: how they are found in their folder, and what they consist of.

    values of dictionaries       in legacy tables that have any, see `dictionaries.py`
    u32 length, IndexSection     if the table has indices
    u32 length, Transaction      the changes of the commit, the same bytes as in the .txn file
    u32 length, Manifest         holds the offsets of the two above
    u64 offset of the Manifest's length
    u16 major, u16 minor, "LANC"

All integers are little-endian. Readers rely on offsets, not on the order of the sections; old files
begin with other bytes.

Manifests are listed by reading as few names as possible. Names of the V2 scheme sort newest first.
In a store that lists in order, the first name is therefore the newest version, however many there
are, and the versions since a given one come first:

    18446744073709551612.manifest   version 3    ◀ the newest
    18446744073709551613.manifest   version 2    ◀ already known: stop here
    18446744073709551614.manifest   version 1

The oldest writers keep a copy of the newest manifest at the root of the table (`_latest.manifest`,
in the first tables `latest.manifest`). If there is no history, the copy is the table: a table of
one version. A commit to such a table first stores the copy as the version that it is, then commits,
then replaces the copy. The old documents require this, so that old readers see the new version. If
there is no copy, none is created. Source: docs/format/table.md, "Manifest file", "Files" and
"Commit protocol".
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Self

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.format.messages import parse_message
from pilum.format.pb import manifest_files_pb2, table_pb2, transaction_pb2
from pilum.lazy import cached_property
from pilum.storage.base import Ranges, Source, Store, prefetch, write_object
from pilum.table.model.dictionaries import append_dictionaries, load_dictionaries
from pilum.table.model.fragment_survey import FragmentSurvey
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import (
    LATEST_PATHS,
    VERSIONS_FOLDER,
    ManifestName,
    NamingScheme,
    manifest_names,
    newest_manifest_name,
)
from pilum.table.model.stored_fragments import StoredFragments

__all__ = [
    "encode_manifest_file",
    "exists",
    "is_inlined",
    "keep_version",
    "listed_manifests",
    "load_files_and_indices",
    "load_manifest",
    "load_manifest_and_transaction",
    "load_message",
    "load_named",
    "newest_listed_manifest",
    "remove_copies",
    "replace_copies",
]

_MAGIC = b"LANC"
_FORMAT_VERSION = (0, 2)
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_TAIL_BYTES = 64 * 1024
_MAX_INLINE_TRANSACTION_BYTES = 20 << 20


def encode_manifest_file(manifest: Manifest, transaction: bytes) -> bytes:
    """Build the bytes of a manifest file; omit a transaction that is longer than readers accept."""
    try:
        message = manifest.to_proto()
    except ValueError as error:  # such as ids of fragments after the highest one there is
        raise InvalidInputError(
            f"version {manifest.version} cannot be written: no number is left: {error}"
        ) from error
    body = bytearray()
    if manifest.is_legacy:
        append_dictionaries(manifest, message, body)
    if manifest.index_section:
        message.index_section = len(body)
        body += _with_length(manifest.index_section)
    if is_inlined(transaction):
        message.transaction_section = len(body)
        body += _with_length(transaction)
    position = len(body)
    body += _with_length(_serialized(message, manifest.fragments.encoded()))
    return bytes(body) + _FOOTER.pack(position, *_FORMAT_VERSION, _MAGIC)


def _serialized(message: table_pb2.Manifest, fragments: bytes) -> bytes:
    """Return the bytes of a message and of its fragments, in the order of field numbers."""
    columns = table_pb2.Manifest(fields=message.fields)
    message.ClearField("fields")
    ends = (one.SerializeToString(deterministic=True) for one in (columns, message))
    return fragments.join(ends)


def is_inlined(transaction: bytes) -> bool:
    """Return whether a transaction of this size is stored in the manifest file."""
    return len(transaction) <= _MAX_INLINE_TRANSACTION_BYTES


def load_manifest(
    store: Store, path: str, version: int | None = None, known: Manifest | None = None
) -> Manifest:
    """Read a manifest file, which must contain this version, if one is given.

    The result is `known` if the file still has exactly its content: what was found out about its
    fragments then need not be found out again.
    """
    with _ManifestFile(store, path) as file:
        is_known = known is not None and file.has_content_of(known)
        manifest = known if known is not None and is_known else file.manifest()
    if version not in {None, manifest.version}:
        raise CorruptFileError(f"expected version {version}, found {manifest.version}", path)
    return manifest


def load_named(store: Store, name: ManifestName, known: Manifest | None = None) -> Manifest:
    """Read the manifest of a listed version as `load_manifest`."""
    return load_manifest(store, name.path, name.version, known)


def load_message(store: Store, path: str) -> table_pb2.Manifest:
    """Read the manifest message of a manifest file; the errors are those of `load_manifest`."""
    with _ManifestFile(store, path) as file:
        return file.message


def load_files_and_indices(
    store: Store, path: str
) -> tuple[manifest_files_pb2.ManifestFiles, table_pb2.IndexSection]:
    """Read the file entries of a manifest, as bytes, and its index section, as `load_manifest`."""
    with _ManifestFile(store, path) as file:
        files = parse_message(manifest_files_pb2.ManifestFiles, file.data, path)
        return files, parse_message(table_pb2.IndexSection, file.index_section(files), path)


def load_manifest_and_transaction(
    store: Store, path: str
) -> tuple[table_pb2.Manifest, transaction_pb2.Transaction | None]:
    """Read a manifest file as `load_manifest`, and its transaction; None if that is not in it."""
    with _ManifestFile(store, path) as file:
        return file.message, file.transaction()


class _ManifestFile:
    """An open manifest file and its message; a small or local file is read with one request."""

    def __init__(self, store: Store, path: str) -> None:
        self._path = path
        self._store = store
        try:
            if store.is_remote:
                size = self._source.size
                self._tail_start = max(0, size - _TAIL_BYTES)
                self._tail = self._fetch(self._tail_start, size - self._tail_start)
            else:
                self._tail_start, self._tail = 0, store.read(path)
            self._end = self._tail_start + len(self._tail) - _FOOTER.size
            self.data = self._manifest_bytes()
        except CorruptFileError:
            self.__exit__()
            raise

    @cached_property
    def _source(self) -> Source:
        return self._store.source(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        source: Source | None = vars(self).get("_source")
        if source is not None:
            source.close()

    @cached_property
    def message(self) -> table_pb2.Manifest:
        """Parse `data`."""
        return parse_message(table_pb2.Manifest, self.data, self._path)

    def manifest(self) -> Manifest:
        """Build the manifest, with its dictionaries and index section."""
        try:
            survey = FragmentSurvey.of(self.data)
        except CorruptFileError as error:
            raise error.at(self._path) from None
        message = parse_message(table_pb2.Manifest, survey.head, self._path)
        indices = self.index_section(message)
        parse_message(table_pb2.IndexSection, indices, self._path)
        place = f"{self._path}, version {message.version}"  # not obvious from all paths
        fragments = StoredFragments(survey, place)
        try:
            manifest = Manifest.from_proto(message, fragments, indices)
            if manifest.is_legacy:
                manifest = load_dictionaries(manifest, message, self._source)
        except CorruptFileError as error:
            raise error.at(place) from None
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"metadata is not UTF-8: {error}", self._path) from error
        return manifest

    def has_content_of(self, known: Manifest) -> bool:
        """Return whether a manifest was read from the same bytes, and is as it was read."""
        fragments = known.fragments
        if not isinstance(fragments, StoredFragments) or fragments.survey.data != self.data:
            return False
        message = known.message
        if message is None or known.is_legacy:  # a legacy manifest may have dictionaries beside it
            return False
        section = self.index_section(message)
        if section == known.index_section:
            return True
        stored = replace(known, index_section=section)
        return known.index_section == stored.with_current_coverage().index_section

    def index_section(
        self, message: table_pb2.Manifest | manifest_files_pb2.ManifestFiles
    ) -> bytes:
        """Return the bytes of the index section; empty if there is none."""
        if not message.HasField("index_section"):
            return b""
        return self._section(message.index_section)

    def transaction(self) -> transaction_pb2.Transaction | None:
        """Return the inline transaction, whose offset old and new writers store differently."""
        for name in ("transaction_section", "transaction_section_deprecated"):
            if self.message.HasField(name):
                data = self._section(getattr(self.message, name))
                return parse_message(transaction_pb2.Transaction, data, self._path)
        return None

    def _manifest_bytes(self) -> bytes:
        if len(self._tail) < _FOOTER.size:
            raise CorruptFileError(f"a manifest of {len(self._tail)} bytes", self._path)
        position, _, _, magic = _FOOTER.unpack(self._tail[-_FOOTER.size :])
        if magic != _MAGIC:
            raise CorruptFileError(f"expected {_MAGIC!r} at the end, found {magic!r}", self._path)
        return self._section(position)

    def _section(self, offset: int) -> bytes:
        start = offset + _LENGTH.size
        if start > self._end:
            raise CorruptFileError(f"a section at {offset} lies beyond the end", self._path)
        (length,) = _LENGTH.unpack(self._bytes(offset, _LENGTH.size))
        if start + length > self._end:
            raise CorruptFileError(
                f"a section of {length} bytes at {offset} lies beyond the end", self._path
            )
        return self._bytes(start, length)

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset >= self._tail_start:
            return self._tail[offset - self._tail_start :][:size]
        return self._fetch(offset, size)

    def _fetch(self, offset: int, size: int) -> bytes:
        return self._source.read(Ranges.of((offset, size)))[0].tobytes()


def _with_length(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def listed_manifests(store: Store, since: int = 0) -> list[ManifestName]:
    """Return the versions in the folder of versions, oldest first.

    Versions before `since` may be omitted. CorruptFileError is raised if two naming schemes are
    mixed.
    """
    names: Iterable[str] = store.names(VERSIONS_FOLDER)
    if store.lists_in_order:
        names = _until(names, since)
    found = manifest_names(names, f"{store.uri}/{VERSIONS_FOLDER}", since)
    if not found and (latest := _latest_file(store)):
        found = [latest]
    return found


def newest_listed_manifest(store: Store) -> ManifestName | None:
    """Return the newest version in the folder of versions, None if there is no table."""
    if store.lists_in_order:
        parsed = map(ManifestName.parse, store.names(VERSIONS_FOLDER))
        first = next(filter(None, parsed), None)
        if first is None:
            return _latest_file(store)
        if first.scheme is NamingScheme.V2:
            return first
    names = store.names(VERSIONS_FOLDER)
    return newest_manifest_name(names, f"{store.uri}/{VERSIONS_FOLDER}") or _latest_file(store)


def _until(names: Iterable[str], version: int) -> Iterator[str]:
    """Yield sorted names up to the first with this version number, or a lower one."""
    for text in names:
        yield text
        name = ManifestName.parse(text)
        if name is not None and name.scheme is NamingScheme.V2 and name.version <= version:
            return


def _latest_file(store: Store) -> ManifestName | None:
    """Return the copy as a version; None if there is none."""
    tasks = [partial(_copy, store, path) for path in LATEST_PATHS]
    return next(filter(None, prefetch(store, tasks)), None)


def _copy(store: Store, path: str) -> ManifestName | None:
    with suppress(NotFoundError):
        return ManifestName(load_message(store, path).version, path, NamingScheme.V1)
    return None


def keep_version(store: Store, name: ManifestName) -> None:
    """Store a copy as the version that it is; do nothing for any other manifest."""
    if name.path in LATEST_PATHS:
        store.put_if_absent(name.scheme.manifest_path(name.version), store.read(name.path))


def replace_copies(store: Store, path: str) -> None:
    """Replace the existing copies by another manifest; if the store fails, they may be outdated."""
    for copy in LATEST_PATHS:
        if exists(store, copy):
            write_object(store, copy, store.read(path))


def remove_copies(store: Store) -> None:
    """Remove the copies of a table whose history old readers can no longer follow."""
    for copy in LATEST_PATHS:
        store.delete(copy)


def exists(store: Store, path: str) -> bool:
    """Return whether an object of this name exists."""
    try:
        store.source(path).close()
    except NotFoundError:
        return False
    return True
