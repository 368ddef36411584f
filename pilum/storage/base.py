"""Bytes in and out: what the floors above ask of a store, and how a plan is run against it.

Reading is sans-I/O. A reader is a generator (a *plan*) that yields the byte ranges which it needs
and is sent the bytes; `run_plan` is the one place where they meet a file:

    plan ──Ranges──▶ run_plan ──▶ Source.read ──Fetched──▶ plan

`gather` makes one plan of many that take their steps together, so that the requests of all
columns and pages of a step reach the source as one call, which sorts and coalesces them.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from pilum.storage.io_stats import IoCounter

__all__ = [
    "Entry",
    "Fetched",
    "Plan",
    "Ranges",
    "Sink",
    "Source",
    "Store",
    "finish_new",
    "gather",
    "run_plan",
    "write_object",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ranges:
    """Byte ranges of one file, in any order; they may overlap or be empty.

    Attributes:
        offsets: int64, shape (n,), absolute byte positions.
        sizes: int64, shape (n,), bytes.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, *ranges: tuple[int, int]) -> Ranges:
        """Builds ranges from `(offset, size)` pairs."""
        pairs = np.array(ranges, dtype=np.int64).reshape(-1, 2)
        return cls(pairs[:, 0], pairs[:, 1])


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of some ranges, in one buffer (neighbours are fetched together, with their gap).

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
        """The bytes of each range."""
        return (self[index] for index in range(len(self.starts)))

    def __getitem__(self, index: int) -> NDArray[np.uint8]:
        """The bytes of one range (a view)."""
        start = int(self.starts[index])
        return self.data[start : start + int(self.sizes[index])]


Plan = Generator[Ranges, Fetched, T]


class Source(Protocol):
    """One immutable object that is read by ranges. Safe to use from several threads."""

    @property
    def path(self) -> str:
        """For messages: where the bytes come from."""
        ...

    @property
    def size(self) -> int:
        """Size of the object, bytes."""
        ...

    def read(self, ranges: Ranges) -> Fetched:
        """Reads all ranges.

        Raises:
            CorruptFileError: If a range does not lie within the object.
            OSError: If the store fails.
        """
        ...

    def close(self) -> None:
        """Releases what the source holds; reading afterwards is an error."""
        ...


class Sink(Protocol):
    """One new object, written front to back; visible under its name only after `finish`."""

    @property
    def position(self) -> int:
        """Bytes written so far."""
        ...

    def write(self, data: Any) -> None:
        """Appends one buffer (anything with the buffer protocol, contiguous)."""
        ...

    def expose(self) -> bool:
        """Makes the object visible before it is durable, where a store can; `finish` must follow.

        Only for names that nobody looks for before they are told: after a loss of power there may
        be half an object.

        Returns:
            Whether it is visible now.
        """
        ...

    def finish(self) -> None:
        """Makes the object durable and visible."""
        ...

    def abort(self) -> None:
        """Drops what was written; nothing remains. Allowed at any time, also after a failure."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One object in a listing.

    Attributes:
        name: Within the listed folder.
        size: Bytes.
        modified: When it was written last, seconds since 1970 (UTC); None if the store does not
            tell, so that nobody takes it for old.
    """

    name: str
    size: int
    modified: float | None = field(default=None, compare=False)


class Store(Protocol):
    """A tree of objects under one root; paths are relative to it, with `/` between the parts."""

    @property
    def uri(self) -> str:
        """Where the root is, as users name it."""
        ...

    @property
    def identity(self) -> str:
        """Tells it apart in this process: the same location may be another one elsewhere."""
        ...

    @property
    def lists_in_order(self) -> bool:
        """Whether `list` gives names in lexical order, and early ones cost less than all."""
        ...

    @property
    def options(self) -> dict[str, str]:
        """What users gave it as storage options, to open other locations in the same way."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether it answers after milliseconds, so that several requests at once are worth it."""
        ...

    @property
    def io(self) -> IoCounter:
        """Counts what all stores of this root read and write."""
        ...

    def source(self, path: str, size: int | None = None) -> Source:
        """Opens an object for ranged reads; `size` saves a request where it is known.

        Raises:
            NotFoundError: If there is no such object; where the size was known, a store may say
                so when it is read.
        """
        ...

    def read(self, path: str) -> bytes:
        """Reads a whole object.

        Raises:
            NotFoundError: If there is no such object.
        """
        ...

    def sink(self, path: str) -> Sink:
        """Starts a new object."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Writes an object whole, replacing one of that name; readers see the old or the new."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes an object whole unless one of that name exists; exactly one caller wins.

        Returns:
            Whether this call created the object.
        """
        ...

    def list(self, folder: str) -> Iterator[Entry]:
        """Lists the objects directly in a folder; nothing if there is no folder.

        Read as far as it is wanted; in the order of `lists_in_order`.
        """
        ...

    def names(self, folder: str) -> Iterator[str]:
        """Names of the objects directly in a folder, as `list` gives them, for less.

        There may be folders among them in stores that do not tell without asking.
        """
        ...

    def folders(self, folder: str) -> Iterator[str]:
        """Names of the folders directly in a folder, in any order."""
        ...

    def delete(self, path: str) -> None:
        """Removes an object; no error if there is none."""
        ...


def write_object(store: Store, path: str, data: bytes) -> None:
    """Writes an object that must be there when what refers to it is: whole, or not at all."""
    sink = store.sink(path)
    try:
        sink.write(data)
        sink.finish()
    except BaseException:
        sink.abort()
        raise


def finish_new(sink: Sink) -> None:
    """Finishes an object that nobody looks for yet: the device is waited for once, not twice."""
    sink.expose()
    sink.finish()


def run_plan(plan: Plan[T], source: Source) -> T:
    """Runs a plan against a source and returns its result."""
    try:
        ranges = next(plan)
        while True:
            ranges = plan.send(source.read(ranges))
    except StopIteration as stop:
        result: T = stop.value
        return result


def gather(plans: Sequence[Plan[T]]) -> Plan[list[T]]:
    """One plan of several that take their steps together: each round is one request.

    Args:
        plans: Fresh generators that read the same source.

    Returns:
        Their results, in order.
    """
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
        fetched = yield _joined([ranges for _, _, ranges in waiting])
        answers = _split(fetched, [ranges for _, _, ranges in waiting])
        still: list[tuple[int, Plan[T], Ranges]] = []
        for (index, plan, _), answer in zip(waiting, answers, strict=True):
            try:
                still.append((index, plan, plan.send(answer)))
            except StopIteration as stop:
                results[index] = stop.value
        waiting = still
    return results


def _joined(wanted: list[Ranges]) -> Ranges:
    if len(wanted) == 1:
        return wanted[0]
    return Ranges(
        np.concatenate([ranges.offsets for ranges in wanted]),
        np.concatenate([ranges.sizes for ranges in wanted]),
    )


def _split(fetched: Fetched, wanted: list[Ranges]) -> list[Fetched]:
    if all(len(ranges.offsets) == 1 for ranges in wanted):
        # Rows of arrays are made much faster than as many slices.
        starts, sizes = fetched.starts.reshape(-1, 1), fetched.sizes.reshape(-1, 1)
        return [Fetched(fetched.data, *own) for own in zip(starts, sizes, strict=True)]
    answers: list[Fetched] = []
    first = 0
    for ranges in wanted:
        behind = first + len(ranges.offsets)
        answers.append(
            Fetched(fetched.data, fetched.starts[first:behind], fetched.sizes[first:behind])
        )
        first = behind
    return answers
