"""Automatic cleanup: the settings of a table that make every writer clean up after commits.

    lance.auto_cleanup.interval             20        after every 20th version
    lance.auto_cleanup.older_than           14d       remove versions that are older than that
    lance.auto_cleanup.retain_versions      5         and are not among this many of the newest
    lance.auto_cleanup.delete_rate_limit    100       at most this many files a second

The version before the one just committed always stays, because it may still be read. Nothing is
searched, and nothing removed, while the oldest version is newer than `older_than`: a stream may
commit thousands of versions before that. Objects of managed blobs are compared with the descriptors
of all data files only if a data file goes. Errors are logged and never fail the commit.
Source: docs/format/table.md, "Cleanup".
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pilum.errors import InvalidInputError
from pilum.storage.base import Store
from pilum.table.model.base_paths import own_store
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_named
from pilum.table.versions.commit_handler import list_manifests

if TYPE_CHECKING:
    from pilum.table.upkeep.cleanup import CleanupPolicy

__all__ = [
    "AUTO_CLEANUP_INTERVAL",
    "AUTO_CLEANUP_PREFIX",
    "auto_cleanup_config",
    "clean_up_if_due",
]

AUTO_CLEANUP_PREFIX = "lance.auto_cleanup."
AUTO_CLEANUP_INTERVAL = f"{AUTO_CLEANUP_PREFIX}interval"
"""The setting without which nothing is cleaned up."""

_NANOSECONDS = 10**9
_DEFAULT_AGE_SECONDS = 14 * 24 * 3600.0
_SPAN = re.compile(r"\s*(\d+)\s*([A-Za-z]+)\s*")
_SECONDS = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 7 * 86400.0,
    "M": 30.44 * 86400,
    "y": 365.25 * 86400,
}
_LONG_NAMES = {
    **dict.fromkeys(("nsec", "nsecs"), "ns"),
    **dict.fromkeys(("usec", "usecs"), "us"),
    **dict.fromkeys(("msec", "msecs"), "ms"),
    **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "mins", "minute", "minutes"), "m"),
    **dict.fromkeys(("hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("day", "days"), "d"),
    **dict.fromkeys(("wk", "wks", "week", "weeks"), "w"),
    **dict.fromkeys(("month", "months"), "M"),
    **dict.fromkeys(("yr", "yrs", "year", "years"), "y"),
}


def auto_cleanup_config(interval: int, older_than_seconds: int) -> dict[str, str]:
    """Return the settings for a cleanup after every `interval` versions."""
    return {
        AUTO_CLEANUP_INTERVAL: str(interval),
        f"{AUTO_CLEANUP_PREFIX}older_than": f"{older_than_seconds}s",
    }


def clean_up_if_due(store: Store, manifest: Manifest) -> None:
    """Clean up after the commit of a version if its settings require it; never raise an error."""
    if AUTO_CLEANUP_INTERVAL not in manifest.config:
        return
    settings = {
        key.removeprefix(AUTO_CLEANUP_PREFIX): text
        for key, text in manifest.config.items()
        if key.startswith(AUTO_CLEANUP_PREFIX)
    }
    # Most tables return above.
    import logging

    from pilum.table.upkeep.cleanup import plan_cleanup, run_cleanup

    try:
        interval = _count("interval", settings)
        if interval and manifest.version % interval == 0:
            before = replace(manifest, version=manifest.version - 1)
            own, policy = own_store(store), _policy(settings)
            if policy.before is None or _oldest_seconds(own) < policy.before:
                plan = plan_cleanup(own, before, policy)
                run_cleanup(own, plan, per_second=_count("delete_rate_limit", settings))
    except Exception:  # any error: the commit is done, and the next cleanup continues
        log = logging.getLogger(__name__)
        log.warning("automatic cleanup of %s failed", store.uri, exc_info=True)


def _oldest_seconds(store: Store) -> float:
    """Return the time of the oldest version, in seconds since 1970."""
    first = list_manifests(store)[0]
    return load_named(store, first).timestamp_ns / _NANOSECONDS


def _policy(settings: Mapping[str, str]) -> CleanupPolicy:
    from pilum.table.upkeep.cleanup import CleanupPolicy

    newest = _count("retain_versions", settings)
    age = _DEFAULT_AGE_SECONDS if newest is None else None
    if "older_than" in settings:
        age = seconds_of(settings["older_than"])
    before = None if age is None else time.time() - age
    return CleanupPolicy(before, newest, refuse_tagged=False, always_reads_blobs=False)


def _count(name: str, settings: Mapping[str, str]) -> int | None:
    text = settings.get(name)
    if text is not None and not (text.isascii() and text.isdigit()):
        raise InvalidInputError(f"setting {AUTO_CLEANUP_PREFIX}{name}: {text!r} is not a number")
    return int(text) if text else None


def seconds_of(text: str) -> float:
    """Parse a time span such as "14d" or "1h 30m" to seconds, or raise InvalidInputError."""
    total, position = 0.0, 0
    while position < len(text):
        found = _SPAN.match(text, position)
        unit = found and _LONG_NAMES.get(found[2], found[2])
        if not found or unit not in _SECONDS:
            break
        total += int(found[1]) * _SECONDS[str(unit)]
        position = found.end()
    if position < len(text) or not text.strip():
        raise InvalidInputError(f"{text!r} is not a span of time such as '14d' or '1h 30m'")
    return total
