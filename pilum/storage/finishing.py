"""Make objects durable in threads while the next ones are written and the commit is prepared.

Waiting for the device takes most of the time of a small object. Devices (and object stores) make
many objects durable in about the time of one: a hundred small files one after the other take
twenty times as long.

    with left_to_commit():                           thread of the writer    other threads
        write data files, deletion files             visible at once ─────▶  fsync of each
        prepare the transaction and the manifest            │                      │
        fsync of the manifest, under another name           │                      │
        finish_left()                                       ▼  ◀────── all durable ┘
        the manifest takes its name

Outside of such a block, `Finishing.wait` itself waits. Stores call `finish_left` before an object
takes a name by which others look for it, so a published object never refers to one that is not
durable. Threads that are started within a block are not part of it and wait themselves.
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
"""More threads make nothing faster, and each holds an open file or a piece in memory."""

MOST_BYTES = 256 * 1024 * 1024
"""The default limit of what all of them may hold in memory."""
_MOST_BYTES_OF_ONE = 80 * 1024 * 1024
"""The most that a large object may still hold in memory: the parts on their way to a store."""


@dataclass(frozen=True, slots=True)
class _Running:
    future: Future[None]
    held_bytes: int
    is_visible: bool


class Finishing:
    """A group of sinks that threads finish; `wait` returns when all are durable and visible.

    No reader may look for their names before `wait` has returned.

    Args:
        max_bytes: The memory that unfinished sinks may hold; beyond it, the oldest is waited for.
    """

    def __init__(self, max_bytes: int = MOST_BYTES) -> None:
        self._max_bytes = max_bytes
        self._running: deque[_Running] = deque()
        self._held_bytes = 0
        self._is_last = False

    def sink(self, sink: Sink) -> Sink:
        """Return the sink with a `finish` that returns at once; `wait` raises its failures."""
        return _LateSink(sink, self)

    def start(self, sink: Sink) -> None:
        """Finish a sink in a thread; blocks only if very many are in progress.

        Raises:
            OSError: If the store failed at an earlier sink, or at making this one visible.
        """
        held_bytes = min(sink.position, _MOST_BYTES_OF_ONE)
        is_visible = _expose(sink)
        if self._is_last and not (is_visible and _left.get()):
            _finish(sink)
            return
        self._add(_Running(submit_request(partial(_finish, sink)), held_bytes, is_visible))

    def begin_last(self) -> None:
        """Announce the last sink: its `finish` is waited for, so no thread has to be woken."""
        self._is_last = True

    def wait(self) -> None:
        """Wait until all sinks are finished.

        Within `left_to_commit` they may not be durable yet, but they are visible.

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
        """Wait until no thread is at work any more, and ignore the outcome."""
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
    """Open a block that writes files and publishes them; when it ends, everything is durable.

    Raises:
        OSError: If the store failed at an object that was not published.
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
    """Wait for what `left_to_commit` has postponed so far; does nothing outside of such a block.

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
