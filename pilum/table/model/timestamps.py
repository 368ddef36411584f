"""Commit times as stored in manifests: seconds and nanoseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from google.protobuf.timestamp_pb2 import Timestamp

from pilum.errors import CorruptFileError

__all__ = ["moment_of", "nanoseconds_of"]

_EPOCH = datetime.fromtimestamp(0, UTC)
_NANOSECONDS = 10**9
_FIRST_SECOND_OF_9999 = 253_370_764_800
"""Start of the last year of `datetime`, which is excluded so that any time zone can be used."""


def nanoseconds_of(stamp: Timestamp) -> int:
    """Return a commit time in nanoseconds since 1970.

    Raises:
        CorruptFileError: If the time is out of range.
    """
    if 0 <= stamp.seconds < _FIRST_SECOND_OF_9999 and 0 <= stamp.nanos < _NANOSECONDS:
        return int(stamp.seconds * _NANOSECONDS + stamp.nanos)
    raise CorruptFileError(f"timestamp: {stamp.seconds} s and {stamp.nanos} ns since 1970")


def moment_of(nanoseconds: int) -> datetime:
    """Return the moment in UTC, truncated to microseconds."""
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000)
