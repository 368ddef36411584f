"""A session for many data files below one location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pilum.arguments import require_count
from pilum.container.writer import FileOptions
from pilum.errors import InvalidInputError, NotFoundError
from pilum.file.reader import LanceFileReader
from pilum.file.writer import LanceFileWriter
from pilum.storage.base import Ranges
from pilum.storage.open import Location, location_text, open_store
from pilum.storage.vended import options_of_table
from pilum.table.write.blob_writers import DedicatedBlobWriter, PackedBlobWriter

__all__ = ["LanceFileSession", "ListResult"]

_COPY_BYTES = 8 * 1024 * 1024


@dataclass
class ListResult:
    """The direct entries of a folder; all paths are relative to the session.

    Attributes:
        common_prefixes: Paths of folders.
        objects: Paths of files.
    """

    common_prefixes: list[str]
    objects: list[str]


def _path(path: object) -> str:
    """Return the path of a file; raise InvalidInputError if no file can have it."""
    text = location_text(path)
    if not text:
        raise InvalidInputError("expected the path of a file, found an empty text")
    return text


class LanceFileSession:
    """A session that opens files by path below a base; the store is opened only once."""

    def __init__(
        self,
        base_path: Location,
        storage_options: Mapping[str, str] | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
    ) -> None:
        """Start a session; nothing is read or written yet.

        Args:
            base_path: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://` or `memory://`.
            storage_options: Options of the object store.
            namespace_client: A `lance_namespace.LanceNamespace`, which is asked for options of the
                object store; these take precedence, and are renewed if they expire.
            table_id: The id of the table whose files these are, in the namespace.

        Raises:
            InvalidInputError: If only one of namespace and id is passed.
        """
        options = options_of_table(storage_options, namespace_client, table_id)
        self._store = open_store(base_path, options)

    def open_reader(self, path: str, columns: Sequence[str] | None = None) -> LanceFileReader:
        """Open a file for reading; see `LanceFileReader`."""
        return LanceFileReader.within(self._store, _path(path), columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Start a new file; see `LanceFileWriter`. `keep_original_array` has no effect."""
        del keep_original_array
        options = FileOptions(data_cache_bytes=data_cache_bytes, max_page_bytes=max_page_bytes)
        return LanceFileWriter.within(self._store, _path(path), schema, version, options)

    def open_packed_blob_writer(self, path: str, blob_id: int) -> PackedBlobWriter:
        """Start a packed blob file, which holds blobs of a data file one after another.

        Args:
            path: Path of the data file, which may be written later.
            blob_id: Number of the blob file among those of the data file, from 1 on.

        Raises:
            InvalidInputError: If the path does not end with `.lance`, or the number is not a 32-bit
                integer.
        """
        return PackedBlobWriter(self._store, path, blob_id)

    def open_dedicated_blob_writer(self, path: str, blob_id: int) -> DedicatedBlobWriter:
        """Start a dedicated blob file, which holds one blob of a data file.

        Args:
            path: As in `open_packed_blob_writer`.
            blob_id: As in `open_packed_blob_writer`.

        Raises:
            As `open_packed_blob_writer`.
        """
        return DedicatedBlobWriter(self._store, path, blob_id)

    def contains(self, path: str) -> bool:
        """Return whether a file exists."""
        try:
            self._store.source(_path(path)).close()
        except (NotFoundError, IsADirectoryError):
            return False
        return True

    def list(self, path: str | None = None) -> list[str]:
        """List all files below a folder, at any depth."""
        return list(self._walk(location_text(path or "")))

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """List the direct entries of a folder."""
        folder = location_text(path or "")
        return ListResult(
            [_join(folder, name) for name in self._store.folders(folder)],
            [_join(folder, entry.name) for entry in self._store.list(folder)],
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Read a range of bytes of a file.

        Raises:
            NotFoundError: If the file does not exist.
            InvalidInputError: If the range exceeds the file.
        """
        first, count = require_count("offset", offset), require_count("length", length)
        source = self._store.source(_path(path))
        try:
            if first + count > source.size:
                raise InvalidInputError(
                    f"{count} bytes at {first} of {path}, which has {source.size}"
                )
            return source.read(Ranges.of((first, count)))[0].tobytes()
        finally:
            source.close()

    def delete_file(self, path: str) -> None:
        """Delete a file.

        Raises:
            NotFoundError: If the file does not exist.
        """
        if not self.contains(path):
            raise NotFoundError(f"there is no file {path}")
        self._store.delete(path)

    def upload_file(self, local_path: Location, remote_path: str) -> None:
        """Copy a local file to a path in the session.

        Raises:
            FileNotFoundError: If there is no local file.
        """
        with open(location_text(local_path), "rb") as file:
            sink = self._store.sink(_path(remote_path))
            try:
                while data := file.read(_COPY_BYTES):
                    sink.write(data)
                sink.finish()
            except BaseException:
                sink.abort()
                raise

    def download_file(self, remote_path: str, local_path: Location) -> None:
        """Copy a file of the session to a local one.

        Raises:
            NotFoundError: If the file does not exist.
        """
        source = self._store.source(_path(remote_path))
        try:
            with open(location_text(local_path), "wb") as file:
                for start in range(0, source.size, _COPY_BYTES):
                    size = min(_COPY_BYTES, source.size - start)
                    file.write(source.read(Ranges.of((start, size)))[0].data)
        finally:
            source.close()

    def _walk(self, folder: str) -> Iterator[str]:
        for entry in self._store.list(folder):
            yield _join(folder, entry.name)
        for name in self._store.folders(folder):
            yield from self._walk(_join(folder, name))


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name
