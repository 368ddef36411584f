"""Jobs that are committed once: what a table remembers of them, and how a repetition is found.

A job has a key, given with its commit: a text, or a pair of an application and a number that grows
with each of its commits. The key travels as a property of the transaction; the version that takes
it in records it in the config of the table, where every later version carries it on:

    property  pilum.job           "nightly 2026-11-20"  or  ["orders", 17]     JSON
    config    pilum.app.orders    {"app_version":17,"version":42}              the highest, for ever
    config    pilum.jobs          [["3b0c…", 42], …]    SHA-256 of texts, the last 100, oldest first

A commit looks there before each attempt, in the very version that it builds on, so of two that have
one key exactly one gets in. The config is kept by all writers (a feature flag tells them to), goes
into branches and clones, survives cleanup, and goes back where the rows go back: with `restore`.

Source: docs/format/table.md, "Jobs that are committed once".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pilum.errors import CorruptFileError, InvalidInputError

__all__ = ["JOB_PROPERTY", "AppCommit", "Job", "JobKey", "last_commit"]

JobKey = str | tuple[str, int]
"""Of a job: any text, or an application and a number that grows."""

JOB_PROPERTY = "pilum.job"
_JOBS = "pilum.jobs"
_APP = "pilum.app."
_MAX_JOBS = 100
_DIGEST_DIGITS = 32


@dataclass(frozen=True, slots=True)
class AppCommit:
    """The last commit of an application that is in a table.

    Attributes:
        app_version: The number that the application gave it.
        version: The version of the table that took it in.
    """

    app_version: int
    version: int


@dataclass(frozen=True, slots=True)
class Job:
    """What one commit is for.

    Attributes:
        key: Tells jobs apart.
    """

    key: JobKey

    def __post_init__(self) -> None:
        if isinstance(self.key, str) and self.key:
            return
        if isinstance(self.key, tuple) and len(self.key) == 2:
            app_id, number = self.key
            if isinstance(app_id, str) and app_id and type(number) is int and number >= 0:
                return
        raise InvalidInputError(
            "idempotency_key: expected a text, or a pair of a text and a number from 0, "
            f"found {self.key!r}"
        )

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Job | None:
        """The job of a transaction with these properties.

        Raises:
            InvalidInputError: If the property is not one that `property` made.
        """
        text = properties.get(JOB_PROPERTY)
        if text is None:
            return None
        try:
            key = json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"{JOB_PROPERTY}: not JSON: {text!r:.100}") from error
        return cls(tuple(key) if isinstance(key, list) else key)

    def property(self) -> str:
        """The job as a property of its transaction."""
        return json.dumps(self.key, ensure_ascii=False)

    def held_by(self, config: Mapping[str, str]) -> int | None:
        """The version that took the job in, None if none did.

        Raises:
            CorruptFileError: If the config contradicts the format.
        """
        if isinstance(self.key, str):
            return dict(_jobs(config)).get(_digest(self.key))
        app_id, number = self.key
        last = last_commit(config, app_id)
        return last.version if last and last.app_version >= number else None

    def recorded(self, config: Mapping[str, str], version: int) -> dict[str, str]:
        """The config of the version that takes the job in."""
        if isinstance(self.key, str):
            jobs = [*_jobs(config), (_digest(self.key), version)][-_MAX_JOBS:]
            return {**config, _JOBS: _compact(jobs)}
        app_id, number = self.key
        entry = {"app_version": number, "version": version}
        return {**config, f"{_APP}{app_id}": _compact(entry)}


def last_commit(config: Mapping[str, str], app_id: str) -> AppCommit | None:
    """The last commit of an application that a version with this config has in it.

    Raises:
        CorruptFileError: If the config contradicts the format.
    """
    name = f"{_APP}{app_id}"
    if name not in config:
        return None
    entry = _parsed(config, name)
    try:
        return AppCommit(int(entry["app_version"]), int(entry["version"]))
    except (TypeError, KeyError, ValueError) as error:
        raise _damaged(config, name) from error


def _jobs(config: Mapping[str, str]) -> list[tuple[str, int]]:
    if _JOBS not in config:
        return []
    try:
        return [(str(digest), int(version)) for digest, version in _parsed(config, _JOBS)]
    except (TypeError, ValueError) as error:
        raise _damaged(config, _JOBS) from error


def _parsed(config: Mapping[str, str], name: str) -> Any:
    try:
        return json.loads(config[name])
    except (ValueError, RecursionError) as error:
        raise _damaged(config, name) from error


def _damaged(config: Mapping[str, str], name: str) -> CorruptFileError:
    return CorruptFileError(f"the config says {config[name]!r:.100}", f"key {name!r}")


def _digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:_DIGEST_DIGITS]


def _compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
