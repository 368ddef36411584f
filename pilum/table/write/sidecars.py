"""Sidecars: files beside a data file, for blob payloads that are too large to be stored in it.

    data/{stem}.lance
    data/{stem}/1000….blob    id 1: packed, payloads one after the other
    data/{stem}/0100….blob    id 2: dedicated, one payload

They have no framing; descriptors in the data file give the place of each payload. Source:
docs/format/blobs.md, "Where payloads lie".
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pilum.container.blobs import Managed
from pilum.errors import InvalidInputError
from pilum.storage.base import Sink, Store, finish_new
from pilum.table.model.names import sidecar_beside

__all__ = ["SidecarFiles", "discard_file"]

_DATA_SUFFIX = ".lance"
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:.+")


class SidecarFiles:
    """The sidecars of one new data file at a path.

    Only the first payload of a packed file may exceed `pack_bytes`. `allow_uris` says whether blobs
    may refer to places outside of the table.
    """

    def __init__(self, store: Store, path: str, pack_bytes: int, allow_uris: bool) -> None:
        self._store = store
        self._path = path
        self._pack_bytes = pack_bytes
        self._allow_uris = allow_uris
        self._last_id = 0
        self._pack: tuple[int, Sink] | None = None

    def pack(
        self, data: memoryview, sizes: NDArray[np.int64], max_bytes: int | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Append payloads, one after the other; return the file and position of each.

        The sizes are int64, bytes; `max_bytes` replaces `pack_bytes`.
        """
        limit = max_bytes or self._pack_bytes
        ends = np.cumsum(sizes)
        numbers, positions = np.empty_like(ends), np.empty_like(ends)
        first = done = 0
        while first < len(sizes):
            number, sink = self._pack = self._pack or self._new()
            room = limit - sink.position
            end = int(np.searchsorted(ends, done + room, side="right"))
            if end <= first and sink.position:
                self.finish()
                continue
            end = max(end, first + 1)
            part = slice(first, end)
            numbers[part] = number
            positions[part] = sink.position + ends[part] - sizes[part] - done
            sink.write(data[done : int(ends[end - 1])])
            first, done = end, int(ends[end - 1])
        return numbers, positions

    def dedicate(self, data: Any) -> int:
        """Write one payload to a file of its own; return its id."""
        number, sink = self._new()
        try:
            sink.write(data)
            finish_new(sink)
        except BaseException:
            sink.abort()
            raise
        return number

    def managed(self, numbers: NDArray[np.uint32]) -> Managed | None:
        """Return None: the files lie beside the data file."""
        return None

    def check_reference(self, kind: int, base_id: int, uri: str, path: str) -> None:
        """Raise InvalidInputError: only tables with managed blobs store such descriptors."""
        raise InvalidInputError(
            f"column {path!r}: a reference to {uri!r}, of kind {kind} and base path {base_id}; the "
            "table does not have managed blobs"
        )

    def check_uri(self, uri: str, path: str) -> None:
        """Raise InvalidInputError if a URI is not absolute, or blobs must not refer to it."""
        if not _URI.fullmatch(uri):
            raise InvalidInputError(f"column {path!r}: {uri!r} is not an absolute URI")
        if not self._allow_uris:
            raise InvalidInputError(
                f"column {path!r}: {uri!r} is outside of the table; to store a reference to it, "
                "pass allow_external_blob_outside_bases=True"
            )

    def finish(self) -> None:
        """Finish the packed file that is open, if any."""
        if self._pack:
            finish_new(self._pack[1])
            self._pack = None

    def abort(self) -> None:
        """Drop the packed file that is open.

        Finished files are removed by `discard_file`.
        """
        if self._pack:
            self._pack[1].abort()
            self._pack = None

    def discard(self) -> None:
        """Drop all files that `discard_file` does not remove: those that lie elsewhere."""
        self.abort()

    def _new(self) -> tuple[int, Sink]:
        self._last_id += 1
        return self._last_id, self._store.sink(self._path_of(self._last_id))

    def _path_of(self, number: int) -> str:
        """Return the path of a new file."""
        return sidecar_beside(self._path, number)


def discard_file(store: Store, path: str) -> None:
    """Remove a file that nothing refers to, and the sidecars of a data file.

    Errors of the store are ignored: a later cleanup removes what is left.
    """
    with suppress(OSError):
        store.delete(path)
    if not path.endswith(_DATA_SUFFIX):
        return
    folder = path.removesuffix(_DATA_SUFFIX)
    with suppress(OSError):
        for entry in list(store.list(folder)):
            store.delete(f"{folder}/{entry.name}")
