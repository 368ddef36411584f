"""A folder of the local file system as a store.

Files are read by `pread`, which needs no file position, so that threads can share a descriptor.
`pilum.storage.coalesce` decides which bytes are read together, and where they are placed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from weakref import ref

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pilum.errors import CorruptFileError, InvalidInputError
from pilum.kernels import bytes_within
from pilum.storage.base import (
    Entry,
    Fetched,
    IoCounter,
    MemorySource,
    Ranges,
    Store,
    options_digest,
    write_all,
)
from pilum.storage.coalesce import ALIGNMENT_BYTES, lay_out
from pilum.storage.durable import LocalSink
from pilum.storage.file_errors import is_a_folder, unopened
from pilum.storage.kept_maps import (
    FEWEST_PLACES,
    LONG_BYTES,
    MEAN_BYTES,
    MOST_REMEMBERED,
    PLACES_BEFORE_MAP,
    kept_maps,
)
from pilum.storage.mapped import MAPPED_BYTES, NO_WAIT, are_cached, can_map, is_cached, map_bytes
from pilum.storage.pending import PendingFiles
from pilum.storage.system import OPEN_FLAGS, announce, read_at, read_into
from pilum.storage.wrapper import StoreWrapper

__all__ = [
    "MAX_OPEN",
    "LocalSource",
    "LocalStore",
    "durable_at_commit",
    "pending_of",
    "without_pending",
]

_SMALL_BYTES = 16 * 1024
"""Up to this size, a new `bytes` object is cheaper than a buffer of Arrow's pool and its view."""

_WHOLE_BYTES = 64 * 1024
"""Files of up to this size are read as a whole instead of being kept open, which costs more."""

_FIRST = np.zeros(1, dtype=np.int64)
_FIRST.flags.writeable = False
"""The place of a single range in its buffer; shared by all reads of one range."""

MAX_OPEN = 256
"""Maximum number of open files; the default limit of a process is 1,024 on Linux."""


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder of the local file system; it need not exist before the first write.

    Attributes:
        root: Absolute path of the folder.
        sync: Whether writes wait until the data is on the device.
        maps: Whether large reads may map files into memory, see `pilum.storage.mapped`.
        pending: Files that are visible and not yet durable; see `durable_at_commit`.
        others: Options of object stores, for those that contain what local files refer to.
        io: Counts what all stores of this folder read and write.
    """

    root: str
    sync: bool = True
    maps: bool = True
    pending: PendingFiles | None = field(default=None, compare=False, repr=False)
    others: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    io: IoCounter = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "io", IoCounter.of(self.root))

    @property
    def uri(self) -> str:
        """The absolute path of the root."""
        return self.root

    @property
    def identity(self) -> str:
        """The absolute path of the root and the options of reads: readers of it are shared."""
        place = self.root if self.maps else f"{self.root}?mmap=false"
        return f"{place}#{options_digest(self.others)}" if self.others else place

    @property
    def lists_in_order(self) -> bool:
        """False: folders are read whole, in any order."""
        return False

    @property
    def options(self) -> dict[str, str]:
        """The options that differ from their defaults, and those of object stores."""
        given = {"sync": self.sync, "mmap": self.maps}
        return {**self.others, **{name: "false" for name, value in given.items() if not value}}

    @property
    def is_remote(self) -> bool:
        """False: the files are local."""
        return False

    def source(self, path: str, size: int | None = None) -> LocalSource | MemorySource:
        """Open a file for ranged reads; a small one whose size is passed is read at once."""
        absolute = self._absolute(path)
        if size is None or size > _WHOLE_BYTES:
            return LocalSource(absolute, size, self.io, maps=self.maps)
        data = _read_whole(absolute, size)
        self.io.count_read(len(data))
        return MemorySource(absolute, np.frombuffer(data, np.uint8))

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        absolute = self._absolute(path)
        try:
            data = _read_to_end(absolute)
        except OSError as error:
            raise unopened(absolute, error) from None
        self.io.count_read(len(data))
        return data

    def sink(self, path: str) -> LocalSink:
        """Start a new file and return its sink; missing folders above it are created."""
        return LocalSink(self._absolute(path), sync=self.sync, io=self.io, pending=self.pending)

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file, replacing one of the same name; readers see the old or the new one.

        Does not wait for the device: after a loss of power the file may be old, or missing.
        """
        write_all(LocalSink(self._absolute(path), sync=False, io=self.io), data)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write a file unless one of the same name exists; return whether this call created it."""
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
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:  # no folder can have this name
                return
            raise
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


@contextmanager
def durable_at_commit(store: Store) -> Iterator[Store]:
    """Yield the store for a block that writes files and publishes them.

    New files need not be durable before something is published that refers to them; when the block
    ends, all are. This makes a difference for local stores only. OSError is raised if the store
    failed at an object that was not published.
    """
    pending = PendingFiles()
    try:
        yield _with_pending(store, pending)
        pending.wait()
    finally:
        pending.close()


def without_pending(store: Store) -> Store:
    """Return the store for use after the block of `durable_at_commit`."""
    return store if pending_of(store) is None else _with_pending(store, None)


def pending_of(store: Store) -> PendingFiles | None:
    """Return the files of a store that are not yet durable, if it is from `durable_at_commit`."""
    while isinstance(store, StoreWrapper):
        store = store.wrapped
    return store.pending if isinstance(store, LocalStore) else None


def _with_pending(store: Store, pending: PendingFiles | None) -> Store:
    if isinstance(store, StoreWrapper):
        return replace(store, wrapped=_with_pending(store.wrapped, pending))
    return replace(store, pending=pending) if isinstance(store, LocalStore) else store


class _Descriptor:
    """The descriptor of an open file, which is closed with the last reference.

    A read holds a reference while it runs, so taking the descriptor away from a source never closes
    a file during a read in another thread.
    """

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.close(self.number)


class _OpenFiles:
    """The sources that keep their file open; beyond a limit, the oldest is made to close it."""

    def __init__(self) -> None:
        self._sources: deque[ref[LocalSource]] = deque()

    def add(self, source: LocalSource) -> None:
        """Record that a source has opened its file."""
        self._sources.append(ref(source))
        while len(self._sources) > MAX_OPEN:
            oldest = self._sources.popleft()()
            if oldest is not None:
                oldest.release()


_open_files = _OpenFiles()


class LocalSource:
    """One local file, open for reading. Safe to use from several threads.

    If there are very many sources, only some keep their file open; the others reopen it to read.
    """

    __slots__ = (
        *("__weakref__", "_can_map", "_file", "_io", "_is_closed", "_long_reads", "_map", "_maps"),
        *("_places", "_version", "path", "size"),
    )

    path: str
    size: int
    _file: _Descriptor | None
    _map: NDArray[np.uint8] | None

    def __init__(
        self, path: str, size: int | None = None, io: IoCounter | None = None, *, maps: bool = True
    ) -> None:
        self.path = path
        self._io = io or IoCounter()
        self._maps = maps
        self._is_closed = False
        self._map = None
        self._can_map: bool | None = None
        self._places = 0
        self._long_reads: set[tuple[int, int]] = set()
        self._version: tuple[int, ...] | None = None
        self._open()
        if size is not None and size != self.size:
            raise CorruptFileError(f"expected {size} bytes, found {self.size}", path)

    def read(self, ranges: Ranges) -> Fetched:
        """Read all ranges."""
        if len(ranges.offsets) == 1:
            return self._read_one(ranges, int(ranges.offsets[0]), int(ranges.sizes[0]))
        return self._read_many(ranges.offsets, ranges.sizes)

    def is_mapped(self, offset: int, size: int) -> bool:
        """Return whether a range is long enough for a map, and in the page cache."""
        if not self._maps or size < MAPPED_BYTES:
            return False
        file = self._file or self._open()
        if self._can_map is None:
            self._can_map = can_map(file.number)
        return self._can_map and is_cached(file.number, offset, size)

    def close(self) -> None:
        """Close the file after the reads in progress; reading afterwards is an error."""
        self._is_closed = True
        self._file = None
        self.unmap()

    def release(self) -> None:
        """Close the file until it is read again."""
        self._file = None

    def unmap(self) -> None:
        """Let go of the map of the whole file, which ends with the last result that refers to it.

        The file is mapped again after as many reads as before.
        """
        self._map = None
        self._places = 0
        self._long_reads.clear()

    def __repr__(self) -> str:
        return f"LocalSource({self.path!r}, {self.size})"

    def _read_one(self, ranges: Ranges, offset: int, size: int) -> Fetched:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise self._outside(offset, size)
        if size <= _SMALL_BYTES:
            file = self._file or self._open()
            try:
                data = getattr(os, "pread", read_at)(file.number, size, offset)
            except OSError as error:
                raise self._unreadable(error) from error
            self._io.count_read(len(data))
            if len(data) != size:
                raise self._shrunk(offset + len(data))
            return Fetched(np.frombuffer(data, np.uint8), _FIRST, ranges.sizes)
        if self._maps and size >= LONG_BYTES:
            in_map = self._in_map(ranges.offsets, ranges.sizes)
            if in_map is not None:
                return in_map
            mapped = self._mapped(offset, size) if ranges.is_result else None
            if mapped is not None:
                return Fetched(mapped, _FIRST, ranges.sizes)
        start = offset % ALIGNMENT_BYTES
        buffer = _allocate(start + size)
        self._io.count_read(size, self._fill(buffer.data[start:], offset))
        return Fetched(buffer, np.array([start]), ranges.sizes)

    def _read_many(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Fetched:
        may_map = self._maps
        if may_map and len(offsets) >= FEWEST_PLACES:
            may_map = False
            mapped = self._in_map(offsets, sizes)
            if mapped is not None:
                return mapped
        layout = lay_out(offsets, sizes, self.size)
        if isinstance(layout, int):
            raise self._outside(int(offsets[layout]), int(sizes[layout]))
        if may_map and layout.size_bytes >= LONG_BYTES:
            mapped = self._in_map(offsets, sizes)
            if mapped is not None:
                return mapped
        buffer = _allocate(layout.size_bytes)
        self._fill_all(buffer.data, layout.regions)
        return Fetched(buffer, layout.starts, sizes)

    def _fill_all(self, view: memoryview, regions: list[tuple[int, int, int]]) -> None:
        """Read regions (offset, size, place in the view); lookups read very many small ones.

        They are read from the page cache until one is not there. From then on the device is waited
        for, which gets all requests at once.
        """
        file = self._file or self._open()
        number = file.number
        done = num_bytes = num_requests = 0
        if NO_WAIT and len(regions) > 1:  # only where the system has `preadv`
            preadv = os.preadv
            try:
                for offset, size, place in regions:
                    if preadv(number, (view[place : place + size],), offset, NO_WAIT) != size:
                        break
                    num_bytes += size
                    num_requests += size > 0
                    done += 1
            except OSError:  # the file system cannot answer
                pass
            if done < len(regions):
                self._announce(regions[done:])
        for offset, size, place in regions[done:]:
            num_requests += self._fill(view[place : place + size], offset)
            num_bytes += size
        self._io.count_read(num_bytes, num_requests)

    def _announce(self, regions: list[tuple[int, int, int]]) -> None:
        """Ask the system to fetch regions, which would otherwise wait for each other."""
        file = self._file or self._open()
        announce(file.number, ((offset, size) for offset, size, _ in regions))

    def _mapped(self, offset: int, size: int) -> NDArray[np.uint8] | None:
        """Map a part of the file; None if it is to be copied."""
        if not self.is_mapped(offset, size):
            return None
        file = self._file or self._open()
        self._demand_size(file)
        try:
            mapped = map_bytes(file.number, offset, size)
        except OSError:  # no address space, or too many maps
            return None
        self._io.count_read(size)
        return mapped

    def _in_map(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> Fetched | None:
        """Return some places in a map of the whole file; None if they are to be copied.

        Many small places are a reason for a map, and long ones that are read again. All long ones
        are read in a map that there is.
        """
        num_bytes = bytes_within(offsets, sizes, self.size)
        if num_bytes is None:
            return None
        if len(offsets) >= FEWEST_PLACES and num_bytes <= MEAN_BYTES * len(offsets):
            self._places += len(offsets)
            if self._places < PLACES_BEFORE_MAP:
                return None
        elif num_bytes < LONG_BYTES or not self._is_repeated(int(offsets[0]), num_bytes):
            return None
        file = self._file or self._open()
        if not are_cached(file.number, offsets, sizes):
            return None
        self._demand_size(file)
        whole = self._map
        if whole is None:
            whole = self._map = kept_maps.map(self, file.number, self.size)
        if whole is None:  # asked again after as many reads
            self._places = 0
            self._long_reads.clear()
            return None
        self._io.count_read(num_bytes)
        return Fetched(whole, offsets, sizes)

    def _is_repeated(self, offset: int, num_bytes: int) -> bool:
        """Return whether a long read was made before, or is made in a map; remember it."""
        if self._map is not None or (offset, num_bytes) in self._long_reads:
            return True
        if len(self._long_reads) < MOST_REMEMBERED:
            self._long_reads.add((offset, num_bytes))
        return False

    def _demand_size(self, file: _Descriptor) -> None:
        """Raise if the file has shrunk: touching what is no longer there would end the process."""
        end = os.fstat(file.number).st_size
        if end < self.size:
            raise self._shrunk(end)

    def _fill(self, view: memoryview, offset: int) -> int:
        """Read bytes from a position on; return the number of calls."""
        file = self._file or self._open()
        preadv, done, num_calls = getattr(os, "preadv", read_into), 0, 0
        while done < len(view):  # Linux reads at most 2 GiB per call
            try:
                count = preadv(file.number, [view[done:]], offset + done)
            except OSError as error:
                raise self._unreadable(error) from error
            if count == 0:
                raise self._shrunk(offset + done)
            done += count
            num_calls += 1
        return num_calls

    def _open(self) -> _Descriptor:
        if self._is_closed:
            raise InvalidInputError(f"{self.path} is closed")
        try:
            file = _Descriptor(os.open(self.path, os.O_RDONLY | OPEN_FLAGS))
        except OSError as error:
            raise unopened(self.path, error) from None
        status = os.fstat(file.number)
        if stat.S_ISDIR(status.st_mode):
            raise is_a_folder(self.path)
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if self._version is None:
            self._version, self.size = version, status.st_size
        elif self._version != version:
            raise CorruptFileError("the file has been replaced since it was opened", self.path)
        self._file = file
        _open_files.add(self)
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


def _read_to_end(path: str) -> bytes:
    """Read a file of any size; a small one by half as many calls as a file object needs."""
    number = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    try:
        data = os.read(number, _WHOLE_BYTES)
        rest = os.read(number, _WHOLE_BYTES)
        if not rest:
            return data
        with open(number, "rb", buffering=0, closefd=False) as file:
            return b"".join((data, rest, file.readall()))
    finally:
        os.close(number)


def _read_whole(path: str, size: int) -> bytes:
    try:
        file = os.open(path, os.O_RDONLY | OPEN_FLAGS)
    except OSError as error:
        raise unopened(path, error) from None
    try:
        data = getattr(os, "pread", read_at)(
            file, size + 1, 0
        )  # one more byte shows that the file is longer
        found = size if len(data) == size else os.fstat(file).st_size
    except IsADirectoryError:
        raise is_a_folder(path) from None
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
