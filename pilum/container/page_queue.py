"""The way of rows to pages: buffered until they form a page, encoded, and written in file order.

`Waiting` buffers the rows of one leaf column. It counts bytes of Arrow arrays. A dictionary is not
counted as long as adjacent arrays share it. Slices of one table do, and each would otherwise count
as much as the whole dictionary.

`InOrder` encodes pages in bundles or in other threads:

large          by the pool, while the caller continues
small          by the caller, several before they are written: they are mostly work of the
               interpreter, which only one thread at a time can do; sharing it would be slower
the last ones  by the caller, who has nothing else to do
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar

import pyarrow as pa

from pilum.arrays import join_arrays
from pilum.encodings.values import dictionary_below
from pilum.errors import UnsupportedTypeError
from pilum.parallel import num_threads, submit

__all__ = ["InOrder", "Waiting"]

_DICTIONARY_BYTES = 32 * 1024 * 1024
"""Different dictionaries with this total size end a page, regardless of the size of their keys."""


class Waiting:
    """A buffer of chains (see `pilum.levels`), which are due as a page at `page_bytes`."""

    def __init__(self, page_bytes: int) -> None:
        self._page_bytes = page_bytes
        self._chains: list[pa.Array] = []
        self._chain_bytes = 0
        self._dictionary: pa.Array | None = None
        self._dictionary_bytes = 0

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffered chains."""
        return self._chain_bytes + self._dictionary_bytes

    def add(self, chain: pa.Array) -> list[pa.Array]:
        """Add rows and return the chains that are due, one per page."""
        due: list[pa.Array] = []
        while len(chain):
            self._meet(dictionary_below(chain))
            room = max(self._page_bytes - self._chain_bytes, 0)
            size = self._bytes(chain)
            if size <= room:
                self._keep(chain, size)
                return [*due, *self.flush()] if self._is_full else due
            rows = max(int(room / size * len(chain)), 1)
            piece, chain = chain.slice(0, rows), chain.slice(rows)
            self._keep(piece, self._bytes(piece))
            if self._is_full or len(chain):
                due.extend(self.flush())
        return due

    def _keep(self, piece: pa.Array, size: int) -> None:
        self._chains.append(piece)
        self._chain_bytes += size

    def flush(self) -> list[pa.Array]:
        """Return the chain of all buffered rows, if there are any.

        There are several chains if the joined dictionaries are too large for the key type.
        """
        chains, self._chains, self._chain_bytes = self._chains, [], 0
        self._dictionary, self._dictionary_bytes = None, 0
        return _joined(chains) if chains else []

    @property
    def _is_full(self) -> bool:
        rows_fill_it = self._chain_bytes >= self._page_bytes
        return rows_fill_it or self._dictionary_bytes >= _DICTIONARY_BYTES

    def _meet(self, dictionary: pa.Array | None) -> None:
        """Count a dictionary, once for all adjacent arrays that share it."""
        if dictionary is None:
            return
        if self._dictionary is None or not _is_same(dictionary, self._dictionary):
            self._dictionary = dictionary
            self._dictionary_bytes += dictionary.nbytes

    def _bytes(self, chain: pa.Array) -> int:
        """Return the bytes of the rows, without their dictionary."""
        if self._dictionary is None:
            return int(chain.nbytes)
        return max(int(chain.nbytes) - int(self._dictionary.nbytes), len(chain))


def _is_same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two arrays have the same memory."""
    return _place(left) == _place(right)


def _place(array: pa.Array) -> list[int | None]:
    addresses = [None if one is None else one.address for one in array.buffers()]
    return [*addresses, array.offset, len(array)]


def _joined(chains: list[pa.Array]) -> list[pa.Array]:
    """Join the chains into one, or into as few as can be joined."""
    try:
        return [join_arrays(chains, "rows")]
    except UnsupportedTypeError:
        middle = len(chains) // 2
        return [*_joined(chains[:middle]), *_joined(chains[middle:])]


K = TypeVar("K")
T = TypeVar("T")

_BUNDLE_BYTES = 512 * 1024
_SMALL_BYTES = 256 * 1024
"""A bundle of pages that are smaller than this on average is encoded by the calling thread."""
_HARD = 4
"""A byte of text, or a byte to be compressed, costs at least this many times a byte of numbers."""


class InOrder(Generic[K, T]):
    """A queue of encoding tasks, bounded by about the number of threads.

    `write` is called with each key and its result, in the order of the calls of `encode` and in the
    thread that makes these calls.
    """

    def __init__(self, write: Callable[[K, T], None]) -> None:
        self._write = write
        self._begun: deque[tuple[list[K], Future[list[T]]]] = deque()
        self._keys: list[K] = []
        self._tasks: list[Callable[[], T]] = []
        self._bundle_bytes = 0
        self._effort = 0

    @property
    def waiting_bytes(self) -> int:
        """The approximate bytes of tasks that have not started."""
        return self._bundle_bytes

    def encode(self, key: K, task: Callable[[], T], num_bytes: int, *, is_hard: bool) -> None:
        """Queue a task of about `num_bytes`, and write the results that are ready.

        `is_hard` says whether the page is text or will be compressed.
        """
        effort = num_bytes * (_HARD if is_hard else 1)
        if self._tasks and max(self._effort, effort) >= _BUNDLE_BYTES:
            self._hand_out()
        self._keys.append(key)
        self._tasks.append(task)
        self._bundle_bytes += num_bytes
        self._effort += effort

    def finish(self) -> None:
        """Encode and write all remaining tasks."""
        self._do_here()

    def cancel(self) -> None:
        """Cancel the tasks that have not started."""
        for _, future in self._begun:
            future.cancel()

    def _hand_out(self) -> None:
        if self._effort < _SMALL_BYTES * len(self._tasks):
            self._do_here()
            return
        keys, tasks = self._next_bundle()
        self._begun.append((keys, submit(partial(_done, tasks))))
        self._write_begun(keep=num_threads())

    def _do_here(self) -> None:
        keys, tasks = self._next_bundle()
        encoded = _done(tasks)
        self._write_begun(keep=0)
        self._write_all(keys, encoded)

    def _next_bundle(self) -> tuple[list[K], list[Callable[[], T]]]:
        bundle = self._keys, self._tasks
        self._keys, self._tasks, self._bundle_bytes, self._effort = [], [], 0, 0
        return bundle

    def _write_begun(self, keep: int) -> None:
        while len(self._begun) > keep:
            keys, future = self._begun.popleft()
            self._write_all(keys, future.result())

    def _write_all(self, keys: list[K], encoded: list[T]) -> None:
        for key, result in zip(keys, encoded, strict=True):
            self._write(key, result)


def _done(tasks: list[Callable[[], T]]) -> list[T]:
    return [task() for task in tasks]
