"""Writing one data file of any version from Arrow data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import pyarrow as pa

from pilum.arguments import require_text
from pilum.container.open import new_file
from pilum.container.writer import DataFileWriter, FileOptions
from pilum.encodings.options import EncodingOptions
from pilum.errors import InvalidInputError
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import Store
from pilum.storage.open import Location, open_object
from pilum.storage.vended import options_of_table
from pilum.table.write.align import Alignment, align, new_schema

__all__ = ["LanceFileWriter"]


_DEFAULTS = FileOptions()


class LanceFileWriter:
    """A writer of one new data file, which becomes visible when it is closed.

    As a context manager, it closes the file at the end of the block, or discards it if the block
    fails.

    Attributes:
        closed: Whether the file is closed.
        size_bytes: Size of the closed file; None before it is closed.
    """

    def __init__(
        self,
        path: Location,
        schema: pa.Schema | None = None,
        *,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        max_page_bytes: int | None = None,
        buffer_alignment: int = _DEFAULTS.buffer_alignment,
        encoding_options: EncodingOptions = _DEFAULTS.encoding,
    ) -> None:
        """Start a new file.

        Args:
            path: A local path, or a URI as in `LanceFileReader`; an existing file is replaced.
            schema: Schema of the file; None for the schema of the first batch.
            data_cache_bytes: Bytes of rows to buffer before pages are written, for all columns
                together; if None, a page is about 8 MiB.
            version: File version such as "2.1"; the default version if None.
            storage_options: Options of the object store.
            namespace_client: A `lance_namespace.LanceNamespace`, which is asked for options of the
                object store; these take precedence, and are renewed if they expire.
            table_id: The id of the table whose file this is, in the namespace.
            max_page_bytes: Maximum size of a page in memory, in bytes. A page always holds at least
                one row.
            buffer_alignment: Alignment of buffers, in bytes; 4096 suits direct I/O.
            encoding_options: Encoding preferences; metadata of a field take precedence.

        Raises:
            InvalidInputError: If the version does not exist, an option is invalid, or only one of
                namespace and id is passed.
            UnsupportedVersionError: If writing the version is not supported.
            UnsupportedTypeError: If the version cannot store the type of a column.
        """
        options = FileOptions(data_cache_bytes, max_page_bytes, buffer_alignment, encoding_options)
        stored = options_of_table(storage_options, namespace_client, table_id)
        self._start(*open_object(path, stored), schema, version, options)

    @classmethod
    def within(
        cls,
        store: Store,
        name: str,
        schema: pa.Schema | None,
        version: str | None,
        options: FileOptions,
    ) -> LanceFileWriter:
        """Start a new file in a store that is already open."""
        writer = cls.__new__(cls)
        writer._start(store, name, schema, version, options)
        return writer

    def _start(
        self,
        store: Store,
        name: str,
        schema: pa.Schema | None,
        version: str | None,
        options: FileOptions,
    ) -> None:
        self._store = store
        self._options = options
        self._name = name
        if not isinstance(schema, pa.Schema | None):
            raise InvalidInputError(f"schema: expected a schema of Arrow, found {schema!r:.80}")
        self._asked = None if version is None else FileVersion.parse(version)
        self._file: DataFileWriter | None = None
        self._alignment: Alignment | None = None
        self._waiting: list[tuple[str, str]] = []
        self.closed = False
        self.size_bytes: int | None = None
        if schema is not None:
            self._begin(schema)

    def write_batch(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Write the rows of a batch or table.

        Raises:
            SchemaMismatchError: If the columns or their types differ from those of the file.
            InvalidInputError: If a column that is not nullable holds a null, the file is closed, or
                this is not a batch or table.
        """
        if not isinstance(batch, pa.RecordBatch | pa.Table):
            raise InvalidInputError(f"expected a record batch or a table, found {batch!r:.80}")
        file = self._writable(batch.schema)
        assert self._alignment is not None
        for part in batch.to_batches() if isinstance(batch, pa.Table) else [batch]:
            file.write_batch(self._alignment.batch(part))

    def add_schema_metadata(self, key: str, value: str) -> None:
        """Add an entry to the metadata of the schema, or replace the entry of the same key.

        Raises:
            InvalidInputError: If the file is closed, or key or value is not a text.
        """
        self._require_open()
        require_text("key", key)
        require_text("value", value)
        if self._file is None:
            self._waiting.append((key, value))
        else:
            self._file.add_schema_metadata(key, value)

    def add_global_buffer(self, data: bytes) -> int:
        """Add a global buffer and return the number by which readers find it, from 1 on.

        Raises:
            InvalidInputError: If the file is closed, or has no schema yet, or this is not bytes.
            UnsupportedFormatError: If the file version has no global buffers.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidInputError(f"data: expected bytes, found {data!r:.80}")
        return self._writable(None).add_global_buffer(data)

    def close(self) -> int | None:
        """Write the remaining rows and make the file visible.

        Returns:
            The number of rows of the file; None if it was already closed.

        Raises:
            InvalidInputError: If neither a schema nor a batch was given.
        """
        if self.closed:
            return None
        file = self._writable(None)
        self.closed = True
        try:
            written = file.finish()
        except BaseException:
            file.abort()
            raise
        self.size_bytes = written.size_bytes
        return written.num_rows

    def abort(self) -> None:
        """Discard the file; has no effect after `close`."""
        if not self.closed and self._file is not None:
            self._file.abort()
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def _writable(self, schema: pa.Schema | None) -> DataFileWriter:
        self._require_open()
        if self._file is not None:
            return self._file
        if schema is None:
            raise InvalidInputError(f"{self._name}: no schema, and no batch that has one")
        return self._begin(schema)

    def _begin(self, schema: pa.Schema) -> DataFileWriter:
        created = new_schema(schema)
        version = self._asked or DEFAULT_VERSION
        self._alignment = align(schema, created)
        sink = self._store.sink(self._name)
        try:
            file = new_file(sink, self._alignment.schema, version, self._options)
        except BaseException:
            sink.abort()
            raise
        self._file = file
        for key, value in self._waiting:
            file.add_schema_metadata(key, value)
        return file

    def _require_open(self) -> None:
        if self.closed:
            raise InvalidInputError(f"{self._name} is closed")
