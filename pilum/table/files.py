"""The columns of one fragment: which data file holds which leaf, opened once and kept.

For a wanted field, the first file that lists the id of a leaf supplies it; a leaf that no file
lists is null in every row. Files never change once they are written, so open readers are shared by
all scans of the process, up to a limit. Source: docs/format/table.md, "Fragments".
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from itertools import repeat
from typing import Generic, TypeVar

from pilum.container.open import field_reader, open_file
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.errors import CorruptFileError, UnsupportedFormatError
from pilum.format.schema import Field, FieldId
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.fragment import DataFile, Fragment
from pilum.table.names import data_path

__all__ = ["FragmentReader", "open_data_file"]

_MAX_OPEN = 256
_NO_COLUMN = -1
"""Files before 2.0 have no columns by number."""

K = TypeVar("K")
V = TypeVar("V")


class _Recent(Generic[K, V]):
    """The most recently used values. Safe to use from several threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self.clear()
        if hasattr(os, "register_at_fork"):
            # A thread that is gone in the child may have held the lock.
            os.register_at_fork(after_in_child=self.clear)

    def clear(self) -> None:
        """Forgets everything."""
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made if it is not at hand."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        value = make()
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        return value


def open_data_file(store: Store, file: DataFile) -> DataFileReader:
    """Opens a data file of a table, once for all that read it.

    Raises:
        UnsupportedVersionError: If it has a version that is not supported.
        CorruptFileError: If it is damaged.
    """
    version = FileVersion.from_numbers(file.major, file.minor)
    path = data_path(file.path)
    # Releases around 0.30 of the reference recorded 0.1 files as smaller than they are.
    size = None if version is FileVersion.LEGACY else file.size_bytes
    return _files.get((store.uri, path, size), lambda: open_file(store.source(path, size)))


class FragmentReader:
    """Reads fields of one fragment. Safe to use from several threads.

    Attributes:
        fragment: Which one.
        num_rows: Its physical rows.
    """

    def __init__(self, store: Store, fragment: Fragment) -> None:
        self._store = store
        self.fragment = fragment
        self.num_rows = fragment.physical_rows
        self._fields: dict[tuple[FieldId, ...], FieldReader] = {}

    @classmethod
    def of(cls, store: Store, fragment: Fragment) -> FragmentReader:
        """The reader of a fragment, shared by all that read it."""
        key = (store.uri, fragment.id, tuple(file.path for file in fragment.files))
        return _fragments.get(key, lambda: cls(store, fragment))

    def field(self, field: Field) -> FieldReader:
        """Opens what a field, with only its wanted members, needs.

        Raises:
            UnsupportedVersionError: If a data file has a version that is not supported.
            CorruptFileError: If a file contradicts the manifest.
        """
        reader = self._fields.get(field.ids)
        # The same columns may have another name or place in another version.
        if reader is None or (reader.field is not field and reader.field != field):
            reader = self._fields[field.ids] = self._make(field)
        return reader

    def _make(self, field: Field) -> FieldReader:
        if special := field.special_storage:
            raise UnsupportedFormatError(f"column {field.name!r}: {special} is not supported")
        return field_reader(field, self._parts(field), self.num_rows)

    @cached_property
    def _columns(self) -> list[dict[FieldId, int]]:
        """For each file, the column of each field that it holds."""
        return [
            dict(zip(file.fields, file.column_indices or repeat(_NO_COLUMN), strict=False))
            for file in self.fragment.files
        ]

    def _parts(self, field: Field) -> list[FilePart]:
        """The files that hold some of a field; of two that hold the same, the first counts."""
        missing = set(field.ids)
        parts = []
        for file, column_of in zip(self.fragment.files, self._columns, strict=True):
            columns = {number: column_of[number] for number in missing if number in column_of}
            if columns:
                parts.append(FilePart(self._open(file), columns, file.fields))
                missing.difference_update(columns)
        return parts

    def _open(self, file: DataFile) -> DataFileReader:
        reader = open_data_file(self._store, file)
        if reader.num_rows != self.num_rows:
            raise CorruptFileError(
                f"rows: the manifest says {self.num_rows}, the file {reader.num_rows}",
                f"fragment {self.fragment.id}",
                reader.source.path,
            )
        return reader


_files: _Recent[tuple[str, str, int | None], DataFileReader] = _Recent(_MAX_OPEN)
_fragments: _Recent[tuple[str, int, tuple[str, ...]], FragmentReader] = _Recent(_MAX_OPEN)
