"""Events of this library, passed to functions or written to a file for Chrome and Perfetto.

    lance::dataset_events    loading      uri, version
                             committed    uri, version, read_version, operation, detached,
                                          rows, files, bytes, conflicts
                             conflict     uri: a change of rows begins again on the newest version
    pilum::job_events        retried      attempts: so many attempts of tasks failed
                             wrote        files, bytes: files of new columns
                             swept        uri, files: files of failed attempts were deleted

The first word is the value of `event`. All values are texts, and each event also has `timestamp`
and `client_version`. Functions are called in the thread that causes an event. Without a function or
file, an event costs one comparison.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import IO

from pilum.version import __version__

__all__ = [
    "DATASET_EVENTS",
    "JOB_EVENTS",
    "RECEIVERS",
    "TraceEvent",
    "capture_trace_events",
    "emit",
    "shutdown_tracing",
    "trace_to_chrome",
]


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """Something that happened.

    Attributes:
        target: The kind of event, such as "lance::dataset_events".
        args: Facts about it.
    """

    target: str
    args: dict[str, str]


DATASET_EVENTS = "lance::dataset_events"
"""The kind of events about whole tables."""

JOB_EVENTS = "pilum::job_events"
"""The kind of events about the tasks of distributed jobs."""

_log = logging.getLogger(__name__)

RECEIVERS: list[Callable[[TraceEvent], None]] = []
"""The functions that were given to `capture_trace_events`; without any, no event is made."""


def emit(target: str, **args: object) -> None:
    """Pass an event to all functions that were given to `capture_trace_events`.

    Their errors are logged: what an event reports, such as a commit, has happened already.
    """
    if not RECEIVERS:
        return
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    texts = {key: str(value) for key, value in args.items()}
    event = TraceEvent(target, {**texts, "timestamp": now, "client_version": __version__})
    for callback in tuple(RECEIVERS):
        try:
            callback(event)
        except Exception:
            _log.exception("%s: a function that captures events failed", target)


def capture_trace_events(callback: Callable[[TraceEvent], None]) -> None:
    """Call a function with each event from now on, until `shutdown_tracing`."""
    RECEIVERS.append(callback)


def shutdown_tracing() -> None:
    """Pass no more events to functions and files; finish the files."""
    RECEIVERS.clear()
    while _files:
        _files.pop().close()


@dataclass
class _ChromeFile:
    """A file of events, in the form of a JSON array."""

    file: IO[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    separator: str = "["

    def write(self, event: TraceEvent) -> None:
        facts = {
            "name": event.args.get("event", event.target),
            "cat": event.target,
            "ph": "i",
            "s": "t",
            "ts": time.time_ns() / 1000,
            "pid": os.getpid(),
            "tid": threading.get_ident(),
            "args": event.args,
        }
        with self.lock:
            if not self.file.closed:
                self.file.write(f"{self.separator}\n{json.dumps(facts)}")
                self.separator = ","

    def close(self) -> None:
        with self.lock:
            self.file.write("[]" if self.separator == "[" else "\n]")
            self.file.close()


_files: list[_ChromeFile] = []


def trace_to_chrome(*, file: str | None = None) -> None:
    """Write all events from now on to a file, which is finished when the process ends.

    Args:
        file: The file, for chrome://tracing or Perfetto; None for `trace-{microseconds}.json` in
            the current folder.
    """
    path = file or f"trace-{time.time_ns() // 1000}.json"
    chrome = _ChromeFile(open(path, "w", encoding="utf-8"))  # noqa: SIM115
    _files.append(chrome)
    capture_trace_events(chrome.write)


atexit.register(shutdown_tracing)
