"""The interface of a store, how a read plan is run against it, and the counters of its requests.

Reading is sans-I/O. A reader is a generator (a *plan*) that yields the byte ranges which it needs
and is sent the bytes. `run_plan` is the one place where plans meet a file:

    plan ──Ranges──▶ run_plan ──▶ Source.read ──Fetched──▶ plan

`gather` merges many plans into one that takes their steps together. The requests of all columns and
pages of a step then reach the source as one call, which sorts and coalesces them.

`prefetch` runs tasks that wait for a store: concurrently if the store is remote, in turn if it is
local.

A store counts its requests (`IoCounter`). A request is one call that moves bytes of one object: a
ranged read (adjacent ranges that were joined count as one), a whole read, a put, or one piece of an
object that is written in pieces. Listing, deleting and asking for a size move no bytes and are not
counted.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from pilum.errors import CorruptFileError
from pilum.parallel import renew_in_child, submit_waiting

__all__ = [
    "Entry",
    "Fetched",
    "IOStats",
    "IoCounter",
    "MemorySource",
    "Plan",
    "Ranges",
    "Sink",
    "Source",
    "Store",
    "bytes_read_counter",
    "entries_below",
    "finish_new",
    "gather",
    "iops_counter",
    "join_ranges",
    "options_digest",
    "prefetch",
    "read_together",
    "run_all",
    "run_plan",
    "write_all",
    "write_object",
]

T = TypeVar("T")

_MAX_STARTED = 32
"""`prefetch` runs at most so many tasks before their results are used."""


@dataclass(slots=True, eq=False)  # not frozen: every read makes some, in a third of the time
class Ranges:
    """Byte ranges of one file, in any order; they may overlap or be empty.

    Both arrays are int64, shape (n,), in bytes; offsets are absolute. `is_result` says that the
    bytes become a result as they are, so that it is worth avoiding a copy.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    is_result: bool = False

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Ranges:
        """Build ranges from `(offset, size)` pairs."""
        pairs = np.array(ranges, dtype=np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])


@dataclass(slots=True, eq=False)  # not frozen, as `Ranges`
class Fetched:
    """The bytes of some ranges in one buffer; adjacent ranges are fetched together, with their gap.

    Attributes:
        data: uint8, shape (n,), read-only or not; never written to by readers.
        starts: int64, shape (number of ranges,), where each range begins in `data`.
        sizes: int64, same shape, the size of each range.
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the bytes of each range."""
        return (self[index] for index in range(len(self.starts)))

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        """Return the bytes of one range (a view)."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]


Plan = Generator[Ranges, Fetched, T]


class Source(Protocol):
    """One immutable object that is read by ranges. Safe to use from several threads."""

    @property
    def path(self) -> str:
        """The origin of the bytes, for messages."""

    @property
    def size(self) -> int:
        """The size of the object in bytes."""

    def read(self, ranges: Ranges) -> Fetched:
        """Read all ranges.

        Raises:
            CorruptFileError: If a range does not lie within the object.
            OSError: If the store fails.
        """

    def is_mapped(self, offset: int, size: int) -> bool:
        """Return whether a range that becomes a result as it is needs no copy, and is in memory."""

    def close(self) -> None:
        """Release the resources of the source; reading afterwards is an error."""


class Sink(Protocol):
    """One new object, written front to back; visible under its name only after `finish`."""

    @property
    def position(self) -> int:
        """The number of bytes written so far."""

    def write(self, data: Any) -> None:
        """Append one buffer (any contiguous object with the buffer protocol)."""

    def expose(self) -> bool:
        """Make the object visible before it is durable, if the store can; `finish` must follow.

        Only for names that no reader looks for before they are published: after a loss of power,
        the object may be incomplete.

        Returns:
            Whether the object is visible now.
        """

    def finish(self) -> None:
        """Make the object durable and visible."""

    def abort(self) -> None:
        """Drop what was written, so that nothing remains.

        Allowed at any time, also after a failure.
        """


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing.

    Attributes:
        name: The name within the listed folder.
        size: The size in bytes.
        modified: The time of the last write, seconds since 1970 (UTC); None if the store does not
            report it, so that the object is not taken for old.
    """

    name: str
    size: int
    modified: float | None = field(default=None, compare=False)


class Store(Protocol):
    """A tree of objects under one root; paths are relative to it, with `/` between the parts."""

    @property
    def uri(self) -> str:
        """The location of the root, as users write it."""

    @property
    def identity(self) -> str:
        """A string that identifies the store within this process.

        The same location may be a different store in another process.
        """

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` gives names in lexical order, and the first ones cost less than all."""

    @property
    def options(self) -> dict[str, str]:
        """The storage options that users passed, to open other locations in the same way."""

    @property
    def is_remote(self) -> bool:
        """Whether requests take milliseconds, so that concurrent requests are worthwhile."""

    @property
    def io(self) -> IoCounter:
        """The counter of what all stores of this root read and write."""

    def source(self, path: str, size: int | None = None) -> Source:
        """Open an object for ranged reads; passing a known `size` saves a request.

        Raises:
            NotFoundError: If the object does not exist. If the size was passed, a store may raise
                this only when the object is read.
        """

    def read(self, path: str) -> bytes:
        """Read a whole object.

        Raises:
            NotFoundError: If the object does not exist.
        """

    def sink(self, path: str) -> Sink:
        """Start a new object and return its sink."""

    def put(self, path: str, data: bytes) -> None:
        """Write a whole object, replacing one of the same name; readers see the old or the new."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Write an object unless it exists; return whether this call did: exactly one does."""

    def list(self, folder: str) -> Iterator[Entry]:
        """List the objects directly in a folder; empty if the folder does not exist.

        The listing is lazy: it is read only as far as it is consumed. Its order is that of
        `lists_in_order`.
        """

    def names(self, folder: str) -> Iterator[str]:
        """Return the names of the objects directly in a folder, at a lower cost than `list`.

        The names may include folders in stores that distinguish them only by a request.
        """

    def folders(self, folder: str) -> Iterator[str]:
        """Return the names of the folders directly in a folder, in any order."""

    def delete(self, path: str) -> None:
        """Remove an object; no error if it does not exist."""


def write_object(store: Store, path: str, data: bytes) -> None:
    """Write an object that other objects refer to: it is either complete, or does not exist."""
    write_all(store.sink(path), data)


def write_all(sink: Sink, data: bytes) -> None:
    """Write all bytes of an object to its sink, and finish it; abort it after a failure."""
    try:
        sink.write(data)
        sink.finish()
    except BaseException:
        sink.abort()
        raise


def entries_below(store: Store, folder: str) -> Iterator[tuple[str, Entry]]:
    """Yield the paths and entries of all objects below a folder, at any depth; "" is the root."""
    prefix = f"{folder}/" if folder else ""
    yield from [(f"{prefix}{entry.name}", entry) for entry in store.list(folder)]
    for name in list(store.folders(folder)):
        yield from entries_below(store, f"{prefix}{name}")


def finish_new(sink: Sink) -> None:
    """Finish an object that no reader looks for yet: the device is waited for once, not twice."""
    sink.expose()
    sink.finish()


def run_plan(plan: Plan[T], source: Source) -> T:
    """Run a plan against a source and return its result."""
    try:
        ranges = next(plan)
        while True:
            ranges = plan.send(source.read(ranges))
    except StopIteration as stop:
        result: T = stop.value
        return result


def gather(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """Merge plans that read one source into one: each round is one request. Keep the order."""
    if len(plans) == 1:
        return [(yield from plans[0])]
    results: list[Any] = [None] * len(plans)
    waiting: list[tuple[int, Plan[T], Ranges]] = []
    for index, plan in enumerate(plans):
        try:
            waiting.append((index, plan, next(plan)))
        except StopIteration as stop:
            results[index] = stop.value
    while waiting:
        fetched = yield join_ranges([ranges for _, _, ranges in waiting])
        answers = _split(fetched, [ranges for _, _, ranges in waiting])
        still: list[tuple[int, Plan[T], Ranges]] = []
        for (index, plan, _), answer in zip(waiting, answers, strict=True):
            try:
                still.append((index, plan, plan.send(answer)))
            except StopIteration as stop:
                results[index] = stop.value
        waiting = still
    return results


def read_together(requests: Sequence[tuple[Source, Ranges]]) -> list[Fetched]:
    """Read ranges of local files, with one read of each file; keep the order.

    Two single ranges are read one after the other, which takes less time than to join them.
    """
    if len(requests) == 1 or (
        len(requests) == 2 and len(requests[0][1].offsets) == len(requests[1][1].offsets) == 1
    ):
        return [source.read(ranges) for source, ranges in requests]
    by_source: dict[int, list[int]] = {}
    for place, (source, _) in enumerate(requests):
        by_source.setdefault(id(source), []).append(place)
    if len(by_source) == len(requests):
        return [source.read(ranges) for source, ranges in requests]
    found: list[Any] = [None] * len(requests)
    for places in by_source.values():
        wanted = [requests[place][1] for place in places]
        fetched = requests[places[0]][0].read(join_ranges(wanted))
        for place, own in zip(places, _split(fetched, wanted), strict=True):
            found[place] = own
    return found


def join_ranges(wanted: Sequence[Ranges]) -> Ranges:
    """Return the ranges of several requests as one request."""
    if len(wanted) == 1:
        return wanted[0]
    return Ranges(
        np.concatenate([ranges.offsets for ranges in wanted]),
        np.concatenate([ranges.sizes for ranges in wanted]),
    )


def _split(fetched: Fetched, wanted: list[Ranges]) -> list[Fetched]:
    if all(len(ranges.offsets) == 1 for ranges in wanted):
        # NumPy makes rows of arrays much faster than as many slices.
        starts, sizes = fetched.starts.reshape(-1, 1), fetched.sizes.reshape(-1, 1)
        return [Fetched(fetched.data, *own) for own in zip(starts, sizes, strict=True)]
    answers: list[Fetched] = []
    first = 0
    for ranges in wanted:
        stop = first + len(ranges.offsets)
        answers.append(Fetched(fetched.data, fetched.starts[first:stop], fetched.sizes[first:stop]))
        first = stop
    return answers


@dataclass(frozen=True, slots=True)
class MemorySource:
    """All bytes of a file (uint8, shape (size,)), with the path of their origin."""

    path: str
    data: NDArray[np.uint8]

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self.data)

    def read(self, ranges: Ranges) -> Fetched:
        """Return all ranges without copying."""
        for offset, size in zip(ranges.offsets.tolist(), ranges.sizes.tolist(), strict=True):
            if offset < 0 or size < 0 or offset + size > len(self.data):
                raise CorruptFileError(
                    f"{size} bytes at {offset} do not lie within the file of {self.size} bytes",
                    self.path,
                )
        return Fetched(self.data, ranges.offsets, ranges.sizes)

    def is_mapped(self, offset: int, size: int) -> bool:
        """Return whether the file has the range."""
        return 0 <= offset <= offset + size <= len(self.data)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def run_all(store: Store, tasks: Iterable[Callable[[], T]]) -> list[T]:
    """Run all tasks and return their results in order."""
    return list(prefetch(store, tasks))


def prefetch(store: Store, tasks: Iterable[Callable[[], T]]) -> Iterator[T]:
    """Yield the results of tasks in order; at most 32 tasks run before their results are used."""
    if not store.is_remote:
        yield from (task() for task in tasks)
        return
    running: deque[Future[T]] = deque()
    try:
        for task in tasks:
            running.append(submit_waiting(task))
            if len(running) == _MAX_STARTED:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()


@dataclass(frozen=True, slots=True)
class IOStats:
    """Requests and bytes between two points in time.

    Attributes:
        read_iops: The number of read requests.
        read_bytes: The bytes that were read.
        write_iops: The number of write requests.
        written_bytes: The bytes that were written.
    """

    read_iops: int = 0
    read_bytes: int = 0
    write_iops: int = 0
    written_bytes: int = 0


class IoCounter:
    """A counter of the requests of all stores of one location. Safe to use from several threads.

    A child process counts from zero.
    """

    __slots__ = (
        "__weakref__",
        "_location",
        "_lock",
        "_read_bytes",
        "_read_iops",
        "_write_iops",
        "_written_bytes",
    )

    def __init__(self, location: str = "") -> None:
        self._location = location
        self.renew()
        renew_in_child(self)

    @classmethod
    def of(cls, location: str) -> IoCounter:
        """Return the counter of a location: files that are kept open serve every store there."""
        return _counters.of(location)

    def renew(self) -> None:
        """Count from zero, with a fresh lock."""
        self._lock = threading.Lock()
        self._reset()

    def __reduce__(self) -> tuple[Callable[[str], IoCounter], tuple[str]]:
        return IoCounter.of, (self._location,)

    def count_read(self, num_bytes: int, num_requests: int = 1) -> None:
        """Count read requests, and the bytes of all of them."""
        with self._lock:
            self._read_iops += num_requests
            self._read_bytes += num_bytes
        if self is not _process:
            with _process._lock:  # without a call, as every read comes here
                _process._read_iops += num_requests
                _process._read_bytes += num_bytes

    def count_write(self, num_bytes: int) -> None:
        """Count one write request."""
        with self._lock:
            self._write_iops += 1
            self._written_bytes += num_bytes
        if self is not _process:
            _process.count_write(num_bytes)

    def snapshot(self) -> IOStats:
        """Return the counts since the last `take`."""
        with self._lock:
            return self._counted()

    def take(self) -> IOStats:
        """Return the counts since the last `take`, and start again from zero."""
        with self._lock:
            counted = self._counted()
            self._reset()
            return counted

    def _counted(self) -> IOStats:
        return IOStats(self._read_iops, self._read_bytes, self._write_iops, self._written_bytes)

    def _reset(self) -> None:
        self._read_iops = self._read_bytes = self._write_iops = self._written_bytes = 0


class _Counters:
    """The counters of this process, one for each location with a store."""

    def __init__(self) -> None:
        self._by_location: WeakValueDictionary[str, IoCounter] = WeakValueDictionary()
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Take a fresh lock."""
        self._lock = threading.Lock()

    def of(self, location: str) -> IoCounter:
        """Return the counter of a location."""
        with self._lock:
            found = self._by_location.get(location)
            if found is None:
                found = self._by_location[location] = IoCounter(location)
            return found


_counters = _Counters()
_process = IoCounter()
"""Counts what all others count, from the start of the process."""


def iops_counter() -> int:
    """Return the number of read requests of this process, to local files and object stores."""
    return _process.snapshot().read_iops


def bytes_read_counter() -> int:
    """Return the number of bytes that this process has read from files and object stores."""
    return _process.snapshot().read_bytes


def options_digest(options: Mapping[Any, Any]) -> str:
    """Return a text that distinguishes storage options and shows none of them."""
    return hashlib.sha256(repr(sorted(options.items(), key=repr)).encode()).hexdigest()[:16]
