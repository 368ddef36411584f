"""Writing to a dataset: appending and overwriting rows, and manual commits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Self, TypedDict, TypeVar, Unpack

from pilum.arguments import (
    MOST_UNSIGNED,
    require_count,
    require_known,
    require_list,
    require_texts,
    with_keywords,
)
from pilum.dataset.base import DatasetBase, options_of, properties_of, store_of
from pilum.dataset.forms import Transaction
from pilum.dataset.metadata import FragmentMetadata
from pilum.dataset.namespaces import located_at, only_handler
from pilum.dataset.operations import LanceOperation
from pilum.dataset.write import WRITE_DEFAULTS, InsertKeywords, Write, write
from pilum.errors import DatasetNotFoundError, InvalidInputError
from pilum.storage.base import Store
from pilum.storage.open import Location
from pilum.table.commit.jobs import JobKey
from pilum.table.commit.operations.overwrite import Overwrite
from pilum.table.commit.publish import commit, commit_detached
from pilum.table.model.base_options import own_options, with_base_params
from pilum.table.model.names import NamingScheme
from pilum.table.read.snapshot import Snapshot
from pilum.table.upkeep.auto_cleanup import clean_up_if_due
from pilum.table.versions.commit_handler import CommitHandler, CommitLock

if TYPE_CHECKING:
    from pilum.file.session import LanceFileSession

__all__ = ["BulkCommitResult", "Writing"]

_TIMEOUT = timedelta(seconds=1800)

D = TypeVar("D", bound=DatasetBase)


class BulkCommitResult(TypedDict, Generic[D]):
    """The result of a batch commit.

    Attributes:
        dataset: The dataset at the new version.
        merged: The transaction that was committed.
    """

    dataset: D
    merged: Transaction


class Writing(DatasetBase):
    """Methods of `LanceDataset` for writing."""

    @with_keywords(InsertKeywords, WRITE_DEFAULTS)
    def insert(
        self, data: Any, *, mode: str = "append", **keywords: Unpack[InsertKeywords]
    ) -> None:
        """Write rows to the table and move this dataset to the new version.

        The arguments are those of `pilum.write_dataset`. If the table already contains the job of
        `idempotency_key`, this dataset moves to the version that contains it, unless it is at a
        later one.
        """
        require_known("insert has", keywords, InsertKeywords.__annotations__)
        wanted = Write.of(mode, keywords)
        snapshot = self._snapshot
        self.advance(write(snapshot.store, data, None, wanted, snapshot))

    @classmethod
    def commit(
        cls,
        base_uri: Location | DatasetBase,
        operation: LanceOperation.BaseOperation | Transaction,
        read_version: int | None = None,
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_message: str | None = None,
        enable_stable_row_ids: bool | None = None,
        commit_timeout: timedelta | None = _TIMEOUT,
        commit_handler: CommitHandler | None = None,
        idempotency_key: JobKey | None = None,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
        storage_options_provider: None = None,
        namespace_client: Any = None,
        table_id: Sequence[str] | None = None,
        namespace_client_managed_versioning: bool = False,
    ) -> Self:
        """Commit fragments that `write_fragments` wrote, as one new version.

        If the commit fails, the files of the fragments are kept, so that the caller can retry.

        Args:
            base_uri: Location of the table.
            operation: The operation or transaction to commit.
            read_version: The version that the operation is based on. It is optional for an
                overwrite and a restore, and a transaction has its own.
            commit_lock: As in `pilum.write_dataset`.
            storage_options: Options of the object store.
            enable_v2_manifest_paths: As in `pilum.write_dataset`; None means True.
            detached: Whether to create a detached version, which is not part of the history: it
                conflicts with nothing, is opened by its number only, and can be followed by further
                detached versions.
            max_retries: Maximum number of attempts when others commit concurrently. 0 means one
                attempt, and an overwrite must then directly follow `read_version`.
            commit_message: A message that is recorded in the history.
            enable_stable_row_ids: Whether rows keep their ids when they move, in a table that an
                overwrite creates.
            commit_timeout: No attempt except the first starts later than this after the call; None
                for no limit.
            commit_handler: As in `pilum.write_dataset`.
            idempotency_key: As in `pilum.write_dataset`. Files of a repeated job are kept.
            base_store_params: As in `pilum.dataset`.
            storage_options_provider: Must be None; older releases of the reference have it.
            namespace_client: As in `pilum.dataset`, besides the location.
            table_id: As in `pilum.dataset`.
            namespace_client_managed_versioning: Whether the namespace has to manage the versions of
                the table. Its description of the table decides otherwise.

        Returns:
            The dataset at the new version, or at the version that already contains the job.

        Raises:
            CommitConflictError: If a concurrent commit conflicts with this one.
            CommitContentionError: If every attempt lost to a concurrent commit.
            DatasetNotFoundError: If no table exists to append to.
            InvalidInputError: If an argument is invalid.
        """
        location = base_uri.uri if isinstance(base_uri, DatasetBase) else base_uri
        if storage_options_provider is not None:
            raise InvalidInputError("storage_options_provider: pass storage_options")
        _, storage_options, managed = located_at(
            base_uri, storage_options, namespace_client, table_id
        )
        if namespace_client_managed_versioning and managed is None:
            raise InvalidInputError(
                "namespace_client_managed_versioning: the namespace does not manage the versions "
                "of this table"
            )
        commit_handler = only_handler(managed, commit_handler, commit_lock)
        storage_options = with_base_params(storage_options, base_store_params)
        store = store_of(base_uri, storage_options, commit_lock, commit_handler)
        wanted = _transaction(store, operation, read_version).to_table()
        notes = properties_of(commit_message, wanted.properties, idempotency_key)
        attempts = require_count("max_retries", max_retries)
        seconds = _seconds(commit_timeout)
        wanted = replace(wanted, properties=notes)
        if enable_stable_row_ids and isinstance(wanted.operation, Overwrite):
            stable = replace(wanted.operation, stable_row_ids=True)
            wanted = replace(wanted, operation=stable)
        if attempts == 0 and isinstance(wanted.operation, Overwrite):
            wanted = replace(wanted, follows_directly=True)
        if detached:
            manifest = commit_detached(store, wanted)
        else:
            scheme = NamingScheme.V1 if enable_v2_manifest_paths is False else NamingScheme.V2
            manifest = commit(
                store, wanted, attempts=max(attempts, 1), timeout_seconds=seconds, scheme=scheme
            )
            clean_up_if_due(store, manifest)
        options = options_of(base_uri, storage_options)
        return cls.pinned(location, options, Snapshot(store, manifest))

    @classmethod
    def commit_batch(
        cls,
        dest: Location | DatasetBase,
        transactions: Sequence[Transaction],
        commit_lock: CommitLock | None = None,
        storage_options: Mapping[str, str] | None = None,
        enable_v2_manifest_paths: bool | None = None,
        detached: bool | None = False,
        max_retries: int = 20,
        *,
        commit_timeout: timedelta | None = _TIMEOUT,
        base_store_params: Mapping[str, Mapping[str, str]] | None = None,
    ) -> BulkCommitResult[Self]:
        """Commit several appends as one version.

        Args:
            dest: Location of the table.
            transactions: Append transactions. Their properties are merged; the later value is used
                if two have the same key.
            commit_lock: As in `commit`; the same holds for the next arguments.
            storage_options: Options of the object store.
            enable_v2_manifest_paths: Whether manifests of a new table use the V2 naming scheme.
            detached: Whether to create a detached version, which is not part of the history.
            max_retries: Maximum number of attempts when others commit concurrently.
            commit_timeout: No attempt except the first starts later than this after the call.
            base_store_params: As in `pilum.dataset`.

        Returns:
            The dataset at the new version, and the transaction that was committed.

        Raises:
            InvalidInputError: If there is no transaction, or one is not an append.
            CommitConflictError: If a concurrent commit conflicts with them.
        """
        merged = _merged(transactions)
        found = cls.commit(
            dest,
            merged,
            commit_lock=commit_lock,
            storage_options=storage_options,
            enable_v2_manifest_paths=enable_v2_manifest_paths,
            detached=detached,
            max_retries=max_retries,
            commit_timeout=commit_timeout,
            base_store_params=base_store_params,
        )
        return BulkCommitResult(dataset=found, merged=merged)

    def new_file_session(self) -> LanceFileSession:
        """Return a session that opens and writes single files below the root of the table."""
        from pilum.file.session import LanceFileSession

        return LanceFileSession(self._uri, own_options(self._storage_options))


def _seconds(timeout: timedelta | None) -> float:
    if timeout is None:
        return math.inf
    if not isinstance(timeout, timedelta) or timeout < timedelta(0):
        raise InvalidInputError(f"commit_timeout: expected a timedelta, found {timeout!r}")
    return timeout.total_seconds()


def _merged(transactions: Sequence[Transaction]) -> Transaction:
    fragments: list[FragmentMetadata] = []
    properties: dict[str, str] = {}
    transactions = require_list("transactions", transactions)
    for transaction in transactions:
        if not isinstance(getattr(transaction, "operation", None), LanceOperation.Append):
            raise InvalidInputError(f"transactions: expected appends, found {transaction!r}")
        fragments += transaction.fragments
        properties |= require_texts(
            "transaction_properties", transaction.transaction_properties or {}
        )
    if not transactions:
        raise InvalidInputError("transactions: expected at least one")
    read_version = min(map(_read_version, transactions))
    operation = LanceOperation.Append(fragments)
    return Transaction(read_version, operation, transaction_properties=properties)


def _read_version(transaction: Transaction) -> int:
    return require_count("read_version", transaction.read_version, most=MOST_UNSIGNED)


def _transaction(
    store: Store, operation: LanceOperation.BaseOperation | Transaction, read_version: int | None
) -> Transaction:
    if isinstance(operation, Transaction):
        if read_version is not None and read_version != _read_version(operation):
            raise InvalidInputError(
                f"read_version: the transaction is for {operation.read_version}, not {read_version}"
            )
        return operation
    if read_version is None:
        if not isinstance(operation, LanceOperation.Overwrite | LanceOperation.Restore):
            raise InvalidInputError(
                "read_version: needed, but for LanceOperation.Overwrite and Restore"
            )
        read_version = _latest(store)
    return Transaction(require_count("read_version", read_version, most=MOST_UNSIGNED), operation)


def _latest(store: Store) -> int:
    try:
        return Snapshot.latest(store).manifest.version
    except DatasetNotFoundError:
        return 0
