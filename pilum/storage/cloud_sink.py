"""New objects of an object store: small ones in one request, large ones part by part.

    write ──▶ a part of 10 MiB ──▶ queue ──▶ thread that uploads, several parts at once

Nobody sees the object before it is whole. A writer that dies leaves an upload without an end,
which takes space, under no name, until the bucket's rule for such uploads removes it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

from pilum.errors import InvalidInputError
from pilum.storage.io_stats import IoCounter

__all__ = ["PARTS_AT_ONCE", "PART_BYTES", "CloudSink"]

PART_BYTES = 10 * 1024 * 1024
"""S3 takes 10,000 parts, so objects may have 97 GiB."""

PARTS_AT_ONCE = 4
"""So many parts are on their way at once."""

_PARTS_WAITING = 2

_Part = bytearray | None


class _AbortedError(Exception):
    """Makes the client drop an upload."""


class CloudSink:
    """One new object.

    Args:
        where: For messages.
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
        """Bytes written so far."""
        return self._position

    def write(self, data: Any) -> None:
        """Appends one buffer (anything with the buffer protocol, contiguous).

        Raises:
            OSError: If the store failed, with this part or an earlier one.
        """
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
        """Cannot: objects become visible and durable at once."""
        return False

    def finish(self) -> None:
        """Makes the object visible under its name.

        Raises:
            OSError: If the store failed.
        """
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
        """Drops what was written; after `finish`, nothing."""
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
    """A thread that hands parts to the client, and what became of it."""

    def __init__(self, put_parts: Callable[[Iterator[bytearray]], None]) -> None:
        self._put_parts = put_parts
        self._parts: Queue[_Part] = Queue(_PARTS_WAITING)
        self._is_aborted = self._has_ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="pilum-upload", daemon=True)
        self._thread.start()

    def send(self, part: bytearray) -> None:
        """Waits until there is room for a part."""
        self._parts.put(part)
        if self._error is not None:
            raise self._error

    def finish(self) -> None:
        """Waits until the object is there."""
        self._end()
        if self._error is not None:
            raise self._error

    def abort(self) -> None:
        """Drops the upload, unless it is finished."""
        if self._thread.is_alive():
            self._is_aborted = True
            self._end()

    def _end(self) -> None:
        self._parts.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._put_parts(self._given())
        except BaseException as error:  # whatever it is, the one who writes must hear of it
            self._error = error
            for _ in self._all():
                pass  # so that nobody waits for room

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
