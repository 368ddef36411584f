"""`CachedDataset`: batches that are kept in a local file on their first way through."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from types import TracebackType
from typing import Self

import pyarrow as pa

from pilum.errors import InvalidInputError

__all__ = ["CachedDataset"]

_PREFIX = "pilum-cached-"


class CachedDataset:
    """Batches of a slow source, such as an object store, that are read again from a local file.

    The first iteration passes the batches on and writes them to a temporary file. Only when it has
    reached the end, further iterations read the file. The file is deleted by `close`, or when the
    object is no longer used.
    """

    def __init__(
        self, stream: Iterable[pa.RecordBatch], cache: str | Path | bool | None = None
    ) -> None:
        """Create an empty cache.

        Args:
            stream: The batches, all of one schema.
            cache: The folder for the file; that of the system if None or True.

        Raises:
            InvalidInputError: If `cache` is False, or of another type.
        """
        if not (cache is None or cache is True or isinstance(cache, str | Path)):
            raise InvalidInputError(f"cache: expected a folder or True, found {cache!r}")
        folder = cache if isinstance(cache, str | Path) else None
        self._stream = stream
        self._folder = TemporaryDirectory(prefix=_PREFIX, dir=folder)
        self._first_iteration = Lock()
        self._is_complete = False
        self._closed = weakref.finalize(self, self._folder.cleanup)

    @property
    def _file(self) -> Path:
        return Path(self._folder.name) / "batches.arrows"

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        if not self._closed.alive:
            raise InvalidInputError("the cache is closed")
        if self._first_iteration.acquire(blocking=False):  # and never released: there is only one
            return self._first()
        if self._is_complete:
            return self._again()
        raise InvalidInputError(
            "the first iteration over the batches has not reached their end, so that they are not "
            "in the cache; finish it first, or create another cache"
        )

    def _first(self) -> Iterator[pa.RecordBatch]:
        batches = iter(self._stream)
        first = next(batches, None)
        if first is not None:
            with (
                pa.OSFile(str(self._file), "wb") as file,
                pa.ipc.new_stream(file, first.schema) as writer,
            ):
                writer.write_batch(first)
                yield first
                for batch in batches:
                    writer.write_batch(batch)
                    yield batch
        self._is_complete = True

    def _again(self) -> Iterator[pa.RecordBatch]:
        if not self._file.exists():  # there was no batch
            return
        with pa.OSFile(str(self._file)) as file, pa.ipc.open_stream(file) as reader:
            yield from reader

    def close(self) -> None:
        """Delete the file."""
        self._closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
