"""Commits by hand: the operations, the errors to expect, and who decides about versions.

    CommitLock          a function of the version: a context manager that keeps others out
    ExternalManifests   a handler on a key-value store; `SqliteEntries`, `PostgresEntries` and
                        `DynamoEntries` are such stores, `ManifestEntries` is what one must do

Source: docs/guide/concurrency.md.
"""

from pilum.dataset.operations import LanceOperation, Transaction
from pilum.errors import (
    CommitConflictError,
    CommitContentionError,
    CommitError,
    CommitStatusUnknownError,
)
from pilum.table.commits.commit_handler import CommitHandler, CommitLock
from pilum.table.commits.external.dynamodb import DynamoEntries
from pilum.table.commits.external.handler import ExternalManifests, ManifestEntries
from pilum.table.commits.external.postgresql import PostgresEntries
from pilum.table.commits.external.sqlite import SqliteEntries
from pilum.table.commits.jobs import AppCommit, JobKey

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
