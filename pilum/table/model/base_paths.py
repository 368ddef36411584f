"""Base paths: folders outside the table's own that hold some of its files.

    base 0    /tables/a              root of a table    /tables/a/data/x.lance
    base 3    s3://bucket/fast       plain folder       s3://bucket/fast/y.lance

A data or deletion file with a base id lies in that base. All other files lie in the table's own
folder. Ids begin at 0, so an id of 0 differs from a missing one.

    entry without base id ──▶ the table's own store, data/{path}
    entry of base 3       ──▶ the store of base 3,   data/{path}, or {path} in a plain folder

The store of a table with base paths also provides the stores of these (`with_bases`). In all other
respects it is the table's own store: new files are never written to a base implicitly. Source:
docs/format/table.md, "Base paths".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.format.blobs import is_relative_path
from pilum.format.pb import table_pb2
from pilum.storage.base import Store
from pilum.storage.wrapper import StoreWrapper
from pilum.table.model.base_options import open_base
from pilum.table.model.fragment import DataFile, Fragment
from pilum.table.model.names import index_folder

__all__ = [
    "BasePath",
    "blob_place",
    "data_file_place",
    "deletion_file_place",
    "free_base_id",
    "index_place",
    "managed_blob_place",
    "own_store",
    "require_distinct",
    "with_bases",
    "with_new_bases",
]

Place = tuple[Store, str]
"""A store, and the path of an object in it."""


@dataclass(frozen=True, slots=True)
class BasePath:
    """A folder outside the table's own folder.

    Attributes:
        id: Number by which files refer to this folder.
        path: URI or path of the folder.
        is_dataset_root: Whether the folder is laid out like a table (`data`, `_deletions`,
            `_indices`); otherwise data files lie directly in it.
        name: Name of the base for users, None if it has none.
    """

    id: int
    path: str
    is_dataset_root: bool = False
    name: str | None = None

    @classmethod
    def from_proto(cls, message: table_pb2.BasePath) -> BasePath:
        """Read one base path of a manifest."""
        name = message.name if message.HasField("name") else None
        return cls(message.id, message.path, message.is_dataset_root, name)

    def to_proto(self) -> table_pb2.BasePath:
        """Return the manifest message of the base path."""
        return table_pb2.BasePath(
            id=self.id, name=self.name, is_dataset_root=self.is_dataset_root, path=self.path
        )


def free_base_id(bases: Iterable[BasePath], first: int = 0) -> int:
    """Return the smallest id from `first` on that no base uses."""
    taken = {base.id for base in bases}
    number = first
    while number in taken:
        number += 1
    return number


def with_new_bases(bases: tuple[BasePath, ...], new: Iterable[BasePath]) -> tuple[BasePath, ...]:
    """Return the bases of a table with new ones; a new id of 0 is replaced by a free one, from 1.

    InvalidInputError is raised if an id, a name or a path is already used.
    """
    for base in new:
        if not base.id:
            base = replace(base, id=free_base_id(bases, 1))
        for other in bases:
            is_named = base.name is not None and base.name == other.name
            if is_named or base.path == other.path or base.id == other.id:
                raise InvalidInputError(f"base path {base} clashes with {other}")
        bases = (*bases, base)
    return bases


def require_distinct(bases: Iterable[BasePath]) -> None:
    """Raise CorruptFileError if two bases share an id."""
    ids = [base.id for base in bases]
    if len(set(ids)) < len(ids):
        raise CorruptFileError(f"base paths share an id: {sorted(ids)}")


def with_bases(store: Store, bases: tuple[BasePath, ...]) -> Store:
    """Return the store of a table with access to its base paths; nothing is opened yet."""
    own = own_store(store)
    if not bases:
        return own
    if isinstance(store, _BasedStore) and store.bases == bases:
        return store
    return _BasedStore(own, bases)


def own_store(store: Store) -> Store:
    """Return the store of the table's own folder, without access to base paths."""
    return store.wrapped if isinstance(store, _BasedStore) else store


def data_file_place(store: Store, file: DataFile) -> Place:
    """Return the store (of a table, see `with_bases`, or its bases) and path of a data file.

    UnsupportedFormatError is raised if no store supports the location of the base.
    """
    if file.base_id is None:
        return own_store(store), file.path_in_table
    base, base_store = _base(store, file.base_id, file.path)
    return base_store, file.path_in_table if base.is_dataset_root else file.path


def blob_place(store: Store, base_id: int, path: str) -> Place:
    """Return the store and path of a blob below a base path, as `data_file_place`.

    CorruptFileError is raised if the path does not lead to a place below the base path.
    """
    _require_blob_path(path, store)
    return _base(store, base_id, path)[1], path


def managed_blob_place(store: Store, file: DataFile, path: str) -> Place:
    """Return the store and path of a managed blob that a data file refers to, as `blob_place`.

    The path is relative to the folder of the table, or to the base path that contains the file.
    """
    _require_blob_path(path, store)
    return data_file_place(store, file)[0], path


def _require_blob_path(path: str, store: Store) -> None:
    if not is_relative_path(path):
        raise CorruptFileError(f"a blob at {path!r}, which is no relative path", store.uri)


def deletion_file_place(store: Store, fragment: Fragment) -> Place | None:
    """Return the store and path of a fragment's deletion file as `data_file_place`, if any."""
    file = fragment.deletion_file
    if file is None:
        return None
    path = file.path(fragment.id)
    if file.base_id is None:
        return own_store(store), path
    return _base(store, file.base_id, path)[1], path


def index_place(store: Store, index: table_pb2.IndexMetadata) -> Place:
    """Return the store and folder of the files of an index, as `data_file_place`."""
    try:
        folder = index_folder(str(UUID(bytes=index.uuid.uuid)))
    except ValueError:
        raise CorruptFileError(f"index {index.name!r} has no uuid of 16 bytes", store.uri) from None
    if not index.HasField("base_id"):
        return own_store(store), folder
    return _base(store, index.base_id, folder)[1], folder


def _base(store: Store, base_id: int, path: str) -> tuple[BasePath, Store]:
    if isinstance(store, _BasedStore):
        for base in store.bases:
            if base.id == base_id:
                return base, store.store_of(base)
    raise CorruptFileError(
        f"the manifest does not say where base path {base_id} is", path, store.uri
    )


@dataclass(frozen=True)
class _BasedStore(StoreWrapper):
    """The store of a table and those of its bases, which are opened on first use."""

    bases: tuple[BasePath, ...]
    _opened: dict[str, Store] = field(default_factory=dict, compare=False, repr=False)

    def store_of(self, base: BasePath) -> Store:
        """Return the store of a base, opened with the options of the table's own store."""
        found = self._opened.get(base.path)
        if found is None:
            try:
                found = open_base(self.wrapped, base.id, base.path)
            except InvalidInputError as error:
                raise CorruptFileError(f"base path {base.id}: {error}", self.wrapped.uri) from None
            self._opened[base.path] = found
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return with_bases, (self.wrapped, self.bases)
