"""A folder of the local file system as a store.

Reading uses `pread`, so that threads share one descriptor without a position.
`pilum.storage.coalesce` decides which bytes are read together, and where they go.

Writing never shows an incomplete object: bytes go to `.tmp{random}` in the target folder. At the
end the file takes its name by `rename` (a sink, `put`) or by `link` (`put_if_absent`, where the
kernel lets exactly one of several writers create the name).

Durability: a sink is finished when `fsync` has returned for the file, for its folder and for the
folders that were created on the way. So a commit never outlives the data that it points to when the
machine loses power. A file is durable before it takes its name, unless the name is new and no
reader looks for it yet (`expose`): `pilum.storage.finishing` makes such files durable before they
are published. The device starts to write a large file while it is still being written
(`write_back`), so that little is left to wait for. Devices handle several requests that are made
together in one wait. Folders are therefore synced in threads: new ones while the file is being
written, the folder of the file together with the file. Two exceptions: `put`, for small notes that
can be written again, and `LocalStore(root, sync=False)`, for tables that can be made again. A crash
of the process alone loses nothing either way.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError, NotFoundError
from pilum.parallel import submit_sync
from pilum.storage.base import Entry, Fetched, Ranges
from pilum.storage.coalesce import ALIGNMENT_BYTES, lay_out
from pilum.storage.descriptors import Descriptor, keep_open
from pilum.storage.finishing import finish_left
from pilum.storage.held import HeldSource
from pilum.storage.io_stats import IoCounter
from pilum.storage.write_back import begin_write_back

__all__ = ["LocalSink", "LocalSource", "LocalStore"]

_SMALL_BYTES = 16 * 1024
"""Up to this size, a new `bytes` object is cheaper than a buffer of Arrow's pool and its view."""

_WHOLE_BYTES = 64 * 1024
"""Files up to this size are read when they are opened: keeping them open costs more than that."""

_GATHER_BYTES = 256 * 1024
"""Up to this size, buffers are copied together, which costs less than a system call for each."""

_PIECE_BYTES = 1024 * 1024
"""The device starts to write a file whenever this many bytes have accumulated."""

_FIRST = np.zeros(1, dtype=np.int64)
_FIRST.flags.writeable = False
# How often a folder that other processes remove is created again.
_FOLDER_TRIES = 8


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder of the local file system; it need not exist before the first write.

    Attributes:
        root: Absolute path of the folder.
        sync: Whether writes wait until the data is on the device.
        io: Counts what all stores of this folder read and write.
    """

    root: str
    sync: bool = True
    io: IoCounter = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", IoCounter.of(self.root))

    @property
    def uri(self) -> str:
        """The absolute path of the root."""
        return self.root

    @property
    def identity(self) -> str:
        """The absolute path of the root."""
        return self.root

    @property
    def lists_in_order(self) -> bool:
        """False: folders are read whole, in any order."""
        return False

    @property
    def options(self) -> dict[str, str]:
        """Whether writes wait for the device, as a storage option."""
        return {} if self.sync else {"sync": "false"}

    @property
    def is_remote(self) -> bool:
        """False: the files are local."""
        return False

    def source(self, path: str, size: int | None = None) -> LocalSource | HeldSource:
        """Open a file for ranged reads; a small one whose size is passed is read at once.

        Raises:
            NotFoundError: If the file does not exist.
            CorruptFileError: If the file is not `size` bytes long.
        """
        absolute = self._absolute(path)
        if size is None or size > _WHOLE_BYTES:
            return LocalSource(absolute, size, self.io)
        data = _read_whole(absolute, size)
        self.io.count_read(len(data))
        return HeldSource(absolute, np.frombuffer(data, np.uint8))

    def read(self, path: str) -> bytes:
        """Read a whole file.

        Raises:
            NotFoundError: If the file does not exist.
        """
        absolute = self._absolute(path)
        try:
            with open(absolute, "rb", buffering=0) as file:
                data = file.readall()
        except OSError as error:
            raise _unopened(absolute, error) from None
        self.io.count_read(len(data))
        return data

    def sink(self, path: str) -> LocalSink:
        """Start a new file and return its sink; missing folders above it are created."""
        return LocalSink(self._absolute(path), sync=self.sync, io=self.io)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing one of the same name; readers see the old or the new one.

        Does not wait for the device: after a loss of power the file may be old, or missing.
        """
        sink = LocalSink(self._absolute(path), sync=False, io=self.io)
        try:
            sink.write(data)
            sink.finish()
        except BaseException:
            sink.abort()
            raise

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a whole file unless one of the same name exists; exactly one caller wins.

        Returns:
            Whether this call created the file.
        """
        sink = self.sink(path)
        try:
            sink.write(data)
            return sink.finish_if_absent()
        finally:
            sink.abort()

    def list(self, folder: str) -> Iterator[Entry]:
        """List the files directly in a folder, in any order; empty if the folder does not exist."""
        try:
            entries = os.scandir(self._absolute(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # deleted since the folder was read
                    if entry.is_file():
                        found = entry.stat()
                        yield Entry(entry.name, found.st_size, found.st_mtime)

    def names(self, folder: str) -> Iterator[str]:
        """Return the names of all entries of a folder, in any order, without a `stat` of each."""
        try:
            return iter(os.listdir(self._absolute(folder)))
        except (FileNotFoundError, NotADirectoryError):
            return iter(())

    def folders(self, folder: str) -> Iterator[str]:
        """Return the names of the folders directly in a folder, in any order."""
        try:
            entries = os.scandir(self._absolute(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        with entries:
            yield from (entry.name for entry in entries if entry.is_dir())

    def delete(self, path: str) -> None:
        """Remove a file, and its folder if that is then empty; no error if the file is gone.

        Object stores have no empty folders. Folders directly below the root are kept, as writers
        of other libraries may be about to use them.
        """
        absolute = self._absolute(path)
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(absolute)
        if path.count("/") > 1:
            with suppress(OSError):
                os.rmdir(os.path.dirname(absolute))

    def _absolute(self, path: str) -> str:
        # Paths come from manifests, which untrusted parties may have written.
        if ".." in path and ".." in path.split("/"):
            raise InvalidInputError(f"path {path!r} leaves the table at {self.root}")
        return f"{self.root}/{path}"


class LocalSource:
    """One local file, open for reading. Safe to use from several threads.

    If there are very many sources, only some keep their file open; the others reopen it to read.
    """

    __slots__ = ("__weakref__", "_file", "_io", "_is_closed", "_version", "path", "size")

    path: str
    size: int
    _file: Descriptor | None

    def __init__(self, path: str, size: int | None = None, io: IoCounter | None = None) -> None:
        self.path = path
        self._io = io or IoCounter()
        self._is_closed = False
        self._version: tuple[int, ...] | None = None
        self._open()
        if size is not None and size != self.size:
            raise CorruptFileError(f"expected {size} bytes, found {self.size}", path)

    def read(self, ranges: Ranges) -> Fetched:
        """Read all ranges.

        Raises:
            CorruptFileError: If a range does not lie within the file, or the file has shrunk.
            InvalidInputError: If the source is closed.
        """
        if len(ranges.offsets) == 1:
            return self._read_one(int(ranges.offsets[0]), int(ranges.sizes[0]), ranges.sizes)
        return self._read_many(ranges.offsets, ranges.sizes)

    def close(self) -> None:
        """Close the file after the reads in progress; reading afterwards is an error."""
        self._is_closed = True
        self._file = None

    def release(self) -> None:
        """Close the file until it is read again."""
        self._file = None

    def __repr__(self) -> str:
        return f"LocalSource({self.path!r}, {self.size})"

    def _read_one(self, offset: int, size: int, sizes: NDArray[np.int64]) -> Fetched:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._outside(offset, size)
        if size <= _SMALL_BYTES:
            file = self._file or self._open()
            try:
                data = os.pread(file.number, size, offset)
            except OSError as error:
                raise self._unreadable(error) from error
            self._io.count_read(len(data))
            if len(data) != size:
                raise self._shrunk(offset + len(data))
            return Fetched(np.frombuffer(data, np.uint8), _FIRST, sizes)
        start = offset % ALIGNMENT_BYTES
        buffer = _allocate(start + size)
        self._fill(buffer.data[start:], offset)
        return Fetched(buffer, np.array([start]), sizes)

    def _read_many(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Fetched:
        layout = lay_out(offsets, sizes, self.size)
        if isinstance(layout, int):
            raise self._outside(int(offsets[layout]), int(sizes[layout]))
        buffer = _allocate(layout.size_bytes)
        view = buffer.data
        for offset, size, place in layout.regions:
            self._fill(view[place : place + size], offset)
        return Fetched(buffer, layout.starts, sizes)

    def _fill(self, view: memoryview, offset: int) -> None:
        file = self._file or self._open()
        done = 0
        while done < len(view):  # Linux reads at most 2 GiB per call
            try:
                count = os.preadv(file.number, [view[done:]], offset + done)
            except OSError as error:
                raise self._unreadable(error) from error
            self._io.count_read(count)
            if count == 0:
                raise self._shrunk(offset + done)
            done += count

    def _open(self) -> Descriptor:
        if self._is_closed:
            raise InvalidInputError(f"{self.path} is closed")
        try:
            file = Descriptor(os.open(self.path, os.O_RDONLY | os.O_CLOEXEC))
        except OSError as error:
            raise _unopened(self.path, error) from None
        status = os.fstat(file.number)
        if stat.S_ISDIR(status.st_mode):
            raise _is_folder(self.path)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._version is None:
            self._version, self.size = version, status.st_size
        elif self._version != version:
            raise CorruptFileError("the file has been replaced since it was opened", self.path)
        self._file = file
        keep_open(self)
        return file

    def _outside(self, offset: int, size: int) -> CorruptFileError:
        return CorruptFileError(
            f"{size} bytes at {offset} do not lie within the file of {self.size} bytes", self.path
        )

    def _shrunk(self, end: int) -> CorruptFileError:
        return CorruptFileError(
            f"the file had {self.size} bytes when it was opened and now ends at {end}", self.path
        )

    def _unreadable(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, self.path)


class LocalSink:
    """One new local file; see the module for when it becomes visible."""

    __slots__ = (
        "_begun",
        "_descriptor",
        "_folder",
        "_gathered",
        "_io",
        "_path",
        "_position",
        "_sync",
        "_syncing",
        "_temporary",
        "_visible",
        "_written",
    )

    def __init__(self, path: str, *, sync: bool = True, io: IoCounter | None = None) -> None:
        self._path = path
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

        Returns:
            Whether this call created the file; `abort` then removes only the temporary name.
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
        if self._sync:  # without sync, a note that is lost refers to nothing
            finish_left()

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


def _unopened(path: str, error: OSError) -> OSError:
    """Return the error to raise for a file that cannot be opened."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return _not_found(path)
    if error.errno == errno.ENAMETOOLONG:
        return _not_found(f"{path[:80]}…")
    return _is_folder(path) if isinstance(error, IsADirectoryError) else error


def _is_folder(path: str) -> CorruptFileError:
    return CorruptFileError("a folder, where a file is expected", path)


def _read_whole(path: str, size: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise _unopened(path, error) from None
    try:
        data = os.pread(file, size + 1, 0)  # one more byte shows that the file is longer
        found = size if len(data) == size else os.fstat(file).st_size
    except IsADirectoryError:
        raise _is_folder(path) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(file)
    if len(data) != size:
        raise CorruptFileError(f"expected {size} bytes, found {found}", path)
    return data


def _allocate(size: int) -> NDArray[np.uint8]:
    """Allocate memory of Arrow's pool: aligned to 64 bytes and, unlike malloc's, kept for reuse."""
    return np.frombuffer(pa.allocate_buffer(size), np.uint8)


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


def _not_found(path: str) -> NotFoundError:
    return NotFoundError(f"there is no file {path}")
