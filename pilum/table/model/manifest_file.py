"""The manifest file: the manifest, the sections that it refers to, and the footer.

    values of dictionaries       in legacy tables that have any, see `dictionaries.py`
    u32 length, IndexSection     if the table has indices
    u32 length, Transaction      the changes of the commit, the same bytes as in the .txn file
    u32 length, Manifest         holds the offsets of the two above
    u64 offset of the Manifest's length
    u16 major, u16 minor, "LANC"

All integers are little-endian. Readers rely on offsets, not on the order of the sections; old files
begin with other bytes. Source: docs/format/table.md, "Manifest file".
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import Self, TypeVar

from google.protobuf.message import DecodeError, Message

from pilum.errors import CorruptFileError
from pilum.format.pb import manifest_files_pb2, table_pb2, transaction_pb2
from pilum.storage.base import Ranges, Source, Store
from pilum.table.model.dictionaries import append_dictionaries, load_dictionaries
from pilum.table.model.fragments import StoredFragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.names import ManifestName

__all__ = [
    "decode_message",
    "encode_manifest_file",
    "is_inlined",
    "load_files_and_indices",
    "load_manifest",
    "load_manifest_and_transaction",
    "load_message",
    "load_named",
]

_MAGIC = b"LANC"
_FORMAT_VERSION = (0, 2)
_FOOTER = struct.Struct("<QHH4s")
_LENGTH = struct.Struct("<I")
_TAIL_BYTES = 64 * 1024
_MAX_INLINE_TRANSACTION_BYTES = 20 << 20

_M = TypeVar("_M", bound=Message)


def encode_manifest_file(manifest: Manifest, transaction: bytes) -> bytes:
    """Build the bytes of a manifest file; omit a transaction that is longer than readers accept."""
    message = manifest.to_proto()
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
    body += _with_length(message.SerializeToString(deterministic=True))
    return bytes(body) + _FOOTER.pack(position, *_FORMAT_VERSION, _MAGIC)


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
        files = decode_message(manifest_files_pb2.ManifestFiles, file.data, path)
        return files, decode_message(table_pb2.IndexSection, file.index_section(files), path)


def load_manifest_and_transaction(
    store: Store, path: str
) -> tuple[table_pb2.Manifest, transaction_pb2.Transaction | None]:
    """Read a manifest file as `load_manifest`, and its transaction; None if that is not in it."""
    with _ManifestFile(store, path) as file:
        return file.message, file.transaction()


def decode_message(kind: type[_M], data: bytes, where: str) -> _M:
    """Parse a message; raise CorruptFileError if the bytes are not a valid one of this type."""
    message: _M = kind()
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise CorruptFileError(f"not a {kind.DESCRIPTOR.name}: {error}", where) from error
    return message


class _ManifestFile:
    """An open manifest file and its message; a small file is read with one request."""

    def __init__(self, store: Store, path: str) -> None:
        self._path = path
        self._source: Source = store.source(path)
        try:
            size = self._source.size
            self._tail_start = max(0, size - _TAIL_BYTES)
            self._tail = self._fetch(self._tail_start, size - self._tail_start)
            self._end = size - _FOOTER.size
            self.data = self._manifest_bytes()
        except CorruptFileError:
            self._source.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @cached_property
    def message(self) -> table_pb2.Manifest:
        """Parse `data`."""
        return decode_message(table_pb2.Manifest, self.data, self._path)

    def manifest(self) -> Manifest:
        """Build the manifest, with its dictionaries and index section."""
        indices = self.index_section(self.message)
        decode_message(table_pb2.IndexSection, indices, self._path)
        try:
            manifest = Manifest.from_proto(self.message, indices, self._place)
            if manifest.is_legacy:
                manifest = load_dictionaries(manifest, self.message, self._source)
        except CorruptFileError as error:
            raise error.at(self._place) from None
        except UnicodeDecodeError as error:
            raise CorruptFileError(f"metadata is not UTF-8: {error}", self._path) from error
        return manifest

    def has_content_of(self, known: Manifest) -> bool:
        """Return whether a manifest was read from the same bytes, and is as it was read."""
        fragments, message = known.fragments, known.message
        return (
            message is not None
            and isinstance(fragments, StoredFragments)
            and fragments.are_of(message)
            and message == self.message
            and known.index_section == self.index_section(self.message)
        )

    @property
    def _place(self) -> str:
        """Return the path and the version, which is not obvious from the path of a manifest."""
        return f"{self._path}, version {self.message.version}"

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
                return decode_message(transaction_pb2.Transaction, data, self._path)
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
