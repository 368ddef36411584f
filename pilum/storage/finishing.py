"""Objects that become durable while the next ones are written, and while their commit is prepared.

Waiting for a device is most of the time of a small object, and devices (and object stores) make
many objects durable in about the time of one: a hundred small files one after the other take
twenty times as long.

    with left_to_commit():                           thread of the writer    other threads
        write data files, deletion files             visible at once ─────▶  fsync of each
        prepare the transaction and the manifest            │                      │
        fsync of the manifest, under another name           │                      │
        finish_left()                                       ▼  ◀────── all durable ┘
        the manifest takes its name

Outside of such a block `Finishing.wait` waits itself. Stores call `finish_left` before an object
takes a name by which others look for it, so nothing that is found refers to what is not durable.
Threads that are started within a block do not know of it and wait themselves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial

from pilum.errors import CommitError
from pilum.parallel import submit_request
from pilum.storage.base import Sink

__all__ = ["MOST_BYTES", "Finishing", "finish_left", "left_to_commit"]

_MOST_RUNNING = 16
"""More at once make nothing faster, and each holds an open file or a piece in memory."""

MOST_BYTES = 256 * 1024 * 1024
"""What all of them may have in memory, unless something else is said."""
_MOST_BYTES_OF_ONE = 80 * 1024 * 1024
"""What a large object may still have in memory: its parts on the way to an object store."""


@dataclass(frozen=True, slots=True)
class _Running:
    future: Future[None]
    held_bytes: int
    is_visible: bool


class Finishing:
    """Finishes sinks in threads; `wait` says when all are durable and visible.

    Their names must be such that nobody looks for them before `wait` has returned.

    Args:
        max_bytes: What those under way may have in memory; beyond that, the oldest is waited for.
    """

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._running: deque[_Running] = deque()
        self._held_bytes = 0
        self._is_last = False

    def sink(self, sink: Sink) -> Sink:
        """The same sink, whose `finish` returns at once. Its failures are raised by `wait`."""
        return _LateSink(sink, self)

    def start(self, sink: Sink) -> None:
        """Finishes a sink; waits only if very many are under way.

        Raises:
            OSError: If the store failed at one of the sinks before, or at making this visible.
        """
        held_bytes = min(sink.position, _MOST_BYTES_OF_ONE)
        is_visible = _expose(sink)
        if self._is_last and not (is_visible and _left.get()):
            _finish(sink)
            return
        self._add(_Running(submit_request(partial(_finish, sink)), held_bytes, is_visible))

    def begin_last(self) -> None:
        """Says that one sink is left: its `finish` is waited for, so no thread need be woken."""
        self._is_last = True

    def wait(self) -> None:
        """Waits until all sinks are finished.

        Within `left_to_commit` they may not be durable yet, but are visible.

        Raises:
            OSError: If the store failed.
        """
        left = _left.get()
        while self._running:
            if left is None or left is self or not self._running[0].is_visible:
                self._wait_for_oldest()
            else:
                left._add(self._pop())

    def settle(self) -> None:
        """Waits until no thread is at work any more, whatever came of it."""
        wait([running.future for running in self._running])
        self._running.clear()
        self._held_bytes = 0

    def _add(self, running: _Running) -> None:
        self._running.append(running)
        self._held_bytes += running.held_bytes
        while len(self._running) > _MOST_RUNNING or self._held_bytes > self._max_bytes:
            self._wait_for_oldest()

    def _pop(self) -> _Running:
        running = self._running.popleft()
        self._held_bytes -= running.held_bytes
        return running

    def _wait_for_oldest(self) -> None:
        self._pop().future.result()


_left: ContextVar[Finishing | None] = ContextVar("left", default=None)


@contextmanager
def left_to_commit() -> Iterator[None]:
    """A block that writes files and publishes them, after which everything is durable.

    Raises:
        OSError: If the store failed at something that nothing was published with.
    """
    left = Finishing()
    token = _left.set(left)
    try:
        yield
        left.wait()
    finally:
        _left.reset(token)
        left.settle()


def finish_left() -> None:
    """Waits for what was left to this moment within `left_to_commit`; nothing outside of it.

    Raises:
        CommitError: If the store failed; nothing may be published then.
    """
    left = _left.get()
    if left is None:
        return
    try:
        left.wait()
    except OSError as error:
        raise CommitError(f"nothing was committed: {error}") from error


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
    def __init__(self, sink: Sink, finishing: Finishing) -> None:
        self._sink = sink
        self._finishing = finishing
        self.write = sink.write

    @property
    def position(self) -> int:
        return self._sink.position

    def expose(self) -> bool:
        return self._sink.expose()

    def finish(self) -> None:
        self._finishing.start(self._sink)

    def abort(self) -> None:
        self._sink.abort()
