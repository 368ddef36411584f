"""Exit codes that schedulers can act on.

0     done
1     failed permanently: the same call would fail again, or a check found damage
2     the command line is invalid
75    failed temporarily (EX_TEMPFAIL of sysexits.h): try again
"""

from __future__ import annotations

from enum import IntEnum

from pilum.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitStatusUnknownError,
    PilumError,
)

__all__ = ["Exit", "TerminatedError", "exit_code"]

_TEMPORARY = (
    CommitConflictError,
    CommitContentionError,
    CommitStatusUnknownError,
    ConnectionError,
    TimeoutError,
    InterruptedError,
)
# Messages of Spark for failures of machines, not of programs.
_OF_THE_CLUSTER = (
    "ExecutorLostFailure",
    "FetchFailed",
    "java.net.ConnectException",
    "StatusCode.UNAVAILABLE",
    "SparkContext was shut down",
)


class Exit(IntEnum):
    """The exit code of a process."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    AGAIN = 75


class TerminatedError(Exception):
    """Raised when the process receives a request to terminate."""


def exit_code(error: BaseException) -> Exit:
    """Return the exit code for an error, which says whether a retry may succeed."""
    if isinstance(error, (*_TEMPORARY, TerminatedError)):
        return Exit.AGAIN
    if isinstance(error, PilumError):
        return Exit.FAILED
    is_lost = any(words in str(error) for words in _OF_THE_CLUSTER)
    return Exit.AGAIN if is_lost else Exit.FAILED
