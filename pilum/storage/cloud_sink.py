"""New objects of an object store: small ones in one request, large ones as a multipart upload.

    write ──▶ a part of 10 MiB ──▶ queue ──▶ thread that uploads, several parts at once

The object is not visible before it is complete. A writer that dies leaves an unfinished upload,
which takes space, without a name, until the bucket's rule for such uploads removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

from pilum.errors import InvalidInputError
from pilum.storage.base import IoCounter

__all__ = ["PARTS_AT_ONCE", "PART_BYTES", "CloudSink"]

PART_BYTES = 10 * 1024 * 1024
"""S3 accepts 10,000 parts, so objects may have up to 97 GiB."""

PARTS_AT_ONCE = 4
"""The number of parts that are uploaded concurrently."""

_PARTS_WAITING = 2

_Part = bytearray | None


class _AbortedError(Exception):
    """Raised to make the client drop an upload."""


class CloudSink:
    """One new object.

    Args:
        where: The name of the object, for messages.
        put: Writes an object that fits into one request.
        put_parts: Writes an object of parts, all of `PART_BYTES` but the last; drops it if the
            iterator raises.
        io: Counts each request.
    """

    __slots__ = (
        "__weakref__",
        "_io",
        "_part",
        "_position",
        "_put",
        "_put_parts",
        "_upload",
        "_where",
    )

    def __init__(
        self,
        where: str,
        put: Callable[[bytearray], None],
        put_parts: Callable[[Iterator[bytearray]], None],
        io: IoCounter,
    ) -> None:
        self._where = where
        self._put = put
        self._put_parts = put_parts
        self._io = io
        self._position = 0
        self._part: _Part = bytearray()
        self._upload: _Upload | None = None

    @property
    def position(self) -> int:
        """The number of bytes written so far."""
        return self._position

    def write(self, data: Any) -> None:
        """Append one buffer (any contiguous object with the buffer protocol)."""
        view = memoryview(data)
        if not view.nbytes:
            return
        view = view.cast("B")
        part = self._open_part()
        while view:
            if len(part) == PART_BYTES:
                self._send(part)
                part = self._part = bytearray()
            room = PART_BYTES - len(part)
            part += view[:room]
            self._position += min(room, len(view))
            view = view[room:]

    def expose(self) -> bool:
        """Return False: objects become visible and durable at the same time."""
        return False

    def finish(self) -> None:
        """Make the object visible under its name."""
        part = self._open_part()
        self._part = None
        if self._upload is None:
            self._put(part)
            self._io.count_write(len(part))
            return
        self._upload.send(part)
        self._io.count_write(len(part))
        self._upload.finish()

    def abort(self) -> None:
        """Drop what was written; does nothing after `finish`."""
        self._part = None
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.abort()

    def __del__(self) -> None:
        self.abort()

    def _open_part(self) -> bytearray:
        if self._part is None:
            raise InvalidInputError(f"{self._where} is finished or aborted already")
        return self._part

    def _send(self, part: bytearray) -> None:
        if self._upload is None:
            self._upload = _Upload(self._put_parts)
        self._upload.send(part)
        self._io.count_write(len(part))


class _Upload:
    """A thread that hands parts to the client, and the outcome of the upload."""

    def __init__(self, put_parts: Callable[[Iterator[bytearray]], None]) -> None:
        self._put_parts = put_parts
        self._parts: Queue[_Part] = Queue(_PARTS_WAITING)
        self._is_aborted = self._has_ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pilum-upload", daemon=True)
        self._thread.start()

    def send(self, part: bytearray) -> None:
        """Queue a part, and wait until there is room for it."""
        self._parts.put(part)
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Wait until the upload is complete."""
        self._end()
        if self._error is not None:
            raise self._error

    def abort(self) -> None:
        """Drop the upload, unless it is finished."""
        if self._thread.is_alive():
            self._is_aborted = True
            self._end()

    def _end(self) -> None:
        self._parts.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._put_parts(self._given())
        except BaseException as error:  # any error must reach the writer
            self._error = error
            for _ in self._all():
                pass  # drain the queue, so that no writer waits for room

    def _given(self) -> Iterator[bytearray]:
        for part in self._all():
            if self._is_aborted:
                break
            yield part
        if self._is_aborted:
            raise _AbortedError

    def _all(self) -> Iterator[bytearray]:
        while not self._has_ended:
            part = self._parts.get()
            if part is None:
                self._has_ended = True
            else:
                yield part
