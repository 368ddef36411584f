"""Jobs that are committed once: how a table records them, and how repetitions are detected.

A job has a key, given with its commit: a text, or a pair of an application and a number that grows
with each of its commits. The key is a property of the transaction. The version that contains the
job records the key in the config of the table, and every later version keeps it:

    property  pilum.job           "nightly 2026-11-20"  or  ["orders", 17]     JSON
    property  pilum.job.content   "50:9f3a…"      what it writes; only if the job declares it
    config    pilum.app.orders    {"app_version":17,"version":42}              the highest, forever
                                  with "content":"50:9f3a…" if the job declared it
    config    pilum.jobs          [["3b0c…", 42], …]    SHA-256 of texts, the last 100, oldest first

A commit looks there before each attempt, in the version that it builds on. Of two commits with the
same key, exactly one therefore succeeds. All writers keep the config (a feature flag requires it).
It is copied to branches and clones, survives cleanup, and is restored together with the rows by
`restore`.

If an application declares what its commit writes, the same number with another content is refused.
A lower number is refused too, because the table has no record of it: a stream repeats only its last
micro-batch, and unchanged.

Source: docs/format/table.md, "Jobs that are committed once".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from pilum.arguments import is_text
from pilum.errors import CorruptFileError, InvalidInputError, JobMismatchError, VersionNotFoundError
from pilum.storage.base import Store
from pilum.table.model.manifest import Manifest
from pilum.table.model.manifest_file import load_named
from pilum.table.model.names import ManifestName
from pilum.table.versions.history import load_version

__all__ = [
    "CONTENT_PROPERTY",
    "JOB_PROPERTY",
    "AppCommit",
    "Job",
    "JobKey",
    "find_job",
    "last_commit",
]

JobKey = str | tuple[str, int]
"""The key of a job: any text, or an application and a number that grows."""

JOB_PROPERTY = "pilum.job"
CONTENT_PROPERTY = "pilum.job.content"
_JOBS = "pilum.jobs"
_APP = "pilum.app."
_MAX_JOBS = 100
_DIGEST_DIGITS = 32


@dataclass(frozen=True, slots=True)
class AppCommit:
    """The last commit of an application that is in a table.

    Attributes:
        app_version: The number that the application gave it.
        version: The version of the table that contains it.
        content: A summary of what it wrote; None if the application did not declare one.
    """

    app_version: int
    version: int
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """The identity of one commit.

    Attributes:
        key: Key that identifies the job.
        content: A summary of what the commit of an application writes: two commits of one key and
            different content are not the same job. None if that is not known.
    """

    key: JobKey
    content: str | None = None

    def __post_init__(self) -> None:
        if is_text(self.key) and self.key:
            return
        if isinstance(self.key, tuple) and len(self.key) == 2:
            app_id, number = self.key
            if is_text(app_id) and app_id and type(number) is int and number >= 0:
                return
        raise InvalidInputError(
            "idempotency_key: expected a text, or a pair of a text and a number from 0, "
            f"found {self.key!r}"
        )

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Job:
        """Return the job of a transaction whose properties have a `JOB_PROPERTY` of this class."""
        text = properties[JOB_PROPERTY]
        try:
            key = json.loads(text)
        except ValueError as error:
            raise InvalidInputError(f"{JOB_PROPERTY}: not JSON: {text!r:.100}") from error
        content = properties.get(CONTENT_PROPERTY)
        return cls(tuple(key) if isinstance(key, list) else key, content)

    def property(self) -> str:
        """Return the key as a property of the transaction."""
        return json.dumps(self.key, ensure_ascii=False)

    def properties(self) -> dict[str, str]:
        """Return all properties of the transaction."""
        content = {} if self.content is None else {CONTENT_PROPERTY: self.content}
        return {JOB_PROPERTY: self.property(), **content}

    def held_by(self, config: Mapping[str, str]) -> int | None:
        """Return the version that contains the job, None if there is none.

        JobMismatchError is raised if the table has the key with another content.
        """
        if isinstance(self.key, str):
            return dict(_jobs(config)).get(_digest(self.key))
        app_id, number = self.key
        last = last_commit(config, app_id)
        if last is None or last.app_version < number:
            return None
        self._require_repetition(number, last)
        return last.version

    def recorded(self, config: Mapping[str, str], version: int) -> dict[str, str]:
        """Return the config of the version that contains the job."""
        if isinstance(self.key, str):
            jobs = [*_jobs(config), (_digest(self.key), version)][-_MAX_JOBS:]
            return {**config, _JOBS: _compact(jobs)}
        app_id, number = self.key
        entry: dict[str, Any] = {"app_version": number, "version": version}
        if self.content is not None:
            entry["content"] = self.content
        return {**config, f"{_APP}{app_id}": _compact(entry)}

    def _require_repetition(self, number: int, last: AppCommit) -> None:
        """Compare with the application's last commit, whose number is not lower."""
        if self.content is None:
            return
        where = f"commit {number} of {self.key[0]!r}"
        if last.app_version > number:
            raise JobMismatchError(
                f"{where} comes after commit {last.app_version}, which is in the table since "
                f"version {last.version}; whether the table has this one is not known. {_ADVICE}"
            )
        if last.content not in {None, self.content}:
            raise JobMismatchError(
                f"{where} is in the table since version {last.version}, but with other rows: "
                f"it had {_described(last.content)}, and has {_described(self.content)} now. "
                f"{_ADVICE}"
            )


_ADVICE = (
    "A stream repeats its last micro-batch only, and as it was: is the checkpoint older than the "
    "table, from a backup, or did parts of it go? Then restore the table to a version that fits, "
    "or begin with a new checkpoint where the rows of the table end"
)


def _described(content: str | None) -> str:
    rows, _, digest = (content or "").partition(":")
    return f"{rows} rows (digest {digest})"


def find_job(store: Store, job: Job, name: ManifestName | None) -> Manifest | None:
    """Return the version that contains a job, or `name` if that was cleaned up; None if none does.

    `name` is the newest version that the caller has seen, which records jobs; None without a table.
    """
    if name is None:
        return None
    latest = load_named(store, name)
    version = job.held_by(latest.config)
    if version is None:
        return None
    try:
        return load_version(store, version)
    except VersionNotFoundError:
        return latest


def last_commit(config: Mapping[str, str], app_id: str) -> AppCommit | None:
    """Return the last commit of an application that a config records."""
    name = f"{_APP}{app_id}"
    if name not in config:
        return None
    entry = _parsed(config, name)
    try:
        content = entry.get("content")
        return AppCommit(
            int(entry["app_version"]),
            int(entry["version"]),
            None if content is None else str(content),
        )
    except (AttributeError, TypeError, KeyError, ValueError) as error:
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
