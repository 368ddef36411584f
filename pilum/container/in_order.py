"""Pages that threads encode, and that are written in the order of the file.

large   by the pool, while the caller goes on to what follows
small   by the caller, several and then their writing: they are mostly work of the interpreter,
        which only one thread at a time can do, and to share it takes longer than to do it
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, TypeVar

from pilum.parallel import num_threads, submit

__all__ = ["InOrder"]

K = TypeVar("K")
T = TypeVar("T")

_SMALL_BYTES = 256 * 1024
_TOGETHER_BYTES = 512 * 1024


class InOrder(Generic[K, T]):
    """A queue of what is to be encoded; never much more of it than threads.

    Args:
        write: Called with each key and what was encoded for it, in the order of `encode`, by the
            thread that calls that.
    """

    def __init__(self, write: Callable[[K, T], None]) -> None:
        self._write = write
        self._begun: deque[tuple[K, Future[T]]] = deque()
        self._small: list[tuple[K, Callable[[], T]]] = []
        self._small_bytes = 0

    def encode(
        self, key: K, task: Callable[[], T], num_bytes: int, *, is_last: bool = False
    ) -> None:
        """Encodes something soon, and writes what is ready.

        Args:
            key: What it belongs to.
            task: Encodes it.
            num_bytes: About how much it is.
            is_last: Whether this thread has nothing else to do meanwhile.
        """
        if num_bytes >= _SMALL_BYTES and not is_last:
            self._encode_small()
            self._begun.append((key, submit(task)))
            self._write_begun(keep=num_threads())
            return
        self._small.append((key, task))
        self._small_bytes += num_bytes
        if self._small_bytes >= _TOGETHER_BYTES:
            self._encode_small()

    def finish(self) -> None:
        """Encodes and writes all that is left."""
        self._encode_small()
        self._write_begun()

    def cancel(self) -> None:
        """Gives up what is not begun."""
        for _, future in self._begun:
            future.cancel()

    def _encode_small(self) -> None:
        small, self._small, self._small_bytes = self._small, [], 0
        encoded = [(key, task()) for key, task in small]
        if encoded:
            self._write_begun()
        for key, result in encoded:
            self._write(key, result)

    def _write_begun(self, keep: int = 0) -> None:
        while len(self._begun) > keep:
            key, future = self._begun.popleft()
            self._write(key, future.result())
