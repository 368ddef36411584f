"""The files of an index segment: Lance files in one folder, with parameters in their metadata.

    _indices/{uuid}/page_lookup.lance      rows        the columns of the index type
                                           metadata    parameters, as text, in the file's schema
                                           buffers     global buffers from number 1 on, for blobs

Source: docs/format/indices.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.arrays import join_arrays
from pilum.cache import FileCaches
from pilum.container.open import field_reader, new_file, open_file
from pilum.container.reader import ContainerReader
from pilum.container.segments import FieldReader, FilePart, Segment, read_columns, read_segments
from pilum.container.writer import FileOptions
from pilum.encodings.options import EncodingOptions
from pilum.errors import CorruptFileError
from pilum.format.rows import RowRanges
from pilum.format.schema import Schema
from pilum.format.version import FileVersion
from pilum.storage.base import Store

__all__ = ["IndexFile", "IndexFileWriter", "IndexFolder", "IndexFolderWriter"]


_MOST_BUFFER_BYTES = 1 << 20
"""Up to so many bytes of global buffers are read together."""


class IndexFile:
    """An open file of a segment. Safe to use from several threads.

    Attributes:
        path: Path in the store.
        num_rows: Number of rows.
        schema: Columns, with the metadata of the file's schema.
    """

    def __init__(self, store: Store, path: str, size_bytes: int | None = None) -> None:
        """Open a file.

        Raises:
            NotFoundError: If it does not exist.
            CorruptFileError: If it is damaged.
        """
        self.path = path
        self._store = store
        self._reader = open_file(store.source(path, size_bytes), FileCaches.of_index())
        self.num_rows = self._reader.num_rows
        self.schema: pa.Schema = self._reader.schema.arrow
        self._part = FilePart(self._reader, self._reader.field_columns())
        self._fields: dict[str, FieldReader] = {}
        self._buffers: dict[int, bytes] = {}

    @property
    def metadata(self) -> Mapping[str, str]:
        """The metadata of the schema."""
        return self._reader.schema.metadata

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._reader.source.size

    @property
    def batch_bounds(self) -> NDArray[np.int64] | None:
        """The first row of each batch of a legacy file, and the end; None for other files."""
        bounds: NDArray[np.int64] | None = None
        if self._reader.version is FileVersion.LEGACY:
            from pilum.container.legacy.file import LegacyFile

            assert isinstance(self._reader, LegacyFile)
            bounds = self._reader.metadata.batch_bounds
        return bounds

    def read(self, columns: Sequence[str] | None = None, rows: RowRanges | None = None) -> pa.Table:
        """Read columns, each as one chunk.

        Args:
            columns: Names; None for all columns.
            rows: Sorted rows; None for all rows.

        Raises:
            CorruptFileError: If a column is missing, or the file is damaged.
        """
        names = self.schema.names if columns is None else list(columns)
        arrays = self.arrays(names, rows)
        return pa.Table.from_arrays(arrays, schema=pa.schema(map(self.schema.field, names)))

    def arrays(self, names: Sequence[str], rows: RowRanges | None = None) -> list[pa.Array]:
        """Read columns by their names; see `read`.

        Raises:
            CorruptFileError: If a column is missing, or the file is damaged.
        """
        fields = list(map(self._field, names))
        wanted = RowRanges.of((0, self.num_rows)) if rows is None else rows
        bounds = wanted.bounds
        if len(bounds) and int(bounds[-1, 1]) > self.num_rows:
            raise CorruptFileError(f"row {bounds[-1, 1] - 1} of {self.num_rows} rows", self.path)
        segments = [list(field.segments(wanted)) if len(bounds) else [] for field in fields]
        return [
            join_arrays(found, f"column {name!r}") if found else field.empty()
            for name, found, field in zip(names, self._pieces(segments), fields, strict=True)
        ]

    def _pieces(self, segments: list[list[Segment]]) -> list[list[pa.Array]]:
        """Read the segments of columns; of local files, with as few arrays as possible."""
        if not self._store.is_remote:
            return read_columns(segments)
        found = iter(read_segments([one for group in segments for one in group]))
        return [[next(found) for _ in group] for group in segments]

    def global_buffer(self, number: int) -> bytes:
        """Read a global buffer; those of the writer are counted from 1 on.

        The others are read by the same request, if they are small, and kept until they are used.

        Raises:
            CorruptFileError: If the file has no buffer of this number.
        """
        found = self._buffers.pop(number, None)
        if found is not None:
            return found
        reader = self._reader
        if not isinstance(reader, ContainerReader):
            raise CorruptFileError(f"global buffer {number} of a legacy file", self.path)
        count = len(reader.global_buffers)
        if not 0 < number < count:
            raise CorruptFileError(f"global buffer {number} of {count}", self.path)
        numbers = [number]
        if sum(size for _, size in reader.global_buffers) <= _MOST_BUFFER_BYTES:
            numbers += [one for one in range(1, count) if one != number]
        found, *others = reader.read_global_buffers(numbers)
        self._buffers.update(zip(numbers[1:], others, strict=True))
        return found

    def _field(self, name: str) -> FieldReader:
        reader = self._fields.get(name)
        if reader is None:
            found = [field for field in self._reader.schema.fields if field.name == name]
            if len(found) != 1:
                raise CorruptFileError(
                    f"{len(found)} columns {name!r}; there are {self.schema.names}", self.path
                )
            reader = field_reader(found[0], [self._part], self.num_rows)
            self._fields[name] = reader
        return reader


class IndexFolder:
    """The folder of a segment.

    Attributes:
        store: The store that contains it.
        path: Path of the folder in the store, without a trailing slash.
        sizes: Size of each file in bytes, by name; empty in old tables.
    """

    def __init__(self, store: Store, path: str, sizes: Mapping[str, int] | None = None) -> None:
        self.store = store
        self.path = path
        self.sizes = dict(sizes or {})

    def open(self, name: str) -> IndexFile:
        """Open one of the files.

        Raises:
            NotFoundError: If it does not exist.
            CorruptFileError: If it is damaged.
        """
        return IndexFile(self.store, f"{self.path}/{name}", self.sizes.get(name))

    def has(self, name: str) -> bool:
        """Return whether the segment has a file of this name."""
        names = self.sizes or set(self.store.names(self.path))
        return name in names


class IndexFileWriter:
    """A writer of one file of a segment, which discards the file if its block fails."""

    def __init__(
        self,
        folder: IndexFolderWriter,
        name: str,
        schema: pa.Schema,
        options: FileOptions,
    ) -> None:
        self._folder = folder
        self._name = name
        self.schema = schema
        sink = folder.store.sink(f"{folder.path}/{name}".lstrip("/"))
        try:
            self._file = new_file(sink, Schema.from_arrow(schema), folder.version, options)
        except BaseException:
            sink.abort()
            raise

    def write(self, rows: pa.RecordBatch | pa.Table) -> None:
        """Write rows with the columns of `schema`."""
        for batch in rows.to_batches() if isinstance(rows, pa.Table) else [rows]:
            if batch.num_rows:
                self._file.write_batch(batch)

    def add_metadata(self, entries: Mapping[str, str]) -> None:
        """Add entries to the metadata of the schema."""
        for key, value in entries.items():
            self._file.add_schema_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer and return its number."""
        return self._file.add_global_buffer(data)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._file.abort()
            return
        try:
            written = self._file.finish()
        except BaseException:
            self._file.abort()
            raise
        self._folder.sizes[self._name] = written.size_bytes


class IndexFolderWriter:
    """The folder of a new segment. No table refers to it before it is committed.

    Attributes:
        store: The store that will contain it.
        path: Path of the folder in the store, without a trailing slash; empty for the store itself.
        version: Version of its files; 2.0 in legacy tables, otherwise the one of the table.
        sizes: Size of each finished file in bytes, by name.
    """

    def __init__(self, store: Store, path: str, table_version: FileVersion) -> None:
        self.store = store
        self.path = path
        is_legacy = table_version is FileVersion.LEGACY
        self.version = FileVersion.V2_0 if is_legacy else table_version
        self.sizes: dict[str, int] = {}

    def file(
        self, name: str, schema: pa.Schema, max_page_bytes: int | None = None
    ) -> IndexFileWriter:
        """Start a file, to be used as a context manager.

        Args:
            name: Its name.
            schema: Its columns.
            max_page_bytes: Upper bound of the bytes of a page in memory; None for the default.
        """
        zones = False if self.version.has_mini_blocks else None  # files of 2.0 never have any
        encoding = EncodingOptions(zones=zones)
        options = FileOptions(max_page_bytes=max_page_bytes, encoding=encoding)
        return IndexFileWriter(self, name, schema, options)

    def write(self, name: str, rows: pa.Table, metadata: Mapping[str, str] | None = None) -> None:
        """Write a whole file."""
        with self.file(name, rows.schema) as file:
            file.write(rows)
            file.add_metadata(metadata or {})

    def written(self) -> IndexFolder:
        """Return the folder for readers."""
        return IndexFolder(self.store, self.path, self.sizes)

    def delete(self, names: Iterable[str] | None = None) -> None:
        """Delete files; all of them if `names` is None."""
        for name in list(self.sizes if names is None else names):
            self.store.delete(f"{self.path}/{name}")
            self.sizes.pop(name, None)
