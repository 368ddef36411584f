"""The columns of one fragment: which data file holds which leaf, opened once and kept.

For a wanted field, the first file that lists the id of a leaf supplies it; a leaf that no file
lists is null in every row. Files never change once they are written, so open readers are shared by
all scans of the process, up to a limit. Source: docs/format/table.md, "Fragments".
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from pilum.container.fields import FieldReader, Leaf
from pilum.container.reader import FileReader
from pilum.errors import CorruptFileError
from pilum.format.schema import Field, FieldId
from pilum.format.version import FileVersion
from pilum.storage.base import Store
from pilum.table.fragment import DataFile, Fragment
from pilum.table.names import data_path

__all__ = ["FragmentReader"]

_MAX_OPEN_FILES = 256

_Key = tuple[str, str, int | None]


class _OpenFiles:
    """Readers of data files, the most recently used ones."""

    def __init__(self) -> None:
        self._readers: OrderedDict[_Key, FileReader] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, store: Store, file: DataFile) -> FileReader:
        """Opens a file, or returns the reader that is open already."""
        key = (store.uri, file.path, file.size_bytes)
        with self._lock:
            if key in self._readers:
                self._readers.move_to_end(key)
                return self._readers[key]
        reader = FileReader.open(store.source(data_path(file.path), file.size_bytes))
        with self._lock:
            self._readers[key] = reader
            if len(self._readers) > _MAX_OPEN_FILES:
                self._readers.popitem(last=False)
        return reader


_open_files = _OpenFiles()


class FragmentReader:
    """Reads fields of one fragment.

    Attributes:
        fragment: Which one.
        num_rows: Its physical rows.
    """

    def __init__(self, store: Store, fragment: Fragment) -> None:
        self._store = store
        self.fragment = fragment
        self.num_rows = fragment.physical_rows

    def field(self, field: Field) -> FieldReader:
        """Opens what a field, with only its wanted members, needs.

        Raises:
            UnsupportedVersionError: If a data file has a version that is not supported.
            CorruptFileError: If a file contradicts the manifest.
        """
        leaves: dict[FieldId, Leaf] = {}
        for leaf in field.leaves():
            place = self._locate(leaf.id)
            if place is not None:
                file, index = place
                reader = self._open(file)
                leaves[leaf.id] = Leaf(reader, reader.columns([index])[0])
        return FieldReader(field, leaves, self.num_rows)

    def _locate(self, field_id: FieldId) -> tuple[DataFile, int] | None:
        for file in self.fragment.files:
            if field_id in file.fields:
                FileVersion.from_numbers(file.major, file.minor)
                return file, file.column_indices[file.fields.index(field_id)]
        return None

    def _open(self, file: DataFile) -> FileReader:
        reader = _open_files.get(self._store, file)
        if reader.num_rows != self.num_rows:
            raise CorruptFileError(
                f"rows: the manifest says {self.num_rows}, the file {reader.num_rows}",
                f"fragment {self.fragment.id}",
                reader.source.path,
            )
        return reader
