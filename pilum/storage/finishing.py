"""Objects that become durable while the next ones are written.

Waiting for a device is most of the time of a small object, and devices (and object stores) make
many objects durable in about the time of one: a hundred small files one after the other take
twenty times as long.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, wait
from functools import partial

from pilum.parallel import submit_request
from pilum.storage.base import Sink

__all__ = ["Finishing"]

_MOST_RUNNING = 16
"""More at once make nothing faster, and each holds an open file or a piece in memory."""

_MOST_BYTES = 256 * 1024 * 1024
_MOST_BYTES_OF_ONE = 80 * 1024 * 1024
"""What a large object may still have in memory: its parts on the way to an object store."""


class Finishing:
    """Finishes sinks in threads; `wait` says when all are durable and visible."""

    def __init__(self) -> None:
        self._running: deque[tuple[Future[None], int]] = deque()
        self._held_bytes = 0
        self._is_last = False

    def sink(self, sink: Sink) -> Sink:
        """The same sink, whose `finish` returns at once. Its failures are raised by `wait`."""
        return _LateSink(sink, self)

    def start(self, sink: Sink) -> None:
        """Finishes a sink; waits only if very many are under way.

        Raises:
            OSError: If the store failed at one of the sinks before.
        """
        if self._is_last:
            _finish(sink)
            return
        held_bytes = min(sink.position, _MOST_BYTES_OF_ONE)
        self._running.append((submit_request(partial(_finish, sink)), held_bytes))
        self._held_bytes += held_bytes
        while len(self._running) > _MOST_RUNNING or self._held_bytes > _MOST_BYTES:
            self._wait_for_oldest()

    def begin_last(self) -> None:
        """Says that one sink is left: its `finish` is waited for, so no thread need be woken."""
        self._is_last = True

    def wait(self) -> None:
        """Waits until all sinks are finished.

        Raises:
            OSError: If the store failed.
        """
        while self._running:
            self._wait_for_oldest()

    def settle(self) -> None:
        """Waits until no thread is at work any more, whatever came of it."""
        wait([future for future, _ in self._running])
        self._running.clear()
        self._held_bytes = 0

    def _wait_for_oldest(self) -> None:
        future, held_bytes = self._running.popleft()
        self._held_bytes -= held_bytes
        future.result()


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

    def finish(self) -> None:
        self._finishing.start(self._sink)

    def abort(self) -> None:
        self._sink.abort()
