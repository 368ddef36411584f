"""New files and when they are durable: a file of a local folder, and groups that threads finish.

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

Devices (and object stores) make many objects durable in about the time of one: a hundred small
files one after the other take twenty times as long. So folders are synced in threads, and
`PendingFiles` finishes whole files there while the next ones are written and the commit is
prepared:

    with durable_at_commit(store) as store:          thread of the writer    other threads
        write data files, deletion files             visible at once ─────▶  fsync of each large one
        prepare the transaction and the manifest            │                      │
        begin()                                             │      ─────▶  fsync of the others
        fsync of the manifest, under another name           │                      │
        wait_for_commit()                                   ▼  ◀────── all durable ┘
        the manifest takes its name

A few small files, and all folders, are left for `begin`: a file system makes them durable with the
manifest by one commit of its journal, and Python's interpreter need not change between threads
while the commit is prepared. Each folder is synced once, however many files are new in it.

A store that is not from `durable_at_commit` has no pending files: each write waits. With pending
files, a store waits for them before an object takes a name by which others look for it, so
a published object never refers to one that is not durable.

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
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pilum.errors import CommitError, InvalidInputError
from pilum.parallel import submit_request, submit_sync
from pilum.storage.base import IoCounter, Sink
from pilum.storage.system import CAN_RENAME_OPEN_FILES, OPEN_FLAGS, full_sync_command

__all__ = ["MAX_BYTES", "LocalSink", "PendingFiles", "begin_write_back"]

_GATHER_BYTES = 256 * 1024
"""Up to this size, buffers are copied together, which costs less than a system call for each."""

_FEW_FILES = 4
_SMALL_BYTES = 1024 * 1024
"""Up to so many files of at most so many bytes are left for `PendingFiles.begin`."""

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
        self._unsynced: list[str] = []
        self._temporary: str | None = f"{self._folder}/.tmp{secrets.token_hex(8)}"
        self._descriptor = self._create(self._temporary)

    def _create(self, temporary: str) -> int:
        """Open a new file in the folder, which other processes may remove before if it is empty."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | OPEN_FLAGS
        for _ in range(_FOLDER_TRIES):
            try:
                made_in = _make_folders(self._folder)
            except (FileExistsError, NotADirectoryError) as error:
                raise InvalidInputError(f"{error.filename} is a file, not a folder") from None
            self._unsynced += made_in
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
        if not self._sync or not CAN_RENAME_OPEN_FILES or os.path.lexists(self._path):
            return False
        self._take_name(self._flushed())
        if self._pending:
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
        """Return the folders with new entries that nobody syncs yet, and forget them."""
        folders, self._unsynced = self._unsynced, []
        return folders

    def _start_folders(self) -> list[Future[None]]:
        """Start syncing the folders in which this sink made entries."""
        return _start_folders(self._take_unsynced()) if self._sync else []

    def _start_others(self) -> list[Future[None]]:
        """Start syncing all that must be durable before this file takes its name."""
        if not (self._sync and self._pending):
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


def _start_folders(folders: Iterable[str]) -> list[Future[None]]:
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


_MAX_RUNNING = 16
"""More threads make nothing faster, and each holds an open file or a piece in memory."""

MAX_BYTES = 256 * 1024 * 1024
"""The default limit of what all of them may hold in memory."""
_MAX_BYTES_OF_ONE = 80 * 1024 * 1024
"""The most that a large object may still hold in memory: the parts on their way to a store."""


@dataclass(frozen=True, slots=True)
class _Running:
    future: Future[None]
    held_bytes: int
    is_visible: bool


class PendingFiles:
    """Files that threads finish; `wait` returns when all are durable and visible.

    No reader may look for their names before `wait` has returned. If unfinished ones take more than
    `max_bytes` of memory, the oldest is waited for. `wait` passes visible files on to the group
    `later` instead of waiting for them.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, later: PendingFiles | None = None) -> None:
        self._max_bytes = max_bytes
        self._later = later
        self._running: deque[_Running] = deque()
        self._held_bytes = 0
        self._is_last = self._is_closed = False
        self._small: list[Sink] = []
        self._folders: dict[str, None] = {}

    def sink(self, sink: Sink) -> Sink:
        """Return the sink with a `finish` that returns at once; `wait` raises its failures."""
        return _LateSink(sink, self)

    def start(self, sink: Sink) -> None:
        """Finish a sink in a thread; blocks only if very many are in progress."""
        is_visible = _expose(sink)
        later = self._receiver() if is_visible else None
        if later is not None and sink.position <= _SMALL_BYTES:
            later._leave(sink)
        elif self._is_last and later is None:
            _finish(sink)
        else:
            self._add(_begun(sink, is_visible=is_visible))

    def add_folders(self, folders: Iterable[str]) -> None:
        """Add folders that have new entries."""
        self._folders.update(dict.fromkeys(folders))

    def begin(self) -> None:
        """Start to make durable what was left until now: small files and folders."""
        small, self._small = self._small, []
        folders, self._folders = self._folders, {}
        for sink in small:
            self._add(_begun(sink, is_visible=True))
        for future in _start_folders(folders):
            self._add(_Running(future, 0, is_visible=True))

    def begin_last(self) -> None:
        """Announce the last sink: its `finish` is waited for, so no thread has to be woken."""
        self._is_last = True

    def wait(self) -> None:
        """Wait until all files are finished, or passed on if they are visible."""
        self.begin()
        later = self._receiver()
        while self._running:
            if later is None or not self._running[0].is_visible:
                self._wait_for_oldest()
            else:
                later._add(self._pop())

    def wait_for_commit(self) -> None:
        """Wait until all files are durable, before something is published that refers to them.

        CommitError is raised if the store failed; nothing may be published then.
        """
        try:
            self.wait()
        except OSError as error:
            raise CommitError(f"nothing was committed: {error}") from error

    def close(self) -> None:
        """Take no further files from other groups, and wait until no thread is at work."""
        self._is_closed = True
        self.settle()

    def settle(self) -> None:
        """Wait until no thread is at work any more, and ignore the outcome."""
        small, self._small = self._small, []
        for sink in small:
            with suppress(OSError):
                sink.abort()
        self._folders.clear()
        wait([running.future for running in self._running])
        self._running.clear()
        self._held_bytes = 0

    def _receiver(self) -> PendingFiles | None:
        return None if self._later is None or self._later._is_closed else self._later

    def _leave(self, sink: Sink) -> None:
        """Leave a small visible file for `begin`; many are begun at once."""
        self._small.append(sink)
        if len(self._small) > _FEW_FILES:
            self.begin()

    def _add(self, running: _Running) -> None:
        self._running.append(running)
        self._held_bytes += running.held_bytes
        while len(self._running) > _MAX_RUNNING or self._held_bytes > self._max_bytes:
            self._wait_for_oldest()

    def _pop(self) -> _Running:
        running = self._running.popleft()
        self._held_bytes -= running.held_bytes
        return running

    def _wait_for_oldest(self) -> None:
        self._pop().future.result()


def _begun(sink: Sink, *, is_visible: bool) -> _Running:
    """Finish a sink in a thread."""
    held_bytes = min(sink.position, _MAX_BYTES_OF_ONE)
    return _Running(submit_request(partial(_finish, sink)), held_bytes, is_visible)


def _expose(sink: Sink) -> bool:
    try:
        return sink.expose()
    except BaseException:
        sink.abort()
        raise


def _finish(sink: Sink) -> None:
    try:
        sink.finish()
    except BaseException:
        sink.abort()
        raise


class _LateSink:
    def __init__(self, sink: Sink, pending: PendingFiles) -> None:
        self._sink = sink
        self._pending = pending
        self.write = sink.write

    @property
    def position(self) -> int:
        return self._sink.position

    def expose(self) -> bool:
        return self._sink.expose()

    def finish(self) -> None:
        self._pending.start(self._sink)

    def abort(self) -> None:
        self._sink.abort()
