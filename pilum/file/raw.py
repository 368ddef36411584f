"""Raw access to data files by location, without types; see `pilum.container.raw`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pilum.container.frame import FileBody
from pilum.container.raw import RawColumn, RawReader, pack_raw_column
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import finish_new
from pilum.storage.open import Location, open_object

__all__ = ["RawFileReader", "RawFileWriter"]


class RawFileReader(RawReader):
    """A reader of the parts of a file by number, since file version 2.0."""

    def __init__(self, path: Location, storage_options: Mapping[str, str] | None = None) -> None:
        """Open a file.

        Args:
            path: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://` or `memory://`.
            storage_options: Options of the object store.

        Raises:
            NotFoundError: If the file does not exist.
            CorruptFileError: If the file is damaged or not a Lance file.
            UnsupportedVersionError: If its version is older than 2.0 or unknown.
        """
        store, name = open_object(path, storage_options)
        super().__init__(store.source(name))


class RawFileWriter:
    """A writer of a file from buffers and descriptions, since file version 2.0.

    The file becomes visible when it is closed.

    As a context manager, it discards the file if the block fails.
    """

    def __init__(
        self,
        path: Location,
        *,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Start a new file.

        Args:
            path: A local path, or a URI: `file://`, `s3://`, `gs://`, `az://` or `memory://`.
            version: Version in the footer, such as "2.1"; the default version if None.
            storage_options: Options of the object store.

        Raises:
            InvalidInputError: If the version does not exist.
        """
        self._version = DEFAULT_VERSION if version is None else FileVersion.parse(version)
        store, name = open_object(path, storage_options)
        self._body = FileBody(store.sink(name))
        self._columns: list[bytes] = []

    def add_buffer(self, data: Any) -> tuple[int, int]:
        """Write a buffer, which pages or columns may refer to.

        Returns:
            The position and size of the buffer.
        """
        return self._body.buffer(data)

    def add_global_buffer(self, data: Any) -> int:
        """Write a global buffer and return the number by which readers find it, from 1 on."""
        return self._body.global_buffer(data)

    def add_column(self, column: RawColumn) -> int:
        """Add the description of a column whose buffers are written, and return its number."""
        self._columns.append(pack_raw_column(column))
        return len(self._columns) - 1

    def close(self, descriptor: bytes) -> int:
        """Write the metadata and the footer, and close the file.

        Args:
            descriptor: Global buffer 0: a serialised `FileDescriptor`.

        Returns:
            The size of the file in bytes.
        """
        self._body.end_with(descriptor, self._columns, self._version)
        finish_new(self._body.sink)
        return self._body.sink.position

    def abort(self) -> None:
        """Discard the file; has no effect after `close`."""
        self._body.sink.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()
