"""Data files without types, by location. See `pilum.container.raw`."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from pilum.container.body import FileBody
from pilum.container.raw import RawColumn, RawReader, pack_raw_column
from pilum.dataset.base import Location
from pilum.format.version import DEFAULT_VERSION, FileVersion
from pilum.storage.base import finish_new
from pilum.storage.open import open_object

__all__ = ["RawFileReader", "RawFileWriter"]


class RawFileReader(RawReader):
    """The parts of a file since version 2.0 by their numbers."""

    def __init__(self, path: Location, storage_options: Mapping[str, str] | None = None) -> None:
        """Open a file.

        Args:
            path: A local path or a `file://` URI.
            storage_options: Options of the object store.

        Raises:
            NotFoundError: If the file does not exist.
            CorruptFileError: If it is no Lance file, or a damaged one.
            UnsupportedVersionError: If it is older than version 2.0 or not known.
        """
        store, name = open_object(path, storage_options)
        super().__init__(store.source(name))


class RawFileWriter:
    """One new file since version 2.0 of buffers and descriptions; visible once it is closed.

    Used as a context manager it is dropped if the block fails.
    """

    def __init__(
        self,
        path: Location,
        *,
        version: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Start a file.

        Args:
            path: A local path or a `file://` URI.
            version: What the footer says, such as "2.1"; the default version if None.
            storage_options: Options of the object store.

        Raises:
            InvalidInputError: If there is no such version.
        """
        self._version = DEFAULT_VERSION if version is None else FileVersion.parse(version)
        store, name = open_object(path, storage_options)
        self._body = FileBody(store.sink(name))
        self._columns: list[bytes] = []

    def add_buffer(self, data: Any) -> tuple[int, int]:
        """Write bytes that pages, columns or nothing at all refer to.

        Returns:
            Their position and size.
        """
        return self._body.buffer(data)

    def add_global_buffer(self, data: Any) -> int:
        """Write bytes that readers find by the number that is returned, from 1 on."""
        return self._body.global_buffer(data)

    def add_column(self, column: RawColumn) -> int:
        """Add the description of a column whose buffers are written; returns its number."""
        self._columns.append(pack_raw_column(column))
        return len(self._columns) - 1

    def close(self, descriptor: bytes) -> int:
        """Write the end of the file.

        Args:
            descriptor: Global buffer 0: a serialised `FileDescriptor`.

        Returns:
            The size of the file, bytes.
        """
        self._body.end_with(descriptor, self._columns, self._version)
        finish_new(self._body.sink)
        return self._body.sink.position

    def abort(self) -> None:
        """Drop the file; after `close`, nothing."""
        self._body.sink.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.abort()
