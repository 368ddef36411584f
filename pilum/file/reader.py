"""Reading one data file of any version as Arrow data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from pilum.arguments import positions, require_count, require_names
from pilum.cache import FileCaches
from pilum.container.open import field_reader, open_file
from pilum.container.raw import RawReader
from pilum.container.segments import DataFileReader, FieldReader, FilePart
from pilum.errors import InvalidInputError, UnsupportedFormatError
from pilum.file.metadata import LanceFileMetadata, LanceFileStatistics, describe, measure
from pilum.format.blobs import described
from pilum.format.fields import Field, FieldId
from pilum.format.rows import RowRanges
from pilum.format.types import restored_batches, restored_schema
from pilum.format.version import FileVersion
from pilum.lazy import cached_property
from pilum.storage.base import Store
from pilum.storage.open import Location, open_object
from pilum.storage.vended import options_of_table
from pilum.table.read.blobs import materialize
from pilum.table.read.columns import scan_columns
from pilum.table.read.session import DEFAULT_SESSION
from pilum.table.read.windows import Window, batches, read_ahead, rows_of_window

__all__ = ["LanceFileReader", "ReaderResults"]

_BATCH_ROWS = 1024
_READAHEAD = 16


class ReaderResults:
    """Rows of a file, which are read on demand and can be consumed once."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        """Wrap a reader; called by `LanceFileReader`."""
        self.reader = reader

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows batch by batch."""
        return self.reader

    def to_table(self) -> pa.Table:
        """Read all rows into a table.

        Raises:
            CorruptFileError: If the file is damaged.
        """
        return self.reader.read_all()


class _FileRows:
    """The rows of a file, in the form that `pilum.table.read.windows` expects."""

    id = 0

    def __init__(self, store: Store, name: str, reader: DataFileReader) -> None:
        self.store = store
        self._name = name
        self._reader = reader
        self._columns = reader.field_columns()
        self._fields: dict[tuple[FieldId, ...], FieldReader] = {}

    def file_of(self, field_id: FieldId) -> tuple[Store, str]:
        """Return the file itself, for blobs."""
        return self.store, self._name

    def managed_blob(self, field_id: FieldId, path: str) -> tuple[Store, str]:
        """Raise UnsupportedFormatError: the folder of the table is unknown."""
        raise UnsupportedFormatError(
            f"{self._name}: the managed blob {path!r}; read the table of the file"
        )

    def blob_below(self, base_id: int, path: str) -> tuple[Store, str]:
        """Raise UnsupportedFormatError: the base paths of the table are unknown."""
        raise UnsupportedFormatError(
            f"{self._name}: the blob {path!r} below base path {base_id}; read the table of the file"
        )

    def field(self, field: Field) -> FieldReader:
        reader = self._fields.get(field.ids)
        if reader is None:
            numbers = self._columns
            part = FilePart(self._reader, {id: numbers[id] for id in field.ids if id in numbers})
            reader = field_reader(field, [part], self._reader.num_rows)
            self._fields[field.ids] = reader
        return reader


class LanceFileReader:
    """A reader of an open data file; safe to use from several threads."""

    def __init__(
        self,
        path: Location,
        storage_options: Mapping[str, str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
    ) -> None:
        """Open a file.

        Args:
            path: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://` or `memory://`.
            storage_options: Options of the object store.
            columns: Names, or dotted paths to struct members, in the requested order; all columns
                if None. A struct keeps only its named members.
            namespace_client: A `lance_namespace.LanceNamespace`, which is asked for options of the
                object store; these take precedence, and are renewed if they expire.
            table_id: The id of the table whose file this is, in the namespace.

        Raises:
            InvalidInputError: If only one of namespace and id is passed.
            NotFoundError: If the file does not exist.
            ColumnNotFoundError: If a column does not exist.
            CorruptFileError: If the file is damaged or not a Lance file.
            UnsupportedVersionError: If its version is not supported.
        """
        options = options_of_table(storage_options, namespace_client, table_id)
        self._open(*open_object(path, options), columns)

    @classmethod
    def within(cls, store: Store, name: str, columns: Sequence[str] | None) -> LanceFileReader:
        """Open a file in a store that is already open."""
        reader = cls.__new__(cls)
        reader._open(store, name, columns)
        return reader

    def _open(self, store: Store, name: str, columns: Sequence[str] | None) -> None:
        names = None if columns is None else require_names("columns", columns)
        self._store = store
        self._name = name
        caches = FileCaches.private(name, DEFAULT_SESSION.descriptions)
        self._reader = open_file(store.source(name), caches)
        self._rows = _FileRows(store, name, self._reader)
        schema = self._reader.schema
        self._schema = schema if names is None else schema.project(names)

    def read_all(
        self, *, batch_size: int = _BATCH_ROWS, batch_readahead: int = _READAHEAD
    ) -> ReaderResults:
        """Read all rows.

        Args:
            batch_size: Maximum number of rows in a batch.
            batch_readahead: Number of batches to prefetch; about 32 MiB are prefetched in any case.

        Raises:
            InvalidInputError: If an argument is not a positive integer.
        """
        return self.read_range(
            0, self.num_rows(), batch_size=batch_size, batch_readahead=batch_readahead
        )

    def read_range(
        self,
        start: int,
        num_rows: int,
        *,
        batch_size: int = _BATCH_ROWS,
        batch_readahead: int = _READAHEAD,
    ) -> ReaderResults:
        """Read a contiguous range of rows.

        Args:
            start: Number of the first row.
            num_rows: Number of rows.
            batch_size: Maximum number of rows in a batch.
            batch_readahead: See `read_all`.

        Raises:
            InvalidInputError: If the file does not have these rows, or an argument is not an
                integer.
        """
        first, count = require_count("start", start), require_count("num_rows", num_rows)
        if first + count > self.num_rows():
            raise InvalidInputError(
                f"rows {first} to {first + count} of a file with {self.num_rows()}"
            )
        return self._read(RowRanges.of((first, first + count)), batch_size, batch_readahead)

    def take_rows(
        self, indices: Any, *, batch_size: int = _BATCH_ROWS, batch_readahead: int = _READAHEAD
    ) -> ReaderResults:
        """Read rows by number.

        Args:
            indices: Row numbers, ascending and without duplicates: a list, a numpy array or a
                pyarrow array.
            batch_size: Maximum number of rows in a batch.
            batch_readahead: See `read_all`.

        Raises:
            InvalidInputError: If the numbers are not ascending, or a row does not exist.
        """
        rows = positions(indices, self.num_rows())
        if not (rows[:-1] < rows[1:]).all():
            raise InvalidInputError("indices: expected ascending numbers, none of them twice")
        return self._read(RowRanges.of_rows(rows), batch_size, batch_readahead)

    def metadata(self) -> LanceFileMetadata:
        """Return the metadata of the file; this reads the metadata of every column.

        Raises:
            UnsupportedVersionError: If it is a legacy file, which has no such metadata.
        """
        return describe(self._reader, self._raw)

    def file_statistics(self) -> LanceFileStatistics:
        """Return the number of pages and bytes of each column.

        Raises:
            UnsupportedVersionError: If it is a legacy file, which does not record them.
        """
        return measure(self._raw)

    def read_global_buffer(self, index: int) -> bytes:
        """Read a global buffer; the first is the file descriptor.

        Raises:
            InvalidInputError: If no buffer has this number.
        """
        count = len(self._raw.global_buffers)
        if require_count("index", index) >= count:
            raise InvalidInputError(f"global buffer {index} of a file with {count}")
        return self._raw.global_buffer(index)

    def num_rows(self) -> int:
        """Return the number of rows of the file."""
        return self._reader.num_rows

    @cached_property
    def _raw(self) -> RawReader:
        return RawReader(self._store.source(self._name))

    def _read(self, rows: RowRanges, batch_size: int, batch_readahead: int) -> ReaderResults:
        size = require_count("batch_size", batch_size, 1)
        require_count("batch_readahead", batch_readahead, 0)
        stored = self._schema.arrow
        found = restored_batches(stored, batches(self._tables(rows, size, stored), size))
        return ReaderResults(pa.RecordBatchReader.from_batches(restored_schema(stored), found))

    def _tables(self, rows: RowRanges, size: int, schema: pa.Schema) -> Iterator[pa.Table]:
        """Yield the rows, with payloads in place of blob descriptors."""
        is_legacy = self._reader.version is FileVersion.LEGACY
        stored = self._schema if is_legacy else described(self._schema)
        names = self._schema.names
        columns = scan_columns(stored, names)
        fields = [self._rows.field(column.field) for column in columns if column.field]
        if stored is self._schema:
            windows = self._windows(rows, rows_of_window(fields, size))
            yield from (pending.table(schema) for _, pending in read_ahead(windows, columns))
            return
        given = scan_columns(self._schema, names)
        for _, pending in read_ahead(self._windows(rows, size), columns):
            yield materialize(self._rows, given, pending.table(stored.arrow), schema)

    def _windows(self, rows: RowRanges, limit: int) -> Iterable[Window]:
        """Split rows into windows of at most `limit` rows."""
        ends = (rows.stops - rows.starts).cumsum()
        for first in range(0, rows.num_rows, limit):
            yield Window(self._rows, _part(rows, ends, first, first + limit))


def _part(rows: RowRanges, ends: Any, first: int, last: int) -> RowRanges:
    """Return the requested rows from `first` to `last` (exclusive)."""
    low = int(ends.searchsorted(first, side="right"))
    high = int(ends.searchsorted(last, side="left"))
    bounds = rows.bounds[low : high + 1].copy()
    bounds[0, 0] = rows.bounds[low, 1] - (ends[low] - first)
    if high < len(ends):
        bounds[-1, 1] = rows.bounds[high, 1] - (ends[high] - last)
    return RowRanges(bounds)
