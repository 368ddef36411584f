"""Sessions: what datasets share about files, which never change after they are written.

    manifest    of the newest version that was opened, of local tables    Manifest
    fragment    its manifest entry and the footers of its files           FragmentReader
    page        chunk table, repetition index, dictionary                 of a mini-block page

These caches share one limit in bytes, and the least recently used entries are evicted first. Parsed
schemas and descriptions of columns and pages are in a small cache of the process.

A session also keeps which files agree with the manifest (`Agreement`). A file has its own schema,
with the ids that its fields had when it was written:

    manifest   field 0 "a"  ->  column 1          file   column 0   field 0 "a" int32
               field 1 "b"  ->  column 0                 column 1   field 1 "b" int32

Names change, and files from other writers have their own ids. Therefore only unambiguous
contradictions count as damage: the file has a field of the same id, name and type in another column
than the manifest says, or a column whose values have another type. Source: docs/format/table.md,
"Fragments".
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import repeat
from typing import Any
from urllib.parse import parse_qsl, urlsplit
from weakref import WeakValueDictionary

from pilum.arguments import integer_of
from pilum.cache import SHARED_DESCRIPTIONS, Cache, CachePart, CacheStats, FileCaches
from pilum.container.open import open_file
from pilum.container.segments import DataFileReader
from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.fields import DESCRIPTOR_ID, Field, FieldId
from pilum.format.schema import Schema
from pilum.format.types import PLAIN_TYPES
from pilum.format.version import FileVersion
from pilum.storage.base import Store

__all__ = ["DEFAULT_SESSION", "Agreement", "CacheBackend", "Session", "require_absence"]

CacheBackend = str | Mapping[str, object]
"""Cache settings of the reference: `"moka://?capacity=1048576"`, or the same as a dict."""

_BACKEND_KIND = "moka"

_METADATA_CACHE_BYTES = 512 * 1024 * 1024
_INDEX_CACHE_BYTES = 6 * 1024 * 1024 * 1024


class Session:
    """Caches that datasets share. Safe to use from several threads.

    Datasets that are opened without a session share a session of the process. A child process
    starts with empty caches.
    """

    def __init__(
        self,
        index_cache_size_bytes: int | None = None,
        metadata_cache_size_bytes: int | None = None,
        *,
        index_cache_backend: CacheBackend | None = None,
        metadata_cache_backend: CacheBackend | None = None,
    ) -> None:
        """Create a session with empty caches.

        Args:
            index_cache_size_bytes: Maximum size of opened indices, bytes; 6 GiB if None.
            metadata_cache_size_bytes: Maximum size of open files and of page metadata read by
                random access, bytes; 512 MiB if None.
            index_cache_backend: Alternative to `index_cache_size_bytes`:
                "moka://?capacity=1048576", or a dict with "kind" and "options".
            metadata_cache_backend: Alternative to `metadata_cache_size_bytes`.

        Raises:
            InvalidInputError: If a limit is not a number of bytes, a backend has an unknown kind,
                or both a limit and a backend are given.
        """
        index_bytes = _capacity("index_cache", index_cache_size_bytes, index_cache_backend)
        metadata_bytes = _capacity(
            "metadata_cache", metadata_cache_size_bytes, metadata_cache_backend
        )
        self.indices = Cache(_INDEX_CACHE_BYTES if index_bytes is None else index_bytes)
        self.metadata = Cache(_METADATA_CACHE_BYTES if metadata_bytes is None else metadata_bytes)
        self.agreement = Agreement()
        self.descriptions = SHARED_DESCRIPTIONS
        self._files: WeakValueDictionary[str, DataFileReader] = WeakValueDictionary()

    def size_bytes(self) -> int:
        """Return the size of both caches in bytes."""
        return self.indices.size_bytes + self.metadata.size_bytes

    def index_cache_size_bytes(self) -> int:
        """Return the size of opened indices in bytes."""
        return self.indices.size_bytes

    def metadata_cache_stats(self) -> CacheStats:
        """Return hits, misses and size of the cache of files and pages."""
        return self.metadata.stats()

    def index_cache_stats(self) -> CacheStats:
        """Return hits, misses and size of the cache of indices."""
        return self.indices.stats()

    def is_same_as(self, other: Session) -> bool:
        """Return whether both objects are the same session."""
        return self is other

    def open_file(self, store: Store, path: str, size: int | None) -> DataFileReader:
        """Return the reader of a file, which is shared by all of its users."""
        key = f"{store.identity}/{path}:{size}"
        reader = self._files.get(key)
        if reader is None:
            caches = FileCaches(self.descriptions, CachePart(self.metadata, key))
            opened = open_file(store.source(path, size), caches)
            reader = self._files.setdefault(key, opened)
        return reader

    def __repr__(self) -> str:
        return (
            f"Session(index_cache_size_bytes={self.indices.size_bytes}, "
            f"metadata_cache_size_bytes={self.metadata.size_bytes})"
        )


def _capacity(name: str, size_bytes: int | None, backend: CacheBackend | None) -> int | None:
    if backend is None:
        return _limit(f"{name}_size_bytes", size_bytes)
    if size_bytes is not None:
        raise InvalidInputError(f"pass {name}_size_bytes or {name}_backend, not both")
    return _backend_bytes(f"{name}_backend", backend)


def _limit(name: str, value: Any) -> int | None:
    if value is None:
        return None
    number = integer_of(value)
    if number is None or number < 0:
        raise InvalidInputError(f"{name}: expected a number of bytes, found {value!r}")
    return number


def _backend_bytes(name: str, backend: CacheBackend) -> int:
    """Return the capacity of a cache in bytes.

    This library has one kind of cache, which evicts the least recently used entries. Of the
    reference's default kind, only the capacity is used. Other kinds are refused by name.
    """
    kind, options = _parsed_backend(name, backend)
    if kind != _BACKEND_KIND:
        raise InvalidInputError(f"{name}: expected the kind {_BACKEND_KIND!r}, found {kind!r}")
    if unknown := options.keys() - {"capacity"}:
        raise InvalidInputError(f"{name}: unknown options {sorted(unknown)}")
    capacity = options.get("capacity")
    if not isinstance(capacity, str) or not capacity.isdecimal():
        raise InvalidInputError(f"{name}: expected a capacity in bytes, found {capacity!r}")
    return int(capacity)


def _parsed_backend(name: str, backend: CacheBackend) -> tuple[object, Mapping[str, object]]:
    if isinstance(backend, str):
        uri = urlsplit(backend)
        return uri.scheme or backend, dict(parse_qsl(uri.query))
    options = backend.get("options") or {} if isinstance(backend, Mapping) else None
    if not isinstance(backend, Mapping) or not isinstance(options, Mapping):
        raise InvalidInputError(f"{name}: expected a URI or a dict, found {backend!r:.80}")
    return backend.get("kind"), options


_LIKE = {"large_string": "string", "large_binary": "binary"}
_NO_COLUMN = -1
"""Column number for files before 2.0, which have no numbered columns."""
_MANY = 8192
"""Maximum number of kept results."""


class Agreement:
    """Results of comparisons, which are kept because most files share a schema and a field list.

    They are found by the identity of the compared objects. The objects are kept with the result, so
    that no other object can get their identity.
    """

    def __init__(self) -> None:
        self._columns: dict[tuple[tuple[FieldId, ...], tuple[int, ...]], Mapping[FieldId, int]] = {}
        self._agreed: dict[tuple[int, int, int], tuple[Field, Schema, Mapping[FieldId, int]]] = {}

    def columns(
        self, fields: tuple[FieldId, ...], indices: tuple[int, ...]
    ) -> Mapping[FieldId, int]:
        """Return the column of each field that the manifest lists for a file."""
        key = fields, indices
        found = self._columns.get(key)
        if found is None:
            if len(self._columns) >= _MANY:
                self._columns.clear()
            found = dict(zip(fields, indices or repeat(_NO_COLUMN), strict=False))
            self._columns[key] = found
        return found

    def require(
        self, field: Field, column_of: Mapping[FieldId, int], reader: DataFileReader
    ) -> None:
        """Check the columns that the manifest lists for a field of the table's schema.

        `column_of` is the result of `columns` for the file. CorruptFileError is raised if the file
        has the field in another column, or with another type.
        """
        if reader.version is FileVersion.LEGACY:
            return  # its columns are found by their ids
        schema = reader.schema
        if _is_as_written(field, schema, column_of, reader):
            return
        key = id(field), id(schema), id(column_of)
        if key in self._agreed:
            return
        _require_place(field, None, reader)
        for member in field.walk():
            if member.id in column_of:
                _require_agreement(member, column_of[member.id], reader)
        if len(self._agreed) >= _MANY:
            self._agreed.clear()
        self._agreed[key] = field, schema, column_of


def _is_as_written(
    field: Field, schema: Schema, column_of: Mapping[FieldId, int], reader: DataFileReader
) -> bool:
    """Return whether a field without members, the common case, is in the file as it was written."""
    own = schema.find(field.id)
    return (
        own is not None
        and not (field.children or own.children)
        and own.name == field.name
        and own.logical_type == field.logical_type
        and schema.parent(own) is None
        and reader.field_columns().get(field.id) == column_of.get(field.id)
    )


def _require_place(field: Field, above: Field | None, reader: DataFileReader) -> None:
    """Check that fields have the same parents in the file; fields never change their parent."""
    own = reader.schema.find(field.id)
    if own is None or own.name != field.name:
        return
    if reader.schema.parent(own) is not above:
        raise CorruptFileError(
            f"field {field.name!r} (id {field.id}) is a member of another field in the file",
            reader.source.path,
        )
    for child in field.children:
        _require_place(child, own, reader)


def _require_agreement(member: Field, column: int, reader: DataFileReader) -> None:
    found, numbers = reader.schema.find(member.id), reader.column_ids
    if numbers:
        if _has(reader, member) and reader.field_columns().get(member.id) not in (None, column):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}): the manifest says column {column}, "
                f"the file column {reader.field_columns()[member.id]}",
                reader.source.path,
            )
        found = reader.schema.find(numbers[column]) if 0 <= column < len(numbers) else None
    elif found is not None and found.name != member.name:
        found = None
    if found is not None and not _are_alike(member, found):
        raise CorruptFileError(
            f"field {member.name!r} (id {member.id}): the manifest says {member.logical_type}, "
            f"the file {found.logical_type}",
            reader.source.path,
        )


def require_absence(field: Field, missing: Container[FieldId], reader: DataFileReader) -> None:
    """Raise CorruptFileError if a file contains fields that the manifest lists for no file.

    `missing` are the ids of such fields, out of the given field and its members.
    """
    if reader.version is FileVersion.LEGACY:
        return
    own = reader.field_columns()
    for member in _listed(field, reader.version):
        if member.id in missing and member.id in own and _has(reader, member):
            raise CorruptFileError(
                f"field {member.name!r} (id {member.id}) is in the file, but the manifest does "
                "not list it",
                reader.source.path,
            )


def _listed(field: Field, version: FileVersion) -> Iterator[Field]:
    """Yield the field and its members, except those that the reference does not list in 2.0."""
    yield field
    if field.list_size is None or version is not FileVersion.V2_0:
        for child in field.children:
            yield from _listed(child, version)


def _has(reader: DataFileReader, member: Field) -> bool:
    """Return whether the file has a field of the same id, name and type."""
    own = reader.schema.find(member.id)
    if own is None:
        return False
    return own.name == member.name and own.logical_type == member.logical_type


def _are_alike(one: Field, other: Field) -> bool:
    """Return whether values of one type may be read as the other, ignoring parameters of types."""
    types = {_LIKE.get(field.logical_type, field.logical_type) for field in (one, other)}
    if len(types) == 1 or not types & PLAIN_TYPES:
        return True
    return not types <= PLAIN_TYPES and any(map(_has_two_forms, (one, other)))


def _has_two_forms(field: Field) -> bool:
    """Return whether files may store a field with another type: blobs and dictionaries."""
    is_described = any(child.id == DESCRIPTOR_ID for child in field.children)
    return is_described or field.blob_version > 0 or field.logical_type.startswith("dict:")


DEFAULT_SESSION = Session()
"""The session of datasets that are opened without one."""
