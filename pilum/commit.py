"""Manual commits: operations, errors, commit locks and handlers of manifests.

    CommitLock          a function of the version: a context manager that keeps others out
    ExternalManifests   a handler on a key-value store; `SqliteEntries`, `PostgresEntries` and
                        `DynamoEntries` are such stores, `ManifestEntries` is their protocol

Source: docs/guide/concurrency.md.
"""

from pilum.dataset.forms import Transaction
from pilum.dataset.operations import LanceOperation
from pilum.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitError,
    CommitStatusUnknownError,
)
from pilum.table.commit.jobs import AppCommit, JobKey
from pilum.table.versions.commit_handler import CommitHandler, CommitLock
from pilum.table.versions.entries import DynamoEntries, PostgresEntries, SqliteEntries
from pilum.table.versions.external_manifests import ExternalManifests, ManifestEntries

__all__ = [
    "AppCommit",
    "CommitConflictError",
    "CommitContentionError",
    "CommitError",
    "CommitHandler",
    "CommitLock",
    "CommitStatusUnknownError",
    "DynamoEntries",
    "ExternalManifests",
    "JobKey",
    "LanceOperation",
    "ManifestEntries",
    "PostgresEntries",
    "SqliteEntries",
    "Transaction",
]
