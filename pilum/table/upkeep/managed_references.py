"""Keys of the objects to which managed blobs refer, in all data files of many versions.

    _blobs/{uuid}.blob          key {uuid}.blob
    data/{stem}/1000….blob      key {stem}/1000….blob: a former sidecar, adopted by a compaction

Each data file is read once in a cleanup. Deleted rows count: an object stays until no data file
refers to it. Keys have no folders, so a reference that leads to an object by a base path, or by
another name of the folder, counts as well. This keeps too many objects rather than too few. Source:
docs/format/blobs.md, "Managed blobs".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial

from pilum.errors import CorruptFileError, NotFoundError, UnsupportedFormatError
from pilum.format.blobs import BlobKind
from pilum.format.messages import parse_message
from pilum.format.pb import table_pb2
from pilum.storage.base import Store, run_all
from pilum.table.model.base_paths import BasePath, with_bases
from pilum.table.model.fragment import DataFile
from pilum.table.read.blob_references import blob_references

__all__ = ["BLOB_SUFFIX", "Bases", "ManagedReferences", "blob_key"]

BLOB_SUFFIX = ".blob"
_SIDECAR = re.compile(r"[01]{32}\.blob")
_READ_AT_ONCE = 64

Bases = tuple[BasePath, ...]


def blob_key(path: str) -> str:
    """Return the key of an object, given its path or URI."""
    folder, _, name = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name}" if _SIDECAR.fullmatch(name) else name


class ManagedReferences:
    """Keys of the objects to which data files refer; each file is read once.

    Args:
        store: Where the table, or a branch of it, is.
        own_files_only: Whether to leave out data files in base paths.
    """

    def __init__(self, store: Store, *, own_files_only: bool = False) -> None:
        self._store = store
        self._own_files_only = own_files_only
        self._keys: dict[tuple[str, str], frozenset[str]] = {}

    def of(self, fragments: Mapping[bytes, Bases]) -> dict[bytes, frozenset[str]]:
        """Return the keys of all objects to which fragments refer.

        Args:
            fragments: Messages of fragments, with the base paths of their version.

        Raises:
            NotFoundError: If a data file is missing.
            CorruptFileError: If a data file or a message is damaged.
        """
        files = {data: list(self._files(data, bases)) for data, bases in fragments.items()}
        distinct = {_identity(*file): file for found in files.values() for file in found}
        unread = [identity for identity in distinct if identity not in self._keys]
        for start in range(0, len(unread), _READ_AT_ONCE):
            part = unread[start : start + _READ_AT_ONCE]
            tasks = [partial(_keys_of_file, self._store, *distinct[identity]) for identity in part]
            self._keys |= zip(part, run_all(self._store, tasks), strict=True)
        return {
            data: frozenset().union(*(self._keys[_identity(*file)] for file in found))
            for data, found in files.items()
        }

    def of_readable(self, fragments: Mapping[bytes, Bases]) -> dict[bytes, frozenset[str]]:
        """Return the keys as `of`, without those of fragments that cannot be read."""
        found: dict[bytes, frozenset[str]] = {}
        for data, bases in fragments.items():
            with suppress(CorruptFileError, NotFoundError, UnsupportedFormatError):
                found |= self.of({data: bases})
        return found

    def _files(self, data: bytes, bases: Bases) -> Iterator[tuple[DataFile, Bases]]:
        fragment = parse_message(table_pb2.DataFragment, data, "a fragment of a manifest")
        overlays = (overlay.data_file for overlay in fragment.overlays)
        for file in map(DataFile.from_proto, (*fragment.files, *overlays)):
            if file.base_id is None or not self._own_files_only:
                yield file, bases


def _identity(file: DataFile, bases: Bases) -> tuple[str, str]:
    """Return the place of a data file: its name, and the base path that contains it."""
    return file.path, _folder(file.base_id, bases)


def _folder(base_id: int | None, bases: Bases) -> str:
    """Return the location of a base path; "" for the folder of the table, and if it is unknown."""
    return next((base.path for base in bases if base.id == base_id), "")


def _keys_of_file(store: Store, file: DataFile, bases: Bases) -> frozenset[str]:
    found = set()
    for kind, base_id, uri in blob_references(with_bases(store, bases), file):
        folder = _folder(file.base_id if kind == BlobKind.MANAGED else base_id, bases)
        found.add(blob_key(f"{folder}/{uri}"))
    return frozenset(key for key in found if key.endswith(BLOB_SUFFIX))
