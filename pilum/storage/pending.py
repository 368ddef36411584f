"""Groups of new files that become durable together, while the next ones are written.

Devices (and object stores) make many objects durable in about the time of one: a hundred small
files one after the other take twenty times as long. So threads finish them while the next ones are
written and the commit is prepared:

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
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from pilum.errors import CommitError
from pilum.parallel import submit_request
from pilum.storage.base import Sink
from pilum.storage.durable import LocalSink, start_folders

__all__ = ["MAX_BYTES", "PendingFiles"]

_FEW_FILES = 4
_SMALL_BYTES = 1024 * 1024
"""Up to so many files of at most so many bytes are left for `PendingFiles.begin`."""

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

    @property
    def is_open(self) -> bool:
        """Whether the group takes files and folders."""
        return not self._is_closed

    def sink(self, sink: Sink) -> Sink:
        """Return the sink with a `finish` that returns at once; `wait` raises its failures."""
        return _LateSink(sink, self)

    def start(self, sink: Sink) -> None:
        """Finish a sink, in a thread if that waits; blocks only if very many are in progress."""
        if isinstance(sink, LocalSink) and not sink.waits:
            _finish(sink)  # sooner than a thread wakes up
            return
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
        self._begin_files()
        folders, self._folders = self._folders, {}
        for future in start_folders(folders):
            self._add(_Running(future, 0, is_visible=True))

    def begin_last(self) -> None:
        """Announce the last sink: its `finish` is waited for, so no thread has to be woken."""
        self._is_last = True

    def wait(self) -> None:
        """Wait until all files are finished, or passed on if they are visible."""
        if self._small or self._folders:
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
        return self._later if self._later is not None and self._later.is_open else None

    def _leave(self, sink: Sink) -> None:
        """Leave a small visible file for `begin`; many are begun at once."""
        self._small.append(sink)
        if len(self._small) > _FEW_FILES:
            self._begin_files()

    def _begin_files(self) -> None:
        small, self._small = self._small, []
        for sink in small:
            self._add(_begun(sink, is_visible=True))

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
