"""New files of a local folder, and when they are durable.

Writing never shows an incomplete object: bytes go to `.tmp{random}` in the target folder. At the
end the file takes its name by `rename` (a sink, `put`) or by `link` (`put_if_absent`, where the
kernel lets exactly one of several writers create the name).

A sink is finished when `fsync` has returned for the file, for its folder and for the folders that
were created on the way. So a commit never outlives the data that it points to when the machine
loses power. A file is durable before it takes its name, unless the name is new and no reader looks
for it yet (`expose`). The device starts to write a large file while it is still being written
(`write_back`), so that little is left to wait for:

    write    |  1  |  2  |  3  |  4  | end  |
    device         |   1   |   2   |   3   |   4   | end |
    fsync                               waits └───────────▶

Folders are synced in threads, or by the group of pending files to which the sink belongs, see
`pending.py`.

Two exceptions: `put`, for small notes that can be written again, and `LocalStore(root,
sync=False)`, for tables that can be made again. A crash of the process alone loses nothing either
way.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import secrets
import sys
from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from io import FileIO
from typing import Any, Final, Protocol

from pilum.errors import InvalidInputError
from pilum.parallel import submit_sync
from pilum.storage.base import IoCounter
from pilum.storage.system import CAN_RENAME_OPEN_FILES, OPEN_FLAGS, full_sync_command

__all__ = ["LocalSink", "SinkGroup", "begin_write_back", "start_folders"]

_GATHER_BYTES = 256 * 1024
"""Up to this size, buffers are copied together, which costs less than a system call for each."""

_PIECE_BYTES = 1024 * 1024
"""The device starts to write a file whenever this many bytes have accumulated."""

# How often a folder that other processes remove is created again.
_FOLDER_TRIES = 8

_WRITE = 2
"""SYNC_FILE_RANGE_WRITE: start writing changed pages; blocks only if the device's queue is full."""


class SinkGroup(Protocol):
    """A group of pending files, as far as the sinks that belong to it know, see `pending.py`."""

    @property
    def is_open(self) -> bool:
        """Whether the group takes files and folders."""

    def add_folders(self, folders: Iterable[str]) -> None:
        """Add folders that have new entries."""

    def begin(self) -> None:
        """Start to make durable what was left until now."""

    def wait_for_commit(self) -> None:
        """Wait until all files are durable."""


class _OwnedFile(FileIO):
    """An open file, which is closed with the last reference."""

    def __del__(self) -> None:
        self.close()


class LocalSink:
    """One new local file; see the module for when it becomes visible."""

    __slots__ = (
        "_begun",
        "_descriptor",
        "_file",
        "_folder",
        "_gathered",
        "_io",
        "_path",
        "_pending",
        "_position",
        "_sync",
        "_temporary",
        "_unsynced",
        "_visible",
        "_written",
    )

    def __init__(
        self,
        path: str,
        *,
        sync: bool = True,
        io: IoCounter | None = None,
        pending: SinkGroup | None = None,
    ) -> None:
        self._path = path
        self._pending = pending
        self._sync = sync
        self._io = io or IoCounter()
        self._position = self._written = self._begun = 0
        self._gathered = bytearray()
        self._visible = False
        self._folder = os.path.dirname(path)
        self._unsynced: list[str] = []
        self._temporary: str | None = f"{self._folder}/.tmp{secrets.token_hex(8)}"
        self._file = self._create(self._temporary)
        self._descriptor = self._file.fileno()

    def _create(self, temporary: str) -> _OwnedFile:
        """Open a new file in the folder, which other processes may remove before if it is empty.

        An interrupt may come as soon as the file is open: an object then closes it, while the mere
        number of a descriptor would be lost.
        """
        opener = partial(os.open, mode=0o666)
        for _ in range(_FOLDER_TRIES):
            try:
                made_in = _make_folders(self._folder)
            except (FileExistsError, NotADirectoryError) as error:
                raise InvalidInputError(f"{error.filename} is a file, not a folder") from None
            self._unsynced += made_in
            with suppress(FileNotFoundError):
                return _OwnedFile(temporary, "xb", opener=opener)
        return _OwnedFile(temporary, "xb", opener=opener)

    @property
    def position(self) -> int:
        """The number of bytes written so far."""
        return self._position

    @property
    def waits(self) -> bool:
        """Whether `finish` waits for the device."""
        return self._sync

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
        if not self._sync or not CAN_RENAME_OPEN_FILES or os.path.lexists(self._path):
            return False
        self._take_name(self._flushed())
        if self._pending and self._pending.is_open:
            self._pending.add_folders(self._take_unsynced())
        return True

    def finish(self) -> None:
        """Make the file durable and visible, replacing one of the same name."""
        if self._visible:
            syncing = self._start_folders()
            self._sync_file()
        else:
            temporary = self._flushed()
            self._sync_file()
            self._wait_for_others()
            self._close_descriptor()
            self._take_name(temporary)
            syncing = self._start_folders()
        _wait_for_all(syncing)
        self._close_descriptor()
        self._visible = False

    def finish_if_absent(self) -> bool:
        """Make the file durable and visible unless one of the same name exists.

        Return whether this call created the file; `abort` then removes only the temporary name.
        """
        temporary = self._flushed()
        syncing = self._start_others()
        self._sync_file()
        _wait_for_all(syncing)
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
        with suppress(OSError):  # others find the folders that this one made, and do not sync them
            _wait_for_all(self._start_folders())

    def _flushed(self) -> str:
        """Write the rest of the file to the system, and return its temporary name."""
        if self._temporary is None or self._descriptor < 0:
            raise InvalidInputError(f"{self._path} is finished or aborted already")
        self._write_gathered()
        return self._temporary

    def _sync_file(self) -> None:
        if self._sync:
            _sync_file(self._descriptor)

    def _take_unsynced(self) -> list[str]:
        """Return the folders with new entries, and forget them: the caller syncs them."""
        folders, self._unsynced = self._unsynced, []
        return folders

    def _start_folders(self) -> list[Future[None]]:
        """Start syncing the folders in which this sink made entries."""
        return start_folders(self._take_unsynced()) if self._sync else []

    def _start_others(self) -> list[Future[None]]:
        """Start syncing all that must be durable before this file takes its name."""
        if not (self._sync and self._pending and self._pending.is_open):
            return self._start_folders()
        self._pending.add_folders(self._take_unsynced())
        self._pending.begin()
        return []

    def _wait_for_others(self) -> None:
        if self._sync and self._pending:  # without sync, a note that is lost refers to nothing
            self._pending.wait_for_commit()

    def _take_name(self, temporary: str) -> None:
        _rename_over(temporary, self._path)
        self._unsynced.append(self._folder)
        self._visible = True
        self._temporary = None

    def _close_descriptor(self) -> None:
        self._descriptor = -1
        self._file.close()

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


_FULL_SYNC: Final = full_sync_command()


def _sync_file(descriptor: int) -> None:
    """Wait until the content of a file is on the device."""
    if _FULL_SYNC is not None:
        import fcntl

        with suppress(OSError):  # not every file system has it
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)


def _rename_over(old: str, new: str) -> None:
    """Rename a file, replacing one that has the new name."""
    (os.rename if CAN_RENAME_OPEN_FILES else os.replace)(old, new)


def _sync_folder(folder: str) -> None:
    """Wait until the names in a folder are on the device."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | OPEN_FLAGS)
    try:
        _sync_file(descriptor)
    finally:
        os.close(descriptor)


def start_folders(folders: Iterable[str]) -> list[Future[None]]:
    """Start to make the names in some folders durable."""
    return [submit_sync(partial(_sync_folder, folder)) for folder in folders]


def _wait_for_all(syncing: list[Future[None]]) -> None:
    for future in syncing:
        future.result()


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
