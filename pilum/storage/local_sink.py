"""A new file of a local folder.

Writing never shows an incomplete object: bytes go to `.tmp{random}` in the target folder. At the
end the file takes its name by `rename` (a sink, `put`) or by `link` (`put_if_absent`, where the
kernel lets exactly one of several writers create the name).

Durability: a sink is finished when `fsync` has returned for the file, for its folder and for the
folders that were created on the way. So a commit never outlives the data that it points to when the
machine loses power. A file is durable before it takes its name, unless the name is new and no
reader looks for it yet (`expose`): a group of pending files makes such files durable before they
are published. The device starts to write a large file while it is still being written
(`write_back`), so that little is left to wait for. Devices handle several requests that are made
together in one wait. Folders are therefore synced in threads: new ones while the file is being
written, the folder of the file together with the file. Two exceptions: `put`, for small notes that
can be written again, and `LocalStore(root, sync=False)`, for tables that can be made again. A crash
of the process alone loses nothing either way.

    write    |  1  |  2  |  3  |  4  | end  |
    device         |   1   |   2   |   3   |   4   | end |
    fsync                               waits └───────────▶
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import sys
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from pilum.errors import InvalidInputError
from pilum.parallel import submit_sync
from pilum.storage.io_stats import IoCounter
from pilum.storage.pending_files import PendingFiles

__all__ = ["LocalSink", "begin_write_back"]

_GATHER_BYTES = 256 * 1024
"""Up to this size, buffers are copied together, which costs less than a system call for each."""

_PIECE_BYTES = 1024 * 1024
"""The device starts to write a file whenever this many bytes have accumulated."""

# How often a folder that other processes remove is created again.
_FOLDER_TRIES = 8

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE: start writing changed pages; blocks only if the device's queue is full."""


class LocalSink:
    """One new local file; see the module for when it becomes visible."""

    __slots__ = (
        "_begun",
        "_descriptor",
        "_folder",
        "_gathered",
        "_io",
        "_path",
        "_pending",
        "_position",
        "_sync",
        "_syncing",
        "_temporary",
        "_visible",
        "_written",
    )

    def __init__(
        self,
        path: str,
        *,
        sync: bool = True,
        io: IoCounter | None = None,
        pending: PendingFiles | None = None,
    ) -> None:
        self._path = path
        self._pending = pending
        self._sync = sync
        self._io = io or IoCounter()
        self._position = self._written = self._begun = 0
        self._gathered = bytearray()
        self._visible = False
        self._folder = os.path.dirname(path)
        self._syncing: list[Future[None]] = []
        self._temporary: str | None = f"{self._folder}/.tmp{secrets.token_hex(8)}"
        self._descriptor = self._create(self._temporary)

    def _create(self, temporary: str) -> int:
        """Open a new file in the folder, which other processes may remove before if it is empty."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        for _ in range(_FOLDER_TRIES):
            try:
                made_in = _make_folders(self._folder)
            except (FileExistsError, NotADirectoryError) as error:
                raise InvalidInputError(f"{error.filename} is a file, not a folder") from None
            for folder in made_in:
                self._start_sync(folder)
            with suppress(FileNotFoundError):
                return os.open(temporary, flags, 0o666)
        return os.open(temporary, flags, 0o666)

    @property
    def position(self) -> int:
        """The number of bytes written so far."""
        return self._position

    def write(self, data: Any) -> None:
        """Append one buffer (any contiguous object with the buffer protocol)."""
        view = memoryview(data)
        size = view.nbytes
        if not size:
            return
        self._position += size
        if len(self._gathered) + size > _GATHER_BYTES:
            self._write_gathered()
        if size > _GATHER_BYTES:
            self._write(view.cast("B"))
        else:
            self._gathered += view

    def _write_gathered(self) -> None:
        if self._gathered:
            self._write(memoryview(self._gathered))
            self._gathered = bytearray()

    def _write(self, view: memoryview) -> None:
        most = _PIECE_BYTES if self._sync else len(view)
        while view:
            try:
                count = os.write(self._descriptor, view[:most])
            except OSError as error:  # such as a full disk
                raise OSError(error.errno, error.strerror, self._path) from error
            self._io.count_write(count)
            view = view[count:]
            self._written += count
            if self._sync and self._written - self._begun >= _PIECE_BYTES:
                self._begun = begin_write_back(self._descriptor, self._begun, self._written)

    def expose(self) -> bool:
        """Make the file visible before it is durable, if `sync` is set and its name is new."""
        if self._visible:
            return True
        if not self._sync or os.path.lexists(self._path):
            return False
        self._take_name(self._flushed())
        return True

    def finish(self) -> None:
        """Make the file durable and visible, replacing one of the same name."""
        if self._visible:
            self._start_sync(self._folder)
            self._sync_file()
        else:
            temporary = self._flushed()
            self._sync_file()
            self._wait_for_others()
            self._take_name(temporary)
            self._start_sync(self._folder)
        self._wait_for_folders()
        self._close_descriptor()
        self._visible = False

    def finish_if_absent(self) -> bool:
        """Make the file durable and visible unless one of the same name exists.

        Return whether this call created the file; `abort` then removes only the temporary name.
        """
        temporary = self._flushed()
        self._sync_file()
        self._wait_for_folders()
        self._close_descriptor()
        self._wait_for_others()
        try:
            os.link(temporary, self._path)
        except FileExistsError:
            return False
        self._remove_temporary()
        if self._sync:
            _sync_folder(self._folder)
        return True

    def abort(self) -> None:
        """Drop what was written; does nothing after a completed `finish`."""
        self._gathered = bytearray()
        self._close_descriptor()
        self._remove_temporary()
        if self._visible:
            self._visible = False
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def _flushed(self) -> str:
        """Write the rest of the file to the system, and return its temporary name."""
        if self._temporary is None or self._descriptor < 0:
            raise InvalidInputError(f"{self._path} is finished or aborted already")
        self._write_gathered()
        return self._temporary

    def _sync_file(self) -> None:
        if self._sync:
            os.fsync(self._descriptor)

    def _start_sync(self, folder: str) -> None:
        if self._sync:
            self._syncing.append(submit_sync(partial(_sync_folder, folder)))

    def _wait_for_folders(self) -> None:
        while self._syncing:
            self._syncing.pop().result()

    def _wait_for_others(self) -> None:
        if self._sync and self._pending:  # without sync, a note that is lost refers to nothing
            self._pending.wait_for_commit()

    def _take_name(self, temporary: str) -> None:
        os.rename(temporary, self._path)
        self._visible = True
        self._temporary = None

    def _close_descriptor(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _remove_temporary(self) -> None:
        temporary, self._temporary = self._temporary, None
        if temporary is not None:
            with suppress(FileNotFoundError):
                os.unlink(temporary)


def _make_folders(folder: str) -> list[str]:
    """Create a folder and those above it; return those that have a new entry, outer first."""
    if os.path.isdir(folder):
        return []
    parent = os.path.dirname(folder)
    made_in = _make_folders(parent) if parent != folder else []
    try:
        os.mkdir(folder)
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
    return [*made_in, parent]


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begin_write_back(descriptor: int, start: int, end: int) -> int:
    """Make the device start to write a part of a file that is still being written.

    Linux keeps written data in memory until a process waits for it: an `fsync` after 25 MB takes as
    long as encoding them did. This makes nothing durable, so it is not part of any order of
    effects. Where it is not available, finishing the file only takes longer. The result is the next
    start: a page of memory that may still be filled is left out.
    """
    end -= end % mmap.PAGESIZE
    if _sync_file_range is not None and end > start:
        _sync_file_range(descriptor, start, end - start, _WRITE)  # advice: its result is ignored
    return end


def _found() -> ctypes._NamedFuncPointer | None:
    """Return the function of the system's library, which Python's `os` does not have."""
    if sys.platform != "linux":
        return None
    function: ctypes._NamedFuncPointer | None = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return function


_sync_file_range = _found()
