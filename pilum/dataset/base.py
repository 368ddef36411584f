"""The base of `LanceDataset`: a pinned version, and the commits that move it.

A change is committed once per job and again after conflicts. A failure leaves no files:

    commit_once ── the table contains the job? ──▶ nothing to do
         │
    Retries.run ── another commit changed the same rows? ──▶ change the newest version instead
         │
    publish ────── certainly not committed? ──▶ delete the new files
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Self, TypeVar

import pyarrow as pa

from pilum.arguments import require_count, require_dict, require_texts
from pilum.dataset.namespaces import located_at, only_handler
from pilum.errors import CommitConflictError, CommitContentionError, InvalidInputError
from pilum.parallel import renew_in_child
from pilum.schema import LanceSchema
from pilum.storage.base import IOStats, Store
from pilum.storage.local import durable_at_commit, without_pending
from pilum.storage.open import Location, location_text
from pilum.table.commit.jobs import JOB_PROPERTY, Job, JobKey, find_job
from pilum.table.commit.operations.base import Operation
from pilum.table.commit.publish import commit
from pilum.table.commit.transaction import Transaction
from pilum.table.model.base_options import with_base_params
from pilum.table.model.features import Feature
from pilum.table.model.names import NamingScheme
from pilum.table.read.json_columns import given_schema
from pilum.table.read.session import Session
from pilum.table.read.snapshot import Snapshot
from pilum.table.refs.references import Reference, locate
from pilum.table.upkeep.auto_cleanup import AUTO_CLEANUP_INTERVAL, clean_up_if_due
from pilum.table.versions.commit_handler import (
    CommitHandler,
    CommitLock,
    handler_named,
    handler_of,
    latest_manifest,
    open_table,
)
from pilum.table.versions.history import Line, uri_of_line
from pilum.tracing import DATASET_EVENTS, RECEIVERS, emit

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "DatasetBase",
    "Retries",
    "commit_change",
    "commit_once",
    "commit_operation",
    "options_of",
    "pinned_by",
    "properties_of",
    "publish",
    "session_of",
    "snapshot_of_job",
    "store_of",
]


T = TypeVar("T")


class DatasetBase:
    """A pinned version of a table. See `pilum.LanceDataset`."""

    _scan_defaults: Mapping[str, Any] = MappingProxyType({})
    """Default arguments for scans."""

    def __init__(
        self,
        uri: Location,
        version: Reference | None = None,
        block_size: int | None = None,
        index_cache_size: int | None = None,
        metadata_cache_size: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, str] | None = None,
        serialized_manifest: bytes | None = None,
        default_scan_options: Mapping[str, Any] | None = None,
        metadata_cache_size_bytes: int | None = None,
        index_cache_size_bytes: int | None = None,
        read_params: Mapping[str, Any] | None = None,
        session: Session | None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        *,
        commit_handler: CommitHandler | None = None,
        storage_options_provider: None = None,
    ) -> None:
        """Open a table.

        Args:
            uri: Location of the table.
            version: Number of the version, name of a tag, or `(branch, number)`, where None means
                the main branch or the newest version; None for the latest.
            block_size: Accepted for compatibility; has no effect.
            index_cache_size: Accepted for compatibility; has no effect.
            metadata_cache_size: Accepted for compatibility; has no effect.
            commit_lock: As in `pilum.write_dataset`, for commits of this dataset.
            storage_options: Options of the object store.
            serialized_manifest: Accepted for compatibility; has no effect.
            default_scan_options: Default arguments of `scanner` for all scans.
            metadata_cache_size_bytes: As in `pilum.dataset`.
            index_cache_size_bytes: As in `pilum.dataset`.
            read_params: Accepted for compatibility; has no effect.
            session: Session whose caches are used; None for the caches of the process.
            namespace_client: A `lance_namespace.LanceNamespace`, which is asked for options of the
                object store, as in `pilum.dataset`; the location stays the given one.
            table_id: The id of the table in the namespace.
            namespace_client_managed_versioning: Has no effect: the namespace says whether it
                manages the versions of the table.
            base_store_params: As in `pilum.dataset`.
            commit_handler: As in `pilum.write_dataset`, for commits of this dataset.
            storage_options_provider: Must be None; older releases of the reference have it.

        Raises:
            DatasetNotFoundError: If no table exists there.
            VersionNotFoundError: If the version does not exist.
            TagNotFoundError: If the tag does not exist.
            BranchNotFoundError: If the branch does not exist.
            InvalidInputError: If only one of namespace and id is passed, or the namespace manages
                versions and a handler or lock is given too.
            UnsupportedFormatError: If the location or the table needs a feature that is not
                supported.
        """
        del block_size, index_cache_size, metadata_cache_size, serialized_manifest, read_params
        del namespace_client_managed_versioning
        if storage_options_provider is not None:
            raise InvalidInputError("storage_options_provider: pass storage_options")
        session = session_of(session, index_cache_size_bytes, metadata_cache_size_bytes)
        if default_scan_options:
            self._scan_defaults = require_dict("default_scan_options", default_scan_options)
        self._uri = location_text(uri)
        found = located_at(uri, storage_options, namespace_client, table_id)
        handler = only_handler(found.commit_handler, commit_handler, commit_lock)
        storage_options = with_base_params(found.storage_options, base_store_params)
        self._storage_options = (
            require_dict("storage_options", storage_options) if storage_options else {}
        )
        store = open_table(
            self._uri,
            self._storage_options,
            commit_lock=commit_lock,
            commit_handler=handler,
        )
        if version is None:
            self._snapshot = Snapshot.latest(store, session)
            return
        line = Line.at(store)
        wanted = locate(line, version)
        self._uri = uri_of_line(self._uri, line.branch, wanted.line.branch)
        self._snapshot = Snapshot.at(wanted.line.store, wanted.version, session)

    @classmethod
    def pinned(
        cls, uri: Location, storage_options: Mapping[str, str] | None, snapshot: Snapshot
    ) -> Self:
        """Return a dataset at a version that is already open."""
        dataset = cls.__new__(cls)
        dataset._uri = os.fspath(uri)
        dataset._storage_options = dict(storage_options or {})
        dataset._snapshot = snapshot
        return dataset

    def _on_line(self, snapshot: Snapshot) -> Self:
        """Return a dataset at another version of the table, possibly on another branch."""
        uri = uri_of_line(self._uri, self._snapshot.line.branch, snapshot.line.branch)
        found = self.pinned(uri, self._storage_options, snapshot)
        found._scan_defaults = self._scan_defaults
        return found

    @property
    def snapshot(self) -> Snapshot:
        """The pinned version, for the layers below."""
        return self._snapshot

    @property
    def given_handler(self) -> CommitHandler | None:
        """The given commit handler, if neither location nor storage options name one."""
        handler = handler_of(self._snapshot.store)
        named = handler_named(self._uri, self._storage_options)
        return None if handler == named else handler

    def advance(self, snapshot: Snapshot, since: Snapshot | None = None) -> None:
        """Move this dataset to a version that it has committed or found; it keeps its session.

        It never moves back, in whichever order threads advance it. Only if it is still at the
        version `since`, it moves to any version: a table may have been created again.
        """
        with _moves.lock:
            now = self._snapshot
            is_still_there = since is not None and now.manifest is since.manifest
            if is_still_there or snapshot.manifest.version >= now.manifest.version:
                self._snapshot = replace(snapshot, session=now.session)

    @property
    def uri(self) -> str:
        """The location as it was given; on a branch, the root of the branch."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """The schema of the table."""
        schema = self._snapshot.schema
        return given_schema(schema.arrow) if schema.has_marks else schema.arrow

    @property
    def lance_schema(self) -> LanceSchema:
        """The schema of the table with its field ids."""
        return LanceSchema(self._snapshot.schema)

    @property
    def _ds(self) -> Self:
        """The dataset itself; other packages expect an inner object of this name."""
        return self

    @property
    def max_field_id(self) -> int:
        """The highest field id of the schema; -1 if there are no columns."""
        return self._snapshot.schema.max_field_id

    @property
    def data_storage_version(self) -> str:
        """The file version that the table is written in, such as "2.1"."""
        return self._snapshot.manifest.data_format

    @property
    def has_stable_row_ids(self) -> bool:
        """Return whether rows keep their ids when they move."""
        return bool(self._snapshot.manifest.reader_flags & Feature.STABLE_ROW_IDS)

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the table."""
        return dict(self._snapshot.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """The metadata of the schema."""
        return dict(self._snapshot.schema.metadata or {})

    def session(self) -> Session:
        """Return the session of this dataset, which can be shared with other datasets."""
        return self._snapshot.session

    @property
    def initial_storage_options(self) -> dict[str, str] | None:
        """The storage options that the dataset was opened with; None if there were none."""
        return dict(self._storage_options) or None

    def latest_storage_options(self) -> dict[str, str] | None:
        """Return the same as `initial_storage_options`, because options are never refreshed."""
        return self.initial_storage_options

    def io_stats_snapshot(self) -> IOStats:
        """Return the requests and bytes since the last `io_stats_incremental`.

        All datasets of the process at this location are counted together, because they share open
        files.
        """
        return self._snapshot.store.io.snapshot()

    def io_stats_incremental(self) -> IOStats:
        """Return the same as `io_stats_snapshot`, and reset the counts to zero."""
        return self._snapshot.store.io.take()

    def config(self) -> dict[str, str]:
        """Return the config of the table."""
        return dict(self._snapshot.manifest.config)

    def __repr__(self) -> str:
        number = self._snapshot.manifest.version
        return f"{type(self).__name__}({self._uri!r}, version={number})"

    def _repr_html_(self) -> str:
        from pilum.pictures.html import card, facts
        from pilum.pictures.words import size_text

        manifest = self._snapshot.manifest
        files = [file for one in manifest.fragments for file in one.all_files]
        size_bytes = sum(file.size_bytes or 0 for file in files)
        known = [
            ("version", f"{manifest.version}, {manifest.timestamp:%Y-%m-%d %H:%M} UTC"),
            ("rows", f"{manifest.num_rows:,}"),
            ("fragments", f"{len(manifest.fragments):,}"),
            ("data", f"{size_text(size_bytes)}, file version {manifest.data_format}"),
        ]
        return card(self._uri, facts(known), manifest.schema._repr_html_())

    def __reduce__(self) -> tuple[Any, ...]:
        version = self._snapshot.manifest.version
        given, defaults = self.given_handler, dict(self._scan_defaults)
        return _reopen, (type(self), self._uri, version, self._storage_options, given, defaults)


class _Moves:
    """The lock under which datasets move to other versions; a child process has a fresh one."""

    def __init__(self) -> None:
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Take a fresh lock."""
        self.lock = threading.Lock()


_moves = _Moves()


def session_of(
    session: Session | None, index_bytes: int | None, metadata_bytes: int | None
) -> Session | None:
    """Return the session of a dataset, which is a new one if sizes of its caches are given."""
    if not isinstance(session, Session | None):
        raise InvalidInputError(f"session: expected a Session, found {session!r:.80}")
    if index_bytes is None and metadata_bytes is None:
        return session
    if session is not None:
        raise InvalidInputError("pass a session or the sizes of its caches, not both")
    return Session(index_bytes, metadata_bytes)


def store_of(
    uri: Location | DatasetBase,
    storage_options: Mapping[str, str] | None,
    commit_lock: CommitLock | None = None,
    commit_handler: CommitHandler | None = None,
) -> Store:
    """Return the store of a table that is named by its location or by a dataset.

    A dataset brings its own store, and therefore its own commit handler, unless another one is
    requested.
    """
    if not isinstance(uri, DatasetBase):
        return open_table(
            uri, storage_options, commit_lock=commit_lock, commit_handler=commit_handler
        )
    is_same = commit_lock is None and commit_handler is None
    if is_same and storage_options is None:
        return uri.snapshot.store
    return open_table(
        uri.uri,
        options_of(uri, storage_options),
        commit_lock=commit_lock,
        commit_handler=uri.given_handler if is_same else commit_handler,
    )


def pinned_by(uri: Location | DatasetBase, store: Store) -> Snapshot | None:
    """Return the version that a write to a dataset continues; None for a location."""
    return replace(uri.snapshot, store=store) if isinstance(uri, DatasetBase) else None


def options_of(
    uri: Location | DatasetBase, storage_options: Mapping[str, str] | None
) -> Mapping[str, str] | None:
    """Return the storage options with which `store_of` opens a table."""
    if storage_options is None and isinstance(uri, DatasetBase):
        return uri._storage_options
    return storage_options


def _reopen(
    cls: type[DatasetBase],
    uri: str,
    version: int,
    storage_options: dict[str, str],
    handler: CommitHandler | None,
    scan_defaults: dict[str, Any],
) -> DatasetBase:
    found = cls(uri, version, storage_options=storage_options, commit_handler=handler)
    found._scan_defaults = scan_defaults
    return found


LANCE_COMMIT_MESSAGE_KEY = "__lance_commit_message"
"""The property of a transaction that has the message of its commit."""
_MAX_PAUSE = 8
"""Maximum length of a pause, as a multiple of the time of an attempt."""


def properties_of(
    commit_message: str | None,
    transaction_properties: Mapping[str, str] | None,
    idempotency_key: JobKey | None = None,
) -> dict[str, str]:
    """Return the properties of a transaction, including the message and the key of its job."""
    given = transaction_properties
    found = require_texts("transaction_properties", given) if given else {}
    if idempotency_key is not None:
        found[JOB_PROPERTY] = Job(idempotency_key).property()
    if commit_message is not None:
        found |= require_texts("commit_message", {LANCE_COMMIT_MESSAGE_KEY: commit_message})
    return found


def commit_once(
    dataset: DatasetBase,
    idempotency_key: JobKey | None,
    change: Callable[[Mapping[str, str]], tuple[Snapshot, T]],
    nothing: T,
) -> T:
    """Apply a change and move the dataset to its version, unless the table contains its job.

    `change` takes the transaction properties, commits, and returns the new version and the result.
    If the table contains the job, the result is `nothing`, and the dataset moves to the version
    with the job, but never to an older version.
    """
    properties = properties_of(None, None, idempotency_key)
    snapshot = snapshot_of_job(dataset.snapshot.store, idempotency_key)
    result = nothing
    if snapshot is None:
        snapshot, result = change(properties)
    dataset.advance(snapshot)
    return result


def commit_operation(
    dataset: DatasetBase,
    snapshot: Snapshot,
    operation: Operation,
    properties: Mapping[str, str] | None = None,
) -> Snapshot:
    """Commit an operation and move the dataset to the new version, which is returned.

    `snapshot` is the version that the operation is made of, with the store that new files were
    written to. It is not read from the dataset, which another thread may have moved since.
    """
    read = snapshot.manifest
    transaction = Transaction(read.version, operation, properties=properties or {}, read=read)
    committed = publish(snapshot.store, transaction)
    dataset.advance(committed, since=snapshot)
    return committed


def commit_change(
    snapshot: Snapshot,
    change: Callable[[Snapshot], tuple[Operation, T]],
    properties: Mapping[str, str],
) -> tuple[Snapshot, T]:
    """Commit a change, which writes files and returns an operation and a result."""
    with durable_at_commit(snapshot.store) as store:
        operation, result = change(replace(snapshot, store=store))
        transaction = Transaction(snapshot.manifest.version, operation, properties=properties)
        return publish(store, transaction), result


def publish(
    store: Store, transaction: Transaction, scheme: NamingScheme = NamingScheme.V2
) -> Snapshot:
    """Commit a transaction, and delete the new files if the commit certainly failed."""
    manifest = commit(store, transaction, scheme=scheme, owns_files=True)
    if AUTO_CLEANUP_INTERVAL in manifest.config:
        clean_up_if_due(store, manifest)
    return Snapshot(without_pending(store), manifest)


def snapshot_of_job(store: Store, idempotency_key: JobKey | None) -> Snapshot | None:
    """Return the version that contains a job, or None; call this before doing the work."""
    if idempotency_key is None:
        return None
    manifest = find_job(store, Job(idempotency_key), latest_manifest(store))
    return None if manifest is None else Snapshot(store, manifest)


@dataclass(frozen=True)
class Retries:
    """The limits of retries: their number, and the time after which none begins."""

    conflict_retries: int = 10
    retry_timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        require_count("conflict_retries", self.conflict_retries)
        if not isinstance(self.retry_timeout, timedelta):
            raise InvalidInputError(
                f"retry_timeout: expected a timedelta, found {self.retry_timeout!r}"
            )

    def run(self, snapshot: Snapshot, change: Callable[[Snapshot], T]) -> T:
        """Run a change on a version, and again on the newest one after a conflict.

        CommitConflictError is raised if a retry cannot resolve it, CommitContentionError if every
        attempt conflicted with a concurrent commit.
        """
        end = time.monotonic() + self.retry_timeout.total_seconds()
        for attempt in range(self.conflict_retries + 1):
            began = time.monotonic()
            try:
                return change(snapshot)
            except CommitConflictError as error:
                if not error.retryable:
                    raise
                if RECEIVERS:
                    emit(DATASET_EVENTS, event="conflict", uri=snapshot.store.uri)
                if attempt == self.conflict_retries or time.monotonic() >= end:
                    raise CommitContentionError(
                        f"{snapshot.store.uri}: concurrent commits changed the same rows, "
                        f"{attempt + 1} times; try again later\n  {error}"
                    ) from error
            _pause(time.monotonic() - began, attempt, end)
            newest = Snapshot.latest(snapshot.store)
            snapshot = replace(newest, session=snapshot.session)
        raise AssertionError  # the last attempt returns or raises


def _pause(work_seconds: float, attempt: int, end: float) -> None:
    """Sleep in proportion to the work, longer each time, so that writers spread out."""
    longest = work_seconds * min(2**attempt, _MAX_PAUSE)
    time.sleep(max(0.0, min(random.uniform(0, longest), end - time.monotonic())))
